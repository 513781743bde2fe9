//! Nodes that restart: what is healed on them, and for how long they give no votes.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{TTL, client};
use crate::{
    LockError, LostReason, MemoryNode, Redlock, Released, Restarts,
    testing::{are_empty, nodes},
};

/// A node that restarted and may vote again, as far as this client knows.
fn trusting(nodes: &[MemoryNode]) -> Redlock {
    Redlock::builder().nodes(nodes).ttl(TTL).restarts(Restarts::Trusted).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_rolling_restart_of_empty_nodes_wears_no_lock_away() {
    let nodes = nodes(5);
    let redlock = client(&nodes);
    let mut guards = Vec::new();
    for number in 0..10 {
        guards.push(redlock.lock(format!("r{number}")).await.unwrap());
    }
    for node in &nodes {
        node.restart_empty();
        sleep(TTL).await;
        assert_eq!(node.keys().len(), 10, "healed at the next renewal");
    }
    for guard in guards {
        assert_eq!(guard.votes(), 5);
        assert_eq!(guard.release().await.unwrap(), Released::Ours);
    }
    assert!(are_empty(&nodes));
}

/// Why a lock is lost when the first `restarted` of `count` nodes restart so long after each other.
async fn lost_after(
    count: usize,
    restarted: usize,
    apart: Duration,
    restart: impl AsyncFn(&MemoryNode),
) -> Option<LostReason> {
    let nodes = nodes(count);
    let redlock = client(&nodes);
    let guard = redlock.lock("r").await.unwrap();
    // Between two renewals.
    sleep(TTL + TTL / 9).await;
    for node in &nodes[..restarted] {
        restart(node).await;
        sleep(apart).await;
    }
    let held = timeout(5 * TTL, guard.lost()).await.is_err();
    assert_eq!(held, guard.votes() == count, "what is kept is on all nodes again");
    match guard.extend(TTL).await {
        Ok(()) => None,
        Err(LockError::Lost { reason, .. }) => Some(reason),
        Err(error) => panic!("{error}"),
    }
}

/// The rows about restarts of the table in docs/manual/guarantee.md.
#[tokio::test(start_paused = true)]
async fn a_majority_that_restarts_empty_between_two_renewals_ends_the_hold() {
    let empty = async |node: &MemoryNode| node.restart_empty();
    let with_data = async |node: &MemoryNode| {
        node.stop();
        sleep(Duration::from_millis(10)).await;
        node.start();
    };
    let (renewed, at_once) = (TTL / 3 + Duration::from_secs(1), Duration::ZERO);
    for (count, restarted) in [(1, 1), (3, 2), (3, 3), (5, 3)] {
        let lost = lost_after(count, restarted, at_once, empty).await;
        assert_eq!(lost, Some(LostReason::Refused), "{restarted} of {count} at once");
        let lost = lost_after(count, restarted, at_once, with_data).await;
        assert_eq!(lost, None, "{restarted} of {count} at once, with their data");
    }
    let lost = lost_after(3, 2, TTL / 9, empty).await;
    assert_eq!(lost, Some(LostReason::Refused), "no renewal came between them");
    for (count, restarted) in [(3, 1), (5, 2)] {
        let lost = lost_after(count, restarted, at_once, empty).await;
        assert_eq!(lost, None, "{restarted} of {count}: a minority");
    }
    for (count, restarted) in [(3, 2), (3, 3), (5, 5)] {
        let lost = lost_after(count, restarted, renewed, empty).await;
        assert_eq!(lost, None, "{restarted} of {count}, one after the other");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_healed_without_a_quorum() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let guard = redlock.lock("r").await.unwrap();
    nodes.iter().take(2).for_each(|node| assert!(node.remove("redlock:r")));
    guard.lost().await;
    sleep(TTL).await;
    assert!(nodes.iter().take(2).all(|node| node.keys().is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_client_is_not_healed() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let guard = redlock.lock("r").await.unwrap();
    nodes[0].remove("redlock:r");
    let other = Redlock::builder().nodes(&nodes[..1]).ttl(TTL).build().unwrap();
    let theirs = other.lock("r").await.unwrap();
    sleep(2 * TTL).await;
    assert_eq!(guard.votes(), 2);
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    assert_eq!(theirs.release().await.unwrap(), Released::Ours);
}

/// A heal counts as a `SET`. A release right after it leaves nothing behind (rule 5).
#[tokio::test(start_paused = true)]
async fn a_heal_is_cleaned_up_like_any_set() {
    let nodes = nodes(3);
    nodes[2].stop();
    let redlock = trusting(&nodes);
    let guard = redlock.lock("r").await.unwrap();
    assert_eq!(guard.votes(), 2);
    nodes[2].start();
    while !redlock.health().await.iter().all(crate::NodeHealth::is_up) {
        sleep(Duration::from_millis(10)).await;
    }
    nodes[2].slow(Duration::from_millis(20));
    guard.extend(TTL).await.unwrap();
    sleep(Duration::from_millis(25)).await;
    assert!(nodes[2].keys().is_empty(), "the heal is on its way");
    drop(guard);
    sleep(Duration::from_millis(100)).await;
    assert!(are_empty(&nodes));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_restarted_gives_no_votes_for_max_ttl() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    redlock.lock("warm").await.unwrap().release().await.unwrap();
    for node in &nodes[..2] {
        node.restart_empty();
    }
    sleep(Duration::from_secs(1)).await;
    let error = redlock.try_lock("r").await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("it restarted"), "{error}");
    let sit_out =
        async || redlock.health().await.iter().filter(|health| health.sits_out.is_some()).count();
    assert_eq!(sit_out().await, 2);
    assert!(redlock.health().await.iter().all(crate::NodeHealth::is_up));

    sleep(Duration::from_secs(58)).await;
    assert!(redlock.try_lock("r").await.is_err());
    sleep(Duration::from_secs(3)).await;
    assert_eq!(sit_out().await, 0);
    assert_eq!(redlock.try_lock("r").await.unwrap().votes(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_down_at_first_sits_out_once_there_was_a_quorum() {
    let nodes = nodes(3);
    nodes[2].stop();
    let redlock = client(&nodes);
    redlock.lock("warm").await.unwrap().release().await.unwrap();
    nodes[2].start();
    sleep(Duration::from_secs(2)).await;
    assert!(redlock.health().await[2].sits_out.is_some());
}

/// The quorum may come long after the first attempt.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_first_seen_after_a_late_quorum_sits_out() {
    let nodes = nodes(3);
    nodes[1..].iter().for_each(MemoryNode::stop);
    let redlock = client(&nodes);
    assert!(redlock.try_lock("r").await.unwrap_err().is_unavailable());
    nodes[1].start();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(redlock.try_lock("r").await.unwrap().votes(), 2);
    nodes[2].start();
    sleep(Duration::from_secs(2)).await;
    let sits_out: Vec<_> = redlock.health().await.iter().map(|it| it.sits_out.is_some()).collect();
    assert_eq!(sits_out, [false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn a_cold_start_waits_for_nothing() {
    let nodes = nodes(3);
    nodes.iter().for_each(MemoryNode::stop);
    let redlock = client(&nodes);
    assert!(redlock.try_lock("r").await.unwrap_err().is_unavailable());
    nodes.iter().for_each(MemoryNode::start);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(redlock.try_lock("r").await.unwrap().votes(), 3);
}
