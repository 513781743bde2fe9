//! The runtime of a client's tasks ends while another one waits for what the nodes say.

use std::{
    future::IntoFuture,
    thread,
    time::{Duration, Instant},
};

use redlock_core::{MemoryNode, Redlock, Released};
use tokio::{runtime::Runtime, time::sleep};

use crate::{client, driven, nodes, runtime};

/// The time in which the nodes answer once the test has begun.
const SLOW: Duration = Duration::from_millis(200);

/// A client whose tasks run on the first runtime, and its nodes.
fn begun() -> (Redlock, [MemoryNode; 3], Runtime) {
    let nodes = nodes();
    let redlock = client(&nodes);
    let first = driven();
    let warms = redlock.clone();
    first.block_on(first.spawn(async move { drop(warms.lock("warm").await.unwrap()) })).unwrap();
    (redlock, nodes, first)
}

/// Runs this on another runtime, while the first one ends.
fn as_it_ends<T>(nodes: &[MemoryNode], first: Runtime, future: impl Future<Output = T>) -> T {
    nodes.iter().for_each(|node| node.slow(SLOW));
    let ends = thread::spawn(move || {
        thread::sleep(SLOW / 4);
        drop(first);
    });
    let output = runtime().block_on(future);
    ends.join().unwrap();
    output
}

#[test]
fn a_request_that_tries_once_goes_on() {
    for kind in 0..5 {
        let (redlock, nodes, first) = begun();
        let r = redlock.try_lock("r");
        let requests = [
            r.clone(),
            r.clone().shared(),
            r.clone().fenced(),
            r.permits(2),
            redlock.try_lock("s"),
        ];
        let request = requests.into_iter().nth(kind).unwrap();
        let set = redlock.lock_all(["a", "b"]).wait(Duration::ZERO);
        as_it_ends(&nodes, first, async {
            if kind < 4 {
                drop(request.await.unwrap());
            } else {
                drop(set.await.unwrap());
            }
        });
    }
}

#[test]
fn a_guard_is_released() {
    let (redlock, nodes, first) = begun();
    let guard = runtime().block_on(redlock.lock("r").into_future()).unwrap();
    let released = as_it_ends(&nodes, first, guard.release());
    assert_eq!(released.unwrap(), Released::Ours);
    // A quorum has confirmed it.
    assert!(nodes.iter().filter(|node| node.keys().is_empty()).count() >= 2);
}

#[test]
fn a_guard_is_extended() {
    let (redlock, nodes, first) = begun();
    let guard = runtime().block_on(redlock.lock("r").into_future()).unwrap();
    as_it_ends(&nodes, first, guard.extend(Duration::from_secs(60))).unwrap();
}

#[test]
fn an_operator_goes_on() {
    let (redlock, nodes, first) = begun();
    let _guard = runtime().block_on(redlock.lock("r").into_future()).unwrap();
    let status = as_it_ends(&nodes, first, redlock.inspect("r")).unwrap();
    assert!(status.holder().is_some());
    for now in [false, true] {
        let (redlock, nodes, first) = begun();
        let _guard = runtime().block_on(redlock.lock("r").into_future()).unwrap();
        as_it_ends(&nodes, first, async {
            match now {
                false => redlock.force_release("r").await.unwrap(),
                true => redlock.force_release_now("r").await.unwrap(),
            }
        });
    }
    let (redlock, nodes, first) = begun();
    let healths = as_it_ends(&nodes, first, redlock.health());
    assert!(healths.iter().all(|node| node.is_up()), "{healths:?}");
}

/// A quorum has given the lock up: it may be that of the next holder already.
#[test]
fn an_operator_does_not_take_the_lock_of_the_next_holder_away() {
    let (redlock, nodes, first) = begun();
    let second = runtime();
    let other = client(&nodes);
    let guard = second.block_on(redlock.lock("r").into_future()).unwrap();
    nodes[2].slow(10 * SLOW);
    second.block_on(async {
        let taken = tokio::spawn({
            let redlock = redlock.clone();
            async move { redlock.force_release_now("r").await }
        });
        let next = other.lock("r").await.unwrap();
        // The third node has not answered, and its task ends.
        thread::spawn(move || drop(first)).join().unwrap();
        taken.await.unwrap().unwrap();
        next.extend(Duration::from_secs(60)).await.unwrap();
    });
    drop(guard);
}

/// Nothing is held any more, and the client is not used.
#[test]
fn a_delete_that_was_on_its_way_is_sent_again() {
    // If the first runtime has stood still, the second one renews the locks meanwhile. The tasks of the nodes
    // had nothing to do, and are still on the first one.
    for stood_still in [false, true] {
        let (redlock, nodes, first) = begun();
        let second = runtime();
        let guard = second.block_on(redlock.lock("r").into_future()).unwrap();
        if stood_still {
            first.spawn(async { thread::sleep(Duration::from_secs(1)) });
            second.block_on(async { sleep(Duration::from_secs(2)).await });
        }
        nodes.iter().for_each(|node| node.slow(SLOW));
        let ends = thread::spawn(move || {
            thread::sleep(SLOW / 4);
            drop(first);
        });
        second.block_on(async {
            drop(guard);
            let limit = Instant::now() + Duration::from_secs(20);
            while nodes.iter().any(|node| !node.keys().is_empty()) {
                assert!(Instant::now() < limit, "the keys stay");
                sleep(Duration::from_millis(5)).await;
            }
        });
        ends.join().unwrap();
    }
}
