//! Waiting for the locks of a set.

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use tokio::{runtime::Builder, time::Instant};

use super::*;
use crate::{
    MemoryNode, Redlock,
    error::{NodeError, NodeErrorKind},
    node::intercepted::{answering, far_away},
    op::acquire::testing::{first_request, terms},
    options::LockOptions,
    testing::nodes,
    wait::{FailedAttempt, queue_node},
};

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);
const ROUND_TRIP: Duration = Duration::from_millis(20);

/// No time passes there: neither a pause nor an answer ends.
#[test]
fn a_place_is_not_kept_on_a_runtime_that_was_shut_down() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    let redlock = Redlock::in_memory(1);
    let mut entry = runtime.block_on(async {
        drop(redlock.lock("warm").await.unwrap());
        let value = redlock.client().fresh_value().unwrap();
        let mut entry = Entry::new(&redlock.client().nodes, &"redlock:r".into(), value);
        assert!(matches!(entry.report().await, Report::At(_)));
        Some(Box::new(entry))
    });
    drop(runtime);
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        handle.block_on(keep_entry(&mut entry, Duration::ZERO, ROUND_TRIP));
        done.send(()).unwrap();
    });
    is_done.recv_timeout(MINUTE).unwrap();
}

async fn clients<const N: usize>(nodes: &[MemoryNode]) -> [Redlock; N] {
    let far = || nodes.iter().map(|it| far_away(it.name(), it, ROUND_TRIP / 2)).collect();
    let clients = [(); N].map(|()| Redlock::builder().wait(MINUTE).over(far()));
    for client in &clients {
        drop(client.lock("warm").await.unwrap());
    }
    clients
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("key {number:02}")).collect()
}

#[test]
fn a_set_asks_about_more_keys_while_they_are_free_and_about_fewer_when_it_waits() {
    let at = |ms: u64| Moment::ORIGIN + Duration::from_millis(ms);
    let mut ahead = Ahead { count: FIRST_AHEAD, last: 0, until: at(500) };
    let mut after = |place, ms| ahead.after(place, at(ms), 10 * MS);
    assert_eq!(after(0, 600), Some(1..9), "it has waited for the first for long");
    assert_eq!(after(1, 610), None);
    assert_eq!(after(8, 619), Some(9..25));
    assert_eq!(after(9, 638), None);
    assert_eq!(after(10, 639), Some(11..19), "it has waited");
    assert_eq!(after(18, 640), Some(19..35));
    for (place, count) in [(19, 8), (20, 4), (21, 2), (22, 1), (23, 1), (24, 1)] {
        let ms = 1000 * u64::try_from(place).unwrap();
        assert_eq!(after(place, ms), Some(place + 1..place + 1 + count));
    }
}

/// It must not hold up the other clients.
#[tokio::test(start_paused = true)]
async fn a_request_without_a_quorum_joins_no_queue_ahead() {
    let redlock = Redlock::builder().nodes(nodes(3)).wait(MINUTE).build().unwrap();
    drop(redlock.lock("warm").await.unwrap());
    let client = redlock.client();
    let terms = terms(client, &LockOptions::new());
    for no_quorum in [true, false] {
        let (request, mut front) = first_request(client, &terms);
        let failure = FailedAttempt { no_quorum, ..FailedAttempt::full() };
        let (begun, end) = (request.begun, request.begun + MINUTE);
        let pause = Pause { begun, end, failure: Some(&failure), last: None };
        request.ask_ahead(&mut front, &pause).unwrap();
        assert_eq!(front.entry.is_some(), !no_quorum);
    }
}

/// It must not hold up the other clients, before any of its keys.
#[tokio::test(start_paused = true)]
async fn a_set_that_loses_its_quorum_leaves_all_queues() {
    let nodes = nodes(3);
    let [holder, other] = clients(&nodes).await;
    let is_cut_off = Arc::new(AtomicBool::new(false));
    let kept = queue_node(&other.client().nodes, "redlock:b").unwrap();
    let partly = nodes.iter().enumerate().map(|(index, node)| {
        let failed = NodeError::new(&node.name().into(), NodeErrorKind::Server, "broken");
        answering(node.name(), node, &is_cut_off, move |_| index != kept, Err(failed))
    });
    let ours = Redlock::builder().wait(MINUTE).over(partly.collect());
    drop(ours.lock("warm").await.unwrap());
    let held = holder.lock("b").await.unwrap();
    let set = tokio::spawn(ours.lock_all(["a", "b"]).into_future());
    let waits = async || {
        sleep(2000 * MS).await;
        let mut waits = Vec::new();
        for name in ["a", "b"] {
            waits.push(other.inspect(name).await.unwrap().waiting().len());
        }
        waits
    };
    assert_eq!(waits().await, [1, 1]);
    is_cut_off.store(true, SeqCst);
    // It asks in its turn.
    drop(held);
    // No node that it does not reach hears that it leaves.
    assert_eq!(waits().await[1], 0);
    assert!(!set.is_finished());
}

/// The task before it was the first in the queue between clients.
#[tokio::test(start_paused = true)]
async fn a_set_keeps_a_place_that_it_inherits_while_it_waits_in_its_process() {
    let nodes = nodes(3);
    let [holder, ours] = clients(&nodes).await;
    let _held = holder.lock("a").await.unwrap();
    let _mine = ours.lock("b").await.unwrap();
    let first = tokio::spawn(ours.lock("a").into_future());
    sleep(500 * MS).await;
    let set = tokio::spawn(ours.lock_all(["a", "b"]).into_future());
    sleep(500 * MS).await;
    first.abort();
    for _ in 0..10 {
        sleep(1000 * MS).await;
        assert_eq!(holder.inspect("a").await.unwrap().waiting().len(), 1);
    }
    assert!(!set.is_finished());
}

/// One after the other would be 63 round trips.
#[tokio::test(start_paused = true)]
async fn a_set_whose_turn_comes_asks_about_its_other_keys_together() {
    let nodes = nodes(3);
    let [holder, ours] = clients(&nodes).await;
    let held = holder.lock_all(keys(64)).await.unwrap();
    let waits = tokio::spawn(ours.lock_all(keys(64)).into_future());
    sleep(5 * ROUND_TRIP).await;
    drop(held);
    let begun = Instant::now();
    drop(waits.await.unwrap().unwrap());
    // The release, three times the queues of more and more keys, and the attempt.
    assert!(begun.elapsed() <= 6 * ROUND_TRIP, "{:?}", begun.elapsed());
}

/// The set waits for one key and then for another. It does not stand in the queues behind that.
#[tokio::test(start_paused = true)]
async fn a_set_that_waits_for_a_key_leaves_the_later_ones_to_other_clients() {
    let nodes = nodes(3);
    let [holder, ours, other] = clients(&nodes).await;
    let keys = keys(12);
    let first = holder.lock(&*keys[0]).await.unwrap();
    let second = holder.lock(&*keys[1]).await.unwrap();
    let waits = tokio::spawn(ours.lock_all(keys.clone()).into_future());
    sleep(5 * ROUND_TRIP).await;
    drop(first);
    sleep(5 * ROUND_TRIP).await;
    for key in &keys[2..] {
        let seen = other.inspect(key).await.unwrap();
        assert!(seen.waiting().is_empty(), "{key}");
        assert!(other.try_lock(key.as_str()).await.is_ok(), "{key}");
    }
    let waiting = other.inspect(&keys[1]).await.unwrap();
    assert_eq!(waiting.waiting().len(), 1);
    drop(second);
    let begun = Instant::now();
    drop(waits.await.unwrap().unwrap());
    assert!(begun.elapsed() <= 8 * ROUND_TRIP, "{:?}", begun.elapsed());
}

/// A single try for one lock is refused at once. It must not make the set ask for the other lock in the turn of another
/// client.
#[tokio::test(start_paused = true)]
async fn a_set_leaves_the_turn_of_another_client_alone_whatever_its_own_client_tries() {
    let nodes = nodes(3);
    let [holder, ours] = clients(&nodes).await;
    let far = nodes.iter().map(|it| far_away(it.name(), it, ROUND_TRIP)).collect();
    let far = Redlock::builder().wait(MINUTE).over(far);
    let held = holder.lock("a").await.unwrap();
    let theirs = tokio::spawn(far.lock("a").into_future());
    sleep(500 * MS).await;
    let set = tokio::spawn(ours.lock_all(["a", "b"]).into_future());
    sleep(500 * MS).await;
    let tries = async || {
        let tried = timeout(50 * MS, ours.try_lock("b").retry_delay(MS).into_future()).await;
        assert!(tried.unwrap().is_err_and(|error| error.is_held()));
        sleep(MS).await;
    };
    for _ in 0..50 {
        tries().await;
    }
    drop(held);
    while !theirs.is_finished() {
        tries().await;
    }
    let theirs = theirs.await.unwrap().unwrap();
    assert!(!set.is_finished(), "it has taken the turn of the other client");
    drop(theirs);
    drop(set.await.unwrap().unwrap());
}

/// The turn for a later key comes while the set looks at the key before.
#[tokio::test(start_paused = true)]
async fn a_set_keeps_the_turns_that_come_before_it_looks() {
    for released_after in [5, 12, 16, 22] {
        let nodes = nodes(3);
        let [holder, ours, single] = clients(&nodes).await;
        let keys = keys(6);
        let [first, third, fourth] = [0, 2, 3].map(|it: usize| holder.lock(&*keys[it]));
        let (first, third, fourth) =
            (first.await.unwrap(), third.await.unwrap(), fourth.await.unwrap());
        let set = tokio::spawn(ours.lock_all(keys.clone()).into_future());
        sleep(5 * ROUND_TRIP).await;
        drop(first);
        let begun = Instant::now();
        let single = tokio::spawn(single.lock(&*keys[2]).into_future());
        sleep(released_after * MS).await;
        drop(third);
        sleep(100 * MS - released_after * MS).await;
        drop(fourth);
        drop(set.await.unwrap().unwrap());
        assert!(begun.elapsed() < 200 * MS, "{released_after}: {:?}", begun.elapsed());
        assert!(!single.is_finished());
        drop(single.await.unwrap().unwrap());
    }
}
