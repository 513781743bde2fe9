//! A runtime stands still: it exists and is not driven, as when a task blocks its only thread.

use std::{
    future::IntoFuture,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use redlock_core::{LockError, LockRequest, MemoryNode, Redlock, Released};
use tokio::time::sleep;

use crate::{client, driven, nodes, runtime};

/// Well before the keys would expire.
const LIMIT: Duration = Duration::from_secs(30);

async fn until_empty(nodes: &[MemoryNode; 3]) {
    let limit = Instant::now() + LIMIT;
    while nodes.iter().any(|node| !node.keys().is_empty()) {
        assert!(Instant::now() < limit, "{:?}", nodes.each_ref().map(MemoryNode::keys));
        sleep(Duration::from_millis(5)).await;
    }
}

/// The clock alone ends a lock (rule 9).
#[test]
fn a_loss_is_told_although_the_runtime_of_the_scheduler_stands_still() {
    let (first, second) = (runtime(), runtime());
    let redlock = Redlock::in_memory(3);
    let ttl = Duration::from_secs(3);
    let request = redlock.lock("r").ttl(ttl).auto_extend(false);
    let guard = first.block_on(request.into_future()).unwrap();
    let mut lost = Box::pin(guard.lost());
    second.block_on(async {
        assert!((&mut lost).now_or_never().is_none());
        tokio::time::timeout(Duration::from_secs(30), guard.lost()).await.unwrap();
    });
    assert!(!guard.is_valid());
    // Its timer is that of a runtime that has ended.
    drop(second);
    runtime().block_on(lost);
}

/// Its guard is still there, and its runtime looks at it no more.
#[test]
fn a_hold_whose_time_is_over_blocks_no_waiter_although_the_runtime_of_the_scheduler_stands_still() {
    let (first, second) = (runtime(), runtime());
    let redlock = Redlock::in_memory(3);
    let request = redlock.lock("r").ttl(Duration::from_secs(3)).auto_extend(false);
    let guard = first.block_on(request.into_future()).unwrap();
    second.block_on(async {
        let waits = redlock.lock("r").wait(Duration::from_secs(600)).into_future();
        drop(tokio::time::timeout(Duration::from_secs(60), waits).await.unwrap().unwrap());
    });
    assert!(!guard.is_valid());
}

#[test]
fn a_client_whose_first_runtime_stands_still_goes_on_from_another() {
    let nodes = nodes();
    let redlock = client(&nodes);
    let (first, second) = (runtime(), runtime());
    first.block_on(async { drop(redlock.lock("warm").await.unwrap()) });
    second.block_on(async {
        let guard = redlock.lock("r").await.unwrap();
        assert!(redlock.health().await.iter().all(|node| node.is_up()));
        guard.extend(Duration::from_secs(60)).await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Ours);
        redlock.shutdown(Duration::ZERO).await;
    });
    assert!(nodes.iter().all(|node| node.keys().is_empty()));
    // The tasks that were left behind there find out when they go on.
    first.block_on(async { sleep(Duration::from_millis(1)).await });
}

/// Like the next three, it waits for no retry that would find the tasks of the nodes asleep.
#[test]
fn requests_that_try_once_go_on_from_another_runtime_than_one_that_stands_still() {
    try_once_from_another_runtime(true, |request| request);
}

#[test]
fn first_requests_that_try_once_go_on_from_another_runtime_than_one_that_stands_still() {
    try_once_from_another_runtime(false, |request| request);
}

#[test]
fn shared_requests_that_try_once_go_on_from_another_runtime_than_one_that_stands_still() {
    try_once_from_another_runtime(false, LockRequest::shared);
}

#[test]
fn permit_requests_that_try_once_go_on_from_another_runtime_than_one_that_stands_still() {
    try_once_from_another_runtime(false, |request| request.permits(2));
}

/// With `warms`, the first runtime has locked before, and a lock of another client is asked for first.
fn try_once_from_another_runtime(warms: bool, kind: fn(LockRequest) -> LockRequest) {
    let nodes = nodes();
    let redlock = client(&nodes);
    let (first, second) = (runtime(), runtime());
    first.block_on(async {
        if warms {
            drop(redlock.lock("warm").await.unwrap());
        } else {
            redlock.health().await;
        }
    });
    second.block_on(async {
        if warms {
            let _theirs = client(&nodes).lock("r").await.unwrap();
            let error = redlock.try_lock("r").await.unwrap_err();
            // An attempt whose answers no task has read does not count.
            assert!(matches!(error, LockError::Held { attempts: 1, .. }), "{error:?}");
        }
        let guard = kind(redlock.try_lock("r2")).await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Ours);
        until_empty(&nodes).await;
    });
}

/// It connects anew, which takes longer than a command may.
#[test]
fn a_request_that_goes_on_from_another_runtime_waits_for_the_new_connections() {
    for is_known in [false, true] {
        let nodes = nodes();
        let builder = Redlock::builder().nodes(&nodes).node_timeout(Duration::from_millis(50));
        let redlock = builder.connect_timeout(Duration::from_secs(30)).build().unwrap();
        let (first, second) = (runtime(), runtime());
        let guard = first.block_on(redlock.lock("warm").into_future()).unwrap();
        if is_known {
            // Its answers are overdue when the request comes.
            drop(guard);
            std::thread::sleep(Duration::from_millis(500));
        }
        nodes.iter().for_each(MemoryNode::hang);
        let resumes = std::thread::spawn({
            let nodes = nodes.clone();
            move || {
                std::thread::sleep(Duration::from_millis(900));
                nodes.iter().for_each(MemoryNode::resume);
            }
        });
        drop(second.block_on(redlock.try_lock("r").into_future()).unwrap());
        resumes.join().unwrap();
    }
}

/// Its value may have reached the nodes with the answers that no task has read.
#[test]
fn an_adoption_goes_on_from_another_runtime_than_one_that_stands_still() {
    for resources in [&["r"][..], &["a", "b"]] {
        let nodes = nodes();
        let (giver, adopter) = (client(&nodes), client(&nodes));
        let (first, second) = (runtime(), runtime());
        let lease = second.block_on(async {
            giver.lock_all(resources.iter().copied()).fenced().await.unwrap().into_lease()
        });
        first.block_on(adopter.health());
        second.block_on(async {
            let guard = adopter.adopt(lease).await.unwrap();
            assert!(guard.fencing_token().is_some());
            assert_eq!(guard.release().await.unwrap(), Released::Ours);
            until_empty(&nodes).await;
        });
    }
}

#[test]
fn an_operator_goes_on_from_another_runtime_than_one_that_stands_still() {
    let (first, second) = (runtime(), runtime());
    let redlock = client(&nodes());
    let _guard = first.block_on(redlock.lock("r").into_future()).unwrap();
    second.block_on(async {
        assert!(redlock.inspect("r").await.unwrap().holder().is_some());
        redlock.force_release("r").await.unwrap();
    });
    let redlock = client(&nodes());
    let _guard = first.block_on(redlock.lock("r").into_future()).unwrap();
    let healths = second.block_on(redlock.health());
    assert!(healths.iter().all(|node| node.is_up()), "{healths:?}");
}

#[test]
fn a_guard_is_extended_and_released_on_another_runtime_than_one_that_stands_still() {
    for releases in [false, true] {
        let redlock = client(&nodes());
        let (first, second) = (runtime(), runtime());
        let guard = first.block_on(redlock.lock("r").into_future()).unwrap();
        second.block_on(async {
            if releases {
                assert_eq!(guard.release().await.unwrap(), Released::Ours);
            } else {
                guard.extend(Duration::from_secs(60)).await.unwrap();
            }
        });
    }
}

/// The time that it takes to find out that no task reads the answers is no part of its `wait`.
#[test]
fn a_first_attempt_is_made_however_short_the_wait_is() {
    let redlock = client(&nodes());
    let (first, second) = (runtime(), runtime());
    first.block_on(async { drop(redlock.lock("warm").await.unwrap()) });
    let request = redlock.lock("r").wait(Duration::from_millis(100));
    drop(second.block_on(request.into_future()).unwrap());
}

#[test]
fn a_shutdown_goes_on_from_another_runtime_than_one_that_stands_still() {
    let nodes = nodes();
    let redlock = client(&nodes);
    let (first, second) = (runtime(), runtime());
    let guard = first.block_on(redlock.lock("r").into_future()).unwrap();
    second.block_on(async {
        drop(guard);
        redlock.shutdown(Duration::ZERO).await;
    });
    assert!(nodes.iter().all(|node| node.keys().is_empty()));
}

/// A task that is taken over before it was polled must not take anything from its successor.
#[test]
fn a_task_that_was_taken_over_twice_leaves_the_last_one_alone() {
    const PAUSE: Duration = Duration::from_millis(400);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let redlock = Redlock::builder().nodes(nodes()).node_timeout(Duration::from_millis(50));
        let redlock = redlock.wait(Duration::from_secs(30)).build().unwrap();
        let (first, second) = (runtime(), runtime());
        let guard = first.block_on(redlock.lock("a").into_future()).unwrap();
        drop(guard);
        std::thread::sleep(PAUSE);
        // It takes over, and is given up before the new tasks are polled.
        let locked = second.block_on(async { redlock.lock("b").into_future().now_or_never() });
        assert!(locked.is_none(), "it waits for the new connections");
        std::thread::sleep(PAUSE);
        drop(first.block_on(redlock.lock("c").into_future()).unwrap());
        second.block_on(async { sleep(Duration::from_millis(10)).await });
        drop(first.block_on(redlock.lock("d").into_future()).unwrap());
        tell.send(()).unwrap();
    });
    told.recv_timeout(Duration::from_secs(60)).expect("the nodes do not answer any more");
}

/// Waits for a loss on a runtime that ends, or stands still from then on, and goes on waiting on another
/// one. The runtime of the scheduler stands still all the time.
#[test]
fn a_loss_is_told_on_another_runtime_than_the_one_where_it_was_first_waited_for() {
    for ends in [true, false] {
        let (first, second) = (runtime(), runtime());
        let redlock = Redlock::in_memory(3);
        let request = redlock.lock("r").ttl(Duration::from_secs(4)).auto_extend(false);
        let guard = first.block_on(request.into_future()).unwrap();
        let mut lost = Box::pin(guard.lost());
        second.block_on(async {
            assert!((&mut lost).now_or_never().is_none());
            sleep(Duration::from_millis(1)).await;
        });
        let _stands_still = (!ends).then_some(second);
        runtime().block_on(async {
            let told = tokio::time::timeout(Duration::from_secs(30), &mut lost).await;
            told.expect("its timer is on the runtime before");
        });
        assert!(!guard.is_valid());
    }
}

/// The node answers, and no task reads the answers: the tasks of the nodes are on the first runtime.
#[test]
fn a_lock_is_renewed_on_its_runtime_while_that_of_the_nodes_stands_still() {
    let redlock = Redlock::builder().nodes(nodes()).ttl(Duration::from_secs(3)).build().unwrap();
    let (first, second) = (driven(), runtime());
    let client = redlock.clone();
    let warm = async move { drop(client.lock("warm").await.unwrap()) };
    first.block_on(first.spawn(warm)).unwrap();
    second.block_on(async {
        let guard = redlock.lock("r").await.unwrap();
        sleep(Duration::from_millis(50)).await;
        first.spawn(async { std::thread::sleep(Duration::from_secs(8)) });
        let lost = tokio::time::timeout(Duration::from_secs(6), guard.lost()).await;
        assert!(lost.is_err() && guard.is_valid());
    });
}

/// The second runtime took the task that renews over when the first stood still for a moment. The nodes had been asked
/// just now, and their tasks stayed.
#[test]
fn a_lock_is_renewed_while_the_tasks_of_the_nodes_alone_stand_still_elsewhere() {
    let redlock = Redlock::builder().nodes(nodes()).ttl(Duration::from_secs(3)).build().unwrap();
    let (first, second) = (driven(), runtime());
    let client = redlock.clone();
    let _kept = first.block_on(first.spawn(async move { client.lock("a").await.unwrap() }));
    second.block_on(async {
        first.spawn(async { std::thread::sleep(Duration::from_millis(650)) });
        sleep(Duration::from_millis(500)).await;
        assert!(redlock.lock("b").into_future().now_or_never().is_none());
        sleep(Duration::from_millis(400)).await;
        let guard = redlock.lock("r").await.unwrap();
        first.spawn(async { std::thread::sleep(Duration::from_secs(8)) });
        let lost = tokio::time::timeout(Duration::from_secs(6), guard.lost()).await;
        assert!(lost.is_err() && guard.is_valid());
    });
}

/// The second runtime took the task that renews over when the first stood still for a moment.
#[test]
fn a_lock_is_renewed_on_its_runtime_when_the_one_that_took_the_renewals_over_stands_still() {
    let redlock = Redlock::builder().nodes(nodes()).ttl(Duration::from_secs(6)).build().unwrap();
    let (first, second) = (driven(), runtime());
    let client = redlock.clone();
    let guard =
        first.block_on(first.spawn(async move { client.lock("r").await.unwrap() })).unwrap();
    let lost = first.spawn(guard.lost());
    second.block_on(async {
        let _other = redlock.lock("other").await.unwrap();
        first.spawn(async { std::thread::sleep(Duration::from_millis(1000)) });
        sleep(Duration::from_millis(1400)).await;
    });
    // From here on the second runtime is not driven.
    std::thread::sleep(Duration::from_secs(8));
    assert!(guard.is_valid() && !lost.is_finished());
}

/// Nothing runs while a runtime is blocked, so all questions run out of time at once.
#[test]
fn nodes_answer_after_a_runtime_was_blocked_again_and_again_with_many_attempts_under_way() {
    for servers_stand_still in [false, true] {
        let nodes = nodes();
        // With the usual time for nodes to answer: each pause is longer.
        let wait = Duration::from_secs(30);
        let redlock = Redlock::builder().nodes(&nodes).wait(wait).build().unwrap();
        runtime().block_on(async {
            drop(redlock.lock("warm").await.unwrap());
            for round in 0..8 {
                if servers_stand_still {
                    nodes.iter().for_each(MemoryNode::hang);
                }
                let mut asking: Vec<_> = (0..100)
                    .map(|number| redlock.lock(format!("{round}.{number}")).into_future())
                    .collect();
                for lock in &mut asking {
                    assert!(lock.now_or_never().is_none_or(|lock| lock.is_ok()));
                }
                if servers_stand_still {
                    // All of it leaves.
                    sleep(Duration::from_millis(2)).await;
                }
                std::thread::sleep(Duration::from_millis(80));
                tokio::task::yield_now().await;
                nodes.iter().for_each(MemoryNode::resume);
            }
            let limit = Instant::now() + LIMIT;
            loop {
                let guard = redlock.lock("r").await.unwrap();
                sleep(Duration::from_millis(50)).await;
                if guard.votes() == 3 && redlock.health().await.iter().all(|node| node.is_up()) {
                    break;
                }
                assert!(Instant::now() < limit, "{} votes", guard.votes());
            }
            until_empty(&nodes).await;
        });
    }
}
