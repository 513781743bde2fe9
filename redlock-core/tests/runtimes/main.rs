//! A client outlives the runtime that its tasks run on (rule 13). [`ending`]: it ends while another one
//! waits for an answer. [`standing_still`]: it does not end, and does nothing. [`without`]: there is none.

#![allow(clippy::unwrap_used, reason = "these are tests, if not all of them are #[test]")]

mod ending;
mod standing_still;
mod without;

use std::{
    future::IntoFuture,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use redlock_core::{MemoryNode, Redlock, Released};
use tokio::{runtime::Runtime, time::sleep};

fn nodes() -> [MemoryNode; 3] {
    std::array::from_fn(|_| MemoryNode::new())
}

fn client(nodes: &[MemoryNode]) -> Redlock {
    // Longer than any delay of a busy machine: the events that these tests wait for must not come
    // from the clock.
    let (ttl, wait) = (Duration::from_secs(60), Duration::from_secs(30));
    let builder = Redlock::builder().nodes(nodes).node_timeout(Duration::from_secs(1));
    builder.ttl(ttl).wait(wait).build().unwrap()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A runtime that has a thread of its own.
fn driven() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// A request that tries once, so that no second attempt makes up for a first one without tasks.
#[test]
fn the_first_request_on_the_next_runtime_starts_the_tasks_again() {
    let redlock = client(&nodes());
    for _ in 0..3 {
        runtime().block_on(async {
            let guard = redlock.try_lock("r").await.unwrap();
            assert_eq!(guard.release().await.unwrap(), Released::Ours);
        });
    }
}

#[test]
fn a_release_that_is_under_way_when_its_runtime_ends_is_sent_again() {
    let nodes = nodes();
    let redlock = client(&nodes);
    let first = runtime();
    first.block_on(async {
        let guard = redlock.lock("r").await.unwrap();
        nodes.iter().for_each(MemoryNode::hang);
        drop(guard);
        tokio::task::yield_now().await; // the deletes leave
    });
    drop(first);
    nodes.iter().for_each(MemoryNode::resume);
    let _ = runtime().block_on(async { redlock.lock("r").await.unwrap() });
}

#[test]
fn a_waiter_on_a_living_runtime_goes_on_when_the_runtime_of_the_tasks_ends() {
    let nodes = nodes();
    let (redlock, other) = (client(&nodes), client(&nodes));
    let (of_tasks, of_other) = (runtime(), runtime());
    of_tasks.block_on(async { drop(redlock.lock("warm").await.unwrap()) });
    let held = of_other.block_on(async { other.lock("r").await.unwrap() });
    let waiter = std::thread::spawn({
        let redlock = redlock.clone();
        move || runtime().block_on(async { redlock.lock("r").await.map(drop) })
    });
    of_tasks.block_on(async { sleep(Duration::from_millis(300)).await });
    drop(of_tasks);
    of_other.block_on(async { held.release().await.unwrap() });
    waiter.join().unwrap().unwrap();
}

/// A guard that the test asks nothing of, on another runtime than that of the client's tasks.
#[test]
fn a_guard_is_renewed_after_the_runtime_of_the_tasks_has_ended() {
    let nodes = nodes();
    let ttl = Duration::from_secs(9);
    let builder = Redlock::builder().nodes(&nodes).node_timeout(Duration::from_secs(3));
    let redlock = builder.ttl(ttl).build().unwrap();
    let (first, second) = (runtime(), runtime());
    first.block_on(async { drop(redlock.lock("warm").await.unwrap()) });
    let (locked, is_locked) = tokio::sync::oneshot::channel();
    let (renewed, is_renewed) = tokio::sync::oneshot::channel::<()>();
    let held = std::thread::spawn(move || {
        second.block_on(async {
            let guard = redlock.lock("r").await.unwrap();
            locked.send(()).unwrap();
            is_renewed.await.unwrap();
            guard.release().await.unwrap()
        })
    });
    first.block_on(is_locked).unwrap();
    drop(first);
    let left = || nodes[0].remaining("redlock:r").unwrap();
    for _ in 0..2 {
        let (mut before, limit) = (left(), Instant::now() + Duration::from_secs(30));
        while left() <= before {
            before = left();
            assert!(Instant::now() < limit);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    renewed.send(()).unwrap();
    assert_eq!(held.join().unwrap(), Released::Ours);
}

/// Futures that begin on a runtime are polled after it has ended, on another runtime and outside
/// any runtime.
#[test]
fn a_future_goes_on_when_the_runtime_it_began_on_has_ended() {
    let nodes = nodes();
    let (redlock, other) = (client(&nodes), client(&nodes));
    let (first, second) = (runtime(), runtime());
    let held = second.block_on(async { other.lock("r").await.unwrap() });
    let mut waiting = redlock.lock("r").into_future();
    let mut shutdown = Box::pin(other.shutdown(Duration::from_secs(60)));
    first.block_on(async {
        drop(redlock.lock("warm").await.unwrap());
        assert!((&mut waiting).now_or_never().is_none());
        assert!((&mut shutdown).now_or_never().is_none());
        sleep(Duration::from_millis(50)).await;
        assert!((&mut waiting).now_or_never().is_none());
    });
    drop(first);
    second.block_on(async move {
        assert!((&mut shutdown).now_or_never().is_none());
        assert!((&mut waiting).now_or_never().is_none());
        drop(held);
        shutdown.await;
        drop(waiting.await.unwrap());
    });
}

/// The job was handed in while the node was being connected, and never left.
#[test]
fn a_release_that_is_unsent_when_its_runtime_ends_is_owed() {
    let nodes = nodes();
    let redlock = client(&nodes);
    let guard = runtime().block_on(async {
        let guard = redlock.lock("r").await.unwrap();
        while guard.votes() < 3 {
            sleep(Duration::from_millis(1)).await;
        }
        guard
    });
    nodes.iter().for_each(MemoryNode::hang);
    runtime().block_on(async {
        // Connecting begins here, and does not end.
        assert!(redlock.lock("other").into_future().now_or_never().is_none());
        drop(guard);
        tokio::task::yield_now().await;
    });
    nodes.iter().for_each(MemoryNode::resume);
    assert!(nodes.iter().all(|node| node.keys() == ["redlock:r"]));
    runtime().block_on(async {
        let _ = redlock.health().await;
        let limit = Instant::now() + Duration::from_secs(30);
        while nodes.iter().any(|node| !node.keys().is_empty()) {
            assert!(Instant::now() < limit, "{:?}", nodes.each_ref().map(MemoryNode::keys));
            sleep(Duration::from_millis(5)).await;
        }
    });
}
