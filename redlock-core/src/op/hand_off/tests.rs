//! Handing a lock from client to client, over in-memory nodes.

mod unheard;
mod votes;

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::{
    LockError, LostReason, MemoryNode, Redlock, Released,
    error::{NodeError, NodeErrorKind},
    node::{Action, NodeSpec, intercepted::answering},
    testing::{are_empty, nodes},
};

const TTL: Duration = Duration::from_secs(9);
const SECOND: Duration = Duration::from_secs(1);

fn client(nodes: &[MemoryNode]) -> Redlock {
    Redlock::builder().nodes(nodes).ttl(TTL).build().unwrap()
}

fn reason(outcome: Result<crate::LockGuard, LockError>) -> LostReason {
    match outcome {
        Err(LockError::Lost { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

/// A second lease of the same lock, as a copy of what was sent.
fn copy(lease: &Lease) -> Lease {
    let Lease { valid_until, ttl, clock_drift_factor, auto_extend, .. } = *lease;
    let Lease { fencing_token, min_hold_until, max_hold_until, keys_until, .. } = *lease;
    Lease {
        resources: lease.resources.clone(),
        value: lease.value.clone(),
        valid_until,
        ttl,
        clock_drift_factor,
        auto_extend,
        fencing_token,
        min_hold_until,
        max_hold_until,
        keys_until,
        unconfirmed: lease.unconfirmed.clone(),
    }
}

/// A lease as another process has it.
fn sent(lease: Lease) -> Lease {
    #[cfg(feature = "serde")]
    let lease = serde_json::from_str(&serde_json::to_string(&lease).unwrap()).unwrap();
    lease
}

/// This node, which runs no delete of its client while the flag is set.
fn without_deletes(node: &MemoryNode, refuses: &Arc<AtomicBool>) -> NodeSpec {
    let busy = NodeError::new(&node.name().into(), NodeErrorKind::Server, "BUSY");
    let deletes = |action| matches!(action, Action::Release { .. });
    answering(node.name(), node, refuses, deletes, Err(busy))
}

/// It would block the lock until it has expired.
#[tokio::test(start_paused = true)]
async fn a_lock_that_no_client_can_adopt_is_free_at_once() {
    let nodes = nodes(3);
    let (old, new) = (client(&nodes), client(&nodes));
    let reader = old.lock("r").shared().await.unwrap();
    let permit = old.lock("p").permits(1).await.unwrap();
    let over = old.lock("m").max_hold(SECOND).await.unwrap();
    let kept = old.lock("k").max_hold(SECOND).min_hold(3 * SECOND).await.unwrap();
    sleep(2 * SECOND).await;
    for guard in [reader, permit, over, kept] {
        let error = new.adopt(guard.into_lease()).await.unwrap_err();
        assert!(error.is_lost(), "{error}");
    }
    drop(new.try_lock("r").await.unwrap());
    drop(new.try_lock("p").permits(1).await.unwrap());
    drop(new.try_lock("m").await.unwrap());
    assert!(new.try_lock("k").await.unwrap_err().is_held(), "the rest of its min_hold");
    sleep(SECOND).await;
    drop(new.try_lock("k").await.unwrap());
}

/// Their keys are not those of the lock, which another client may have meanwhile.
#[tokio::test(start_paused = true)]
async fn a_reader_and_a_holder_of_a_permit_hand_nothing_over() {
    let nodes = nodes(3);
    let (old, new) = (client(&nodes), client(&nodes));
    for request in [old.lock("r").shared(), old.lock("r").permits(2)] {
        let lease = request.await.unwrap().into_lease();
        assert_eq!(lease.valid_until, Duration::ZERO);
        reason(new.adopt(lease).await);
        sleep(2 * TTL).await;
        assert!(are_empty(&nodes), "no client renews it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_passes_to_another_client_and_is_renewed_there_alone() {
    let nodes = nodes(3);
    let (old, new) = (client(&nodes), client(&nodes));
    let guard = old.lock("r").ttl(2 * TTL).await.unwrap();
    let handle = guard.handle();
    let lease = guard.into_lease();
    assert!(!handle.is_valid() && old.held().is_empty());
    assert_eq!(lease.resource(), "r");
    assert_eq!(format!("{lease:?}"), r#"Lease { resource: "r", .. }"#);
    assert!(nodes.iter().all(|node| node.keys() == ["redlock:r"]), "the keys stay");

    let guard = new.adopt(lease).await.unwrap();
    assert!(guard.validity() > 2 * TTL - SECOND);
    assert_eq!((guard.resource(), guard.votes(), new.held().len()), ("r", 3, 1));
    sleep(100 * TTL).await;
    assert!(guard.is_valid() && !handle.is_valid());
    assert!(old.try_lock("r").await.unwrap_err().is_held());
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    drop(old.try_lock("r").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_adopted_once() {
    let nodes = nodes(3);
    let lease = client(&nodes).lock("r").await.unwrap().into_lease();
    let again = copy(&lease);
    let first = client(&nodes).adopt(lease).await.unwrap();
    assert_eq!(reason(client(&nodes).adopt(again).await), LostReason::Refused);
    assert!(first.is_valid() && first.votes() == 3);
    assert_eq!(first.release().await.unwrap(), Released::Ours);
}

/// Two clients that adopt at once: one of them has it, or neither, and no key is left in the end.
#[tokio::test(start_paused = true)]
async fn of_two_clients_that_adopt_at_once_one_has_the_lock_at_most() {
    for slow in 0..3 {
        let nodes = nodes(3);
        let clients = [client(&nodes), client(&nodes)];
        for client in &clients {
            drop(client.lock("warm").await.unwrap());
        }
        let lease = client(&nodes).lock("r").await.unwrap().into_lease();
        nodes[slow].slow(Duration::from_millis(7));
        let again = copy(&lease);
        let (one, other) = tokio::join!(clients[0].adopt(lease), clients[1].adopt(again));
        assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
        drop((one, other));
        sleep(SECOND).await;
        assert!(are_empty(&nodes));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_no_client_adopts_expires_and_is_refused_from_then_on() {
    let nodes = nodes(3);
    let (old, new) = (client(&nodes), client(&nodes));
    let begun = Instant::now();
    let lease = old.lock("r").await.unwrap().into_lease();
    let again = copy(&lease);
    drop(new.lock("r").wait(2 * TTL).await.unwrap());
    let waited = begun.elapsed();
    assert!(waited >= TTL - SECOND && waited <= TTL + SECOND, "{waited:?}");
    assert_eq!(reason(new.adopt(lease).await), LostReason::Expired);

    // By the clock of the nodes it is there for longer, and other clients go by theirs.
    let _held = old.lock("r").ttl(2 * TTL).await.unwrap();
    assert_eq!(reason(new.adopt(again).await), LostReason::Expired);
}

/// The answers came, but after the old validity: another client may have had the lock in between.
#[tokio::test(start_paused = true)]
async fn an_adoption_that_is_answered_too_late_counts_for_nothing() {
    let nodes = nodes(3);
    let (old, new) = (client(&nodes), client(&nodes));
    drop(new.lock("warm").await.unwrap());
    let guard = old.lock("r").auto_extend(false).await.unwrap();
    sleep(guard.validity() - Duration::from_millis(10)).await;
    let lease = guard.into_lease();
    nodes.iter().for_each(|node| node.slow(Duration::from_millis(20)));
    assert_eq!(reason(new.adopt(lease).await), LostReason::Expired);
    sleep(SECOND).await;
    assert!(are_empty(&nodes), "and is given back");
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_is_handed_to_no_client() {
    let nodes = nodes(3);
    let (old, new) = (client(&nodes), client(&nodes));
    let guard = old.lock("r").max_hold(SECOND).await.unwrap();
    guard.lost().await;
    assert_eq!(reason(new.adopt(guard.into_lease()).await), LostReason::Expired);

    let released = old.lock("s").await.unwrap();
    let lease = released.into_lease();
    nodes.iter().for_each(MemoryNode::clear);
    assert_eq!(reason(new.adopt(lease).await), LostReason::Refused);
}

#[tokio::test(start_paused = true)]
async fn without_a_quorum_the_lock_is_given_back() {
    let nodes = nodes(3);
    let (old, new) = (client(&nodes), client(&nodes));
    drop(new.lock("warm").await.unwrap());
    let lease = old.lock("r").await.unwrap().into_lease();
    nodes[..2].iter().for_each(MemoryNode::stop);
    sleep(SECOND).await;
    let error = new.adopt(lease).await.unwrap_err();
    let LockError::NoQuorum { granted, quorum, .. } = &error else { panic!("{error}") };
    assert!(*granted < *quorum, "{error}");
    sleep(SECOND).await;
    assert!(nodes[2].keys().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_fenced_lock_keeps_its_token_and_the_next_one_is_larger() {
    let nodes = nodes(3);
    let (old, new) = (client(&nodes), client(&nodes));
    let guard = old.lock("r").fenced().await.unwrap();
    let token = guard.fencing_token().unwrap();
    // A waiter: the grant came with a range of numbers for it.
    let lease = guard.into_lease();
    assert_eq!(lease.fencing_token(), Some(token));
    let guard = new.adopt(lease).await.unwrap();
    assert_eq!(guard.fencing_token(), Some(token));
    let next = tokio::spawn({
        let request = new.lock("r").fenced();
        async move { request.await.unwrap().fencing_token().unwrap() }
    });
    sleep(SECOND).await;
    drop(guard);
    assert!(next.await.unwrap() > token, "handed over within the process");
    assert!(old.lock("r").fenced().await.unwrap().fencing_token().unwrap() > token);
}

#[tokio::test(start_paused = true)]
async fn the_waiters_of_both_clients_get_the_lock_afterwards() {
    let nodes = nodes(3);
    let (old, new) = (client(&nodes), client(&nodes));
    let guard = old.lock("r").await.unwrap();
    let waiting = [&old, &new].map(|client| {
        let client = client.clone();
        tokio::spawn(async move { drop(client.lock("r").wait(10 * TTL).await.unwrap()) })
    });
    sleep(SECOND).await;
    let guard = new.adopt(guard.into_lease()).await.unwrap();
    sleep(3 * TTL).await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()) && guard.is_valid());
    drop(guard);
    for waiting in waiting {
        waiting.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_settings_of_the_hold_go_along() {
    let nodes = nodes(3);
    let (old, new) = (client(&nodes), client(&nodes));
    let request = old.lock("r").min_hold(50 * SECOND).max_hold(30 * SECOND);
    let lease = request.await.unwrap().into_lease();
    sleep(5 * SECOND).await;
    let begun = Instant::now();
    let guard = new.adopt(lease).await.unwrap();
    timeout(60 * SECOND, guard.lost()).await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 25, "max_hold");
    drop(guard);
    sleep(15 * SECOND).await;
    assert!(new.try_lock("r").await.unwrap_err().is_held(), "min_hold");
    sleep(6 * SECOND).await;
    drop(new.try_lock("r").await.unwrap());

    let lease = old.lock("s").auto_extend(false).await.unwrap().into_lease();
    let begun = Instant::now();
    timeout(60 * SECOND, new.adopt(lease).await.unwrap().lost()).await.unwrap();
    assert!(begun.elapsed() < TTL, "it is not renewed");
}

/// Else each hand-over in a row would lengthen `max_hold`.
#[tokio::test(start_paused = true)]
async fn the_time_that_an_adoption_takes_counts() {
    let nodes = nodes(3);
    let (old, new) = (client(&nodes), client(&nodes));
    let lease = old.lock("r").max_hold(30 * SECOND).await.unwrap().into_lease();
    nodes.iter().for_each(|node| node.slow(SECOND / 50));
    let begun = Instant::now();
    let adopted = new.adopt(lease).await.unwrap();
    assert!(adopted.age() >= SECOND / 50, "{:?}", adopted.age());
    timeout(60 * SECOND, adopted.lost()).await.unwrap();
    assert!(begun.elapsed() <= 30 * SECOND + SECOND / 100, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_adoption_that_is_dropped_leaves_no_key() {
    for polls in 0..3 {
        let nodes = nodes(3);
        let (old, new) = (client(&nodes), client(&nodes));
        drop(new.lock("warm").await.unwrap());
        let lease = old.lock("r").await.unwrap().into_lease();
        nodes.iter().for_each(|node| node.slow(Duration::from_millis(5)));
        let adopting = new.adopt(lease);
        let _ = timeout(Duration::from_millis(2 * polls), adopting).await;
        // It was not asked, or was given back.
        sleep(if polls == 0 { 2 * TTL } else { SECOND }).await;
        assert!(are_empty(&nodes), "{polls}");
    }
}

/// The job of the old holder ran.
#[tokio::test(start_paused = true)]
async fn an_adoption_that_is_dropped_leaves_the_keys_until_min_hold_is_over() {
    let nodes = nodes(3);
    let (old, new) = (client(&nodes), client(&nodes));
    drop(new.lock("warm").await.unwrap());
    let lease = old.lock("r").min_hold(50 * SECOND).await.unwrap().into_lease();
    nodes.iter().for_each(|node| node.slow(Duration::from_millis(5)));
    timeout(Duration::from_millis(2), new.adopt(lease)).await.unwrap_err();
    for _ in 0..48 {
        sleep(SECOND).await;
        assert!(new.try_lock("r").await.unwrap_err().is_held());
    }
    sleep(2 * SECOND).await;
    drop(new.try_lock("r").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_shuts_down_adopts_nothing() {
    let nodes = nodes(3);
    let (old, new) = (client(&nodes), client(&nodes));
    let lease = old.lock("r").await.unwrap().into_lease();
    new.shutdown(Duration::ZERO).await;
    let error = new.adopt(lease).await.unwrap_err();
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
}

#[cfg(feature = "serde")]
#[tokio::test(start_paused = true)]
async fn a_lease_can_be_sent_as_text_and_nothing_else_is_read_as_one() {
    let nodes = nodes(3);
    let (old, new) = (client(&nodes), client(&nodes));
    let guard = old.lock("r").fenced().min_hold(SECOND).max_hold(TTL).await.unwrap();
    let token = guard.fencing_token();
    let text = serde_json::to_string(&guard.into_lease()).unwrap();
    let guard = new.adopt(serde_json::from_str(&text).unwrap()).await.unwrap();
    assert_eq!((guard.resource(), guard.fencing_token()), ("r", token));
    let value = text.split('"').find(|word| word.len() > 40).unwrap().to_owned();
    for (what, with, told) in [
        ("[3,", "[4,", "version 4"),
        ("[\"r\"]", "[]", "the set is empty"),
        ("[\"r\"]", "[\"r\",\"\"]", "it is empty"),
        (&*value, "secret", "no lease"),
        (&*token.unwrap().to_string(), "0", "no lease"),
        (",[]]", ",[\"secret\"]]", "no lease"),
    ] {
        let error = serde_json::from_str::<Lease>(&text.replace(what, with)).unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
        assert!(!error.to_string().contains("secret"));
    }
}

/// The keys outlive a lease that was extended for longer before. A crash of the adopter would block the next holder for
/// longer than its ttl, and the nodes would be reported for odd expiries.
#[tokio::test(start_paused = true)]
async fn an_adopter_knows_how_long_the_keys_live() {
    let nodes = nodes(3);
    let (old, new) = (client(&nodes), client(&nodes));
    let guard = old.lock("r").ttl(TTL).await.unwrap();
    guard.extend(6 * TTL).await.unwrap();
    guard.extend(TTL).await.unwrap();
    let guard = new.adopt(sent(guard.into_lease())).await.unwrap();
    let left = guard.hold().lease().expired_by.since(new.client().nodes.clock.now());
    let lives = nodes[0].remaining("redlock:r").unwrap();
    assert!(lives > 5 * TTL && left >= lives, "{left:?} {lives:?}");
}

/// The wall clock of the giver may be anywhere. No key lives for longer than `max_ttl`.
#[tokio::test(start_paused = true)]
async fn a_giver_whose_clock_is_ahead_does_not_make_keys_outlive_max_ttl() {
    let nodes = nodes(3);
    let (old, new) = (client(&nodes), client(&nodes));
    let mut lease = old.lock("r").ttl(TTL).await.unwrap().into_lease();
    lease.keys_until = Duration::MAX;
    let guard = new.adopt(sent(lease)).await.unwrap();
    let Client { nodes, settings, .. } = &**new.client();
    let left = guard.hold().lease().expired_by.since(nodes.clock.now());
    assert!((TTL..=settings.max_ttl).contains(&left), "{left:?}");
}
