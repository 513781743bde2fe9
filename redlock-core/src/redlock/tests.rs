//! What a client tells of its locks, its requests and its nodes.

use std::{
    array::from_fn,
    future::IntoFuture,
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use tokio::time::sleep;

use super::*;
use crate::clock::manual::ManualClock;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn of_requests_that_wait_the_one_that_has_waited_longest_comes_first() {
    let redlock = Redlock::in_memory(1);
    let _guards = [redlock.lock("a").await.unwrap(), redlock.lock("b").await.unwrap()];
    for resource in ["b", "a"] {
        tokio::spawn(redlock.lock(resource).wait(60 * SECOND).into_future());
        sleep(SECOND).await;
    }
    let waiting = redlock.waiting();
    let resources: Vec<_> = waiting.iter().map(Waiting::resource).collect();
    assert_eq!(resources, ["b", "a"]);
    assert!(waiting[0].longest() > waiting[1].longest());
}

#[tokio::test(start_paused = true)]
async fn a_lease_brings_its_settings_along() {
    let node = MemoryNode::new();
    let client = |max_ttl: u32| {
        let builder = Redlock::builder().nodes([&node]).ttl(10 * SECOND);
        builder.max_ttl(max_ttl * SECOND).build().unwrap()
    };
    let (one, other, short) = (client(60), client(60), client(20));
    let guard = one.lock("r").ttl(20 * SECOND).clock_drift_factor(0.5).await.unwrap();
    let guard = other.adopt(guard.into_lease()).await.unwrap();
    assert!(guard.validity() < 11 * SECOND, "{:?}", guard.validity());
    guard.release().await.unwrap();
    let guard = one.lock("r").ttl(30 * SECOND).await.unwrap();
    let error = short.adopt(guard.into_lease()).await.unwrap_err();
    assert!(matches!(error, LockError::Config { .. }), "{error}");
    assert!(error.to_string().contains("over max_ttl"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_lock_in_doubt_is_not_among_those_that_are_held() {
    let clock = Arc::new(ManualClock::new());
    let redlock = Redlock::builder().nodes([MemoryNode::new()]).ttl(9 * SECOND);
    let redlock = redlock.clock(Arc::clone(&clock) as _).build().unwrap();
    let _guard = redlock.lock("r").await.unwrap();
    assert_eq!(redlock.held().len(), 1);
    clock.wall_ahead.store(5_000_000_000, SeqCst);
    assert_eq!(redlock.held().len(), 0);
    sleep(SECOND / 10).await;
    assert_eq!(redlock.held().len(), 1, "a renewal has cleared the doubt");
}

#[tokio::test(start_paused = true)]
async fn connect_tells_how_long_it_has_waited() {
    let node = MemoryNode::new();
    node.hang();
    let error = Redlock::connect([&node]).await.unwrap_err();
    let LockError::NoQuorum { waited, .. } = error else { panic!("{error}") };
    assert!(waited >= SECOND, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn no_quorum_tells_how_many_nodes_it_takes() {
    let nodes: [_; 5] = from_fn(|_| MemoryNode::new());
    let redlock = Redlock::builder().nodes(&nodes).build().unwrap();
    nodes[..3].iter().for_each(MemoryNode::stop);
    let error = redlock.try_lock("r").await.unwrap_err();
    let LockError::NoQuorum { quorum, .. } = &error else { panic!("{error}") };
    assert_eq!(*quorum, 3, "{error}");
    assert!(error.to_string().contains("of the 3 nodes needed"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn health_counts_the_deletes_that_are_owed_to_a_node() {
    let nodes: [_; 3] = from_fn(|_| MemoryNode::new());
    let redlock = Redlock::builder().nodes(&nodes).build().unwrap();
    let guard = redlock.lock("r").await.unwrap();
    nodes[0].stop();
    sleep(SECOND / 10).await;
    drop(guard);
    sleep(SECOND).await;
    let owed: Vec<_> = redlock.health().await.iter().map(|it| it.pending_cleanups).collect();
    assert_eq!(owed, [1, 0, 0]);
}
