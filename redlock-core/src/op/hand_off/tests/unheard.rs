//! Adoptions that are asked again, because no task has read the answers.

use std::sync::atomic::AtomicUsize;

use futures_util::FutureExt;

use super::*;
use crate::{clock::manual::ManualClock, error::Cause, node::intercepted};

/// This node, whose answers to adoptions are not heard, so many `times`. It has run what it `runs`, and says so after
/// `delay`.
fn unheard(node: &MemoryNode, times: usize, runs: bool, delay: Duration) -> NodeSpec {
    let (name, asked) = (node.spec().name, AtomicUsize::new(0));
    intercepted::spec(&name.clone(), node, true, move |sender, _, commands| {
        let adopts = commands.iter().any(|it| matches!(it.action, Action::Adopt { .. }));
        if !adopts || asked.fetch_add(1, SeqCst) >= times {
            return sender.send(commands);
        }
        let error = NodeError::new(&name, NodeErrorKind::Server, "it was not heard");
        let error = NodeError { cause: Cause::Unheard, may_have_run: runs, ..error };
        let unheard = commands.iter().map(|_| Err(error.clone())).collect();
        let answers = sender.send(if runs { commands } else { Vec::new() });
        async move {
            answers.await;
            sleep(delay).await;
            unheard
        }
        .boxed()
    })
}

/// All nodes have the new value but one, which comes round at the second question.
#[tokio::test(start_paused = true)]
async fn an_adoption_that_was_not_heard_is_asked_again_and_released_on_every_node() {
    for resources in [&["r"][..], &["a", "b"]] {
        let nodes = nodes(3);
        let specs = (0..3).map(|at| unheard(&nodes[at], 1, at > 0, Duration::ZERO)).collect();
        let new = Redlock::builder().over(specs);
        let old = client(&nodes);
        drop(old.lock("warm").await.unwrap());
        let lease = old.lock_all(resources.iter().copied()).await.unwrap().into_lease();
        let second = copy(&lease);
        let guard = new.adopt(lease).await.unwrap();
        sleep(SECOND).await;
        assert_eq!(guard.votes(), 3);
        assert_eq!(reason(client(&nodes).adopt(second).await), LostReason::Refused);
        sleep(TTL).await;
        assert!(guard.is_valid(), "it renews itself");
        assert_eq!(guard.release().await.unwrap(), Released::Ours);
        sleep(SECOND).await;
        assert!(are_empty(&nodes), "the release has not reached the node that was asked last");
    }
}

/// A delete for a node that was asked again could overtake the question.
#[tokio::test(start_paused = true)]
async fn an_adoption_that_is_asked_again_deletes_nothing_of_the_giver_for_the_first_question() {
    let (nodes, deletes) = (nodes(3), Arc::new(AtomicUsize::new(0)));
    let specs = nodes.iter().map(|node| {
        let (asked, seen) = (AtomicUsize::new(0), Arc::clone(&deletes));
        intercepted::spec(node.name(), node, true, move |sender, _, commands| {
            let is = |check: fn(Action) -> bool| commands.iter().any(|it| check(it.action));
            seen.fetch_add(usize::from(is(|it| matches!(it, Action::Release { .. }))), SeqCst);
            if is(|it| matches!(it, Action::Adopt { .. })) && asked.fetch_add(1, SeqCst) == 0 {
                let error = NodeError::new(&"n".into(), NodeErrorKind::Server, "it was not heard");
                let unheard = Err(NodeError { cause: Cause::Unheard, ..error });
                let answers = commands.iter().map(|_| unheard.clone()).collect();
                return async { answers }.boxed();
            }
            sender.send(commands)
        })
    });
    let new = Redlock::builder().over(specs.collect());
    let lease = client(&nodes).lock("r").await.unwrap().into_lease();
    let _adopted = new.adopt(lease).await.unwrap();
    sleep(SECOND).await;
    assert_eq!(deletes.load(SeqCst), 0);
}

/// Its `SET` may have waited for as long as another client had the lock.
#[tokio::test(start_paused = true)]
async fn a_node_that_had_not_confirmed_the_lock_gives_no_vote_when_it_is_asked_again_either() {
    let nodes = nodes(3);
    let specs = nodes.iter().map(|node| unheard(node, 1, true, Duration::ZERO)).collect();
    let refuses = Arc::new(AtomicBool::new(false));
    let old = vec![without_deletes(&nodes[0], &refuses), nodes[1].spec(), nodes[2].spec()];
    let (old, new) = (Redlock::builder().ttl(TTL).over(old), Redlock::builder().over(specs));
    drop(old.lock("warm").await.unwrap());
    sleep(SECOND).await;
    refuses.store(true, SeqCst);
    nodes[0].slow(SECOND / 100);
    let lease = sent(old.lock("r").await.unwrap().into_lease());
    sleep(SECOND).await;
    nodes[0].slow(Duration::ZERO);
    nodes[1].remove("redlock:r");
    let error = new.adopt(lease).await.unwrap_err();
    let LockError::NoQuorum { attempts: 2, granted: 1, .. } = error else { panic!("{error:?}") };
}

/// The process stood still between the two questions, for longer than the lock was valid.
#[tokio::test(start_paused = true)]
async fn time_that_the_clock_missed_between_two_questions_counts() {
    let (nodes, clock) = (nodes(3), Arc::new(ManualClock::new()));
    let specs = nodes.iter().map(|node| unheard(node, 1, true, SECOND / 100)).collect();
    let new = Redlock::builder().clock(Arc::clone(&clock) as _).over(specs);
    let old = client(&nodes);
    for client in [&old, &new] {
        drop(client.lock("warm").await.unwrap());
    }
    let lease = old.lock("r").await.unwrap().into_lease();
    let (adopted, ()) = tokio::join!(new.adopt(lease), async {
        sleep(SECOND / 200).await;
        clock.wall_ahead.store(10_000_000_000, SeqCst);
    });
    assert_eq!(reason(adopted), LostReason::Expired);
    sleep(SECOND).await;
    assert!(are_empty(&nodes));
}

#[tokio::test(start_paused = true)]
async fn an_adoption_is_not_asked_again_once_the_client_is_closed() {
    let nodes = nodes(3);
    let specs = nodes.iter().map(|node| unheard(node, 1, true, Duration::ZERO)).collect();
    let new = Redlock::builder().over(specs);
    let old = client(&nodes);
    for client in [&old, &new] {
        drop(client.lock("warm").await.unwrap());
    }
    nodes.iter().for_each(|node| node.slow(SECOND / 100));
    let lease = old.lock("r").await.unwrap().into_lease();
    let (adopted, ()) = tokio::join!(new.adopt(lease), async {
        sleep(SECOND / 100).await;
        new.shutdown(Duration::ZERO).await;
    });
    assert!(matches!(adopted, Err(LockError::ShuttingDown { .. })), "{adopted:?}");
    sleep(SECOND).await;
    assert!(are_empty(&nodes), "what it had taken over is given back");
}

/// What was not heard counts from when it was asked, and the old validity has no second end (rule 7).
#[tokio::test(start_paused = true)]
async fn an_adoption_is_asked_again_for_as_long_as_the_old_validity_lasts() {
    let nodes = nodes(3);
    let specs = nodes.iter().map(|node| unheard(node, usize::MAX, true, TTL / 4)).collect();
    let new = Redlock::builder().ttl(TTL).node_timeout(TTL / 3).over(specs);
    let old = client(&nodes);
    drop(old.lock("warm").await.unwrap());
    let lease = old.lock("r").await.unwrap().into_lease();
    let begun = Instant::now();
    let error = new.adopt(lease).await.unwrap_err();
    let LockError::NoQuorum { attempts, granted: 0, .. } = error else { panic!("{error:?}") };
    assert_eq!(attempts, 4, "{:?}", begun.elapsed());
    sleep(SECOND).await;
    assert!(are_empty(&nodes), "what it may have taken over is given back");
}
