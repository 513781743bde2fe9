//! A client outlives the runtime that its tasks run on (rule 13), and is used without one.

#![allow(clippy::unwrap_used, reason = "these are tests, if not all of them are #[test]")]

use std::{
    future::{Future, IntoFuture},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
    time::{Duration, Instant},
};

use futures_util::{FutureExt, future::BoxFuture};
use redlock_core::{LockError, MemoryNode, Redlock, Released};
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

/// Runs a future like an executor that knows nothing of tokio.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

#[test]
fn nothing_panics_outside_a_runtime() {
    let nodes = nodes();
    let redlock = client(&nodes);
    let of_tasks = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let guard = of_tasks.block_on(async { redlock.lock("r").await.unwrap() });
    for outcome in [
        block_on(async { redlock.lock("s").await.map(drop) }),
        block_on(guard.extend(Duration::from_secs(60))),
        block_on(guard.release()).map(drop),
    ] {
        assert!(
            matches!(&outcome, Err(LockError::Config { problem, .. }) if problem.contains("tokio"))
        );
    }
    assert!(block_on(redlock.health()).iter().all(|node| !node.is_up()));
    block_on(redlock.release_all());
    // The work happens all the same, although it could not be waited for.
    of_tasks.block_on(async {
        let _ = redlock.lock("r").await.unwrap();
    });
    block_on(redlock.shutdown(Duration::from_secs(60)));
    let error = of_tasks.block_on(async { redlock.lock("r").await.unwrap_err() });
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
}

/// No panic in the caller's task, and no series of panics in the background.
#[test]
fn a_runtime_without_timers_or_io_is_refused_by_name() {
    let redlock = Redlock::in_memory(3);
    let no_timers = tokio::runtime::Builder::new_current_thread().build().unwrap();
    no_timers.block_on(async {
        let error = redlock.lock("r").await.unwrap_err();
        assert!(error.to_string().contains("enable_all"), "{error}");
        assert!(!redlock.health().await[0].is_up());
        redlock.release_all().await;
        redlock.shutdown(Duration::ZERO).await;
    });

    let no_io = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    no_io.block_on(async {
        let error = Redlock::connect(["redis://127.0.0.1:1"]).await.unwrap_err();
        assert!(error.to_string().contains("enable_io"), "{error}");
    });
}

#[test]
fn a_future_that_leaves_its_runtime_ends_with_an_error() {
    let redlock = Redlock::in_memory(3);
    let (guard, mut waiting) = runtime().block_on(async {
        let guard = redlock.lock("r").await.unwrap();
        let mut waiting = redlock.lock("r").into_future();
        assert!((&mut waiting).now_or_never().is_none());
        (guard, waiting)
    });
    drop(guard);
    let error = (&mut waiting).now_or_never().unwrap().unwrap_err();
    assert!(matches!(error, LockError::Config { .. }), "{error}");
    // Kept or not, the guard does not block other tasks.
    let _ = runtime().block_on(async { redlock.lock("r").await.unwrap() });
    drop(waiting);
}

/// The clock alone ends a lock (rule 9), even if the runtime that renews it has ended.
#[test]
fn a_loss_is_told_although_the_runtime_of_the_scheduler_stands_still() {
    let (first, second) = (runtime(), runtime());
    let redlock = Redlock::in_memory(3);
    let ttl = Duration::from_secs(3);
    let guard = first.block_on(async { redlock.lock("r").ttl(ttl).await.unwrap() });
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

/// A future that waits on a runtime may be polled through the handle that is left of it.
#[test]
fn a_future_on_a_runtime_that_was_shut_down_ends_with_an_error() {
    let nodes = nodes();
    let redlock = client(&nodes);
    let dead = runtime();
    let handle = dead.handle().clone();
    let (guard, extended) = dead.block_on(async {
        (redlock.lock("r").await.unwrap(), redlock.lock("extended").await.unwrap())
    });
    drop(dead);
    let is_named = |error: &LockError| match error {
        LockError::Config { problem, .. } => problem.contains("shut down"),
        _ => false,
    };
    for outcome in [
        handle.block_on(async { redlock.lock("s").await.map(drop) }),
        handle.block_on(async { redlock.lock("r").await.map(drop) }),
        handle.block_on(async { extended.extend(Duration::from_secs(60)).await }),
        handle.block_on(async { guard.release().await.map(drop) }),
    ] {
        let error = outcome.unwrap_err();
        assert!(is_named(&error), "{error}");
    }
    assert!(handle.block_on(async { extended.lost().now_or_never() }).is_none());
    assert!(handle.block_on(redlock.health()).iter().all(|node| !node.is_up()));
    handle.block_on(redlock.release_all());
    handle.block_on(redlock.shutdown(Duration::from_secs(60)));
    // Another runtime does the work that was not possible there.
    runtime().block_on(async {
        redlock.health().await;
        drop(client(&nodes).lock("r").await.unwrap());
    });
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

/// An executor may poll a task at once when it is woken.
#[test]
fn a_waker_that_polls_inline_does_not_deadlock() {
    struct Inline {
        future: Mutex<Option<BoxFuture<'static, ()>>>,
        again: AtomicBool,
    }
    impl Wake for Inline {
        fn wake(self: Arc<Self>) {
            self.again.store(true, SeqCst);
            let waker = Waker::from(Arc::clone(&self));
            // A task that is woken while it is polled is polled once more afterwards.
            while let Ok(mut polled) = self.future.try_lock()
                && self.again.swap(false, SeqCst)
            {
                let poll = |future: &mut BoxFuture<'static, ()>| {
                    future.poll_unpin(&mut Context::from_waker(&waker)).is_ready()
                };
                if polled.as_mut().is_some_and(poll) {
                    *polled = None;
                }
            }
        }
    }
    fn run(future: impl Future<Output = ()> + Send + 'static) -> Arc<Inline> {
        let future = Mutex::new(Some(future.boxed()));
        let task = Arc::new(Inline { future, again: AtomicBool::default() });
        Arc::clone(&task).wake();
        task
    }
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime().block_on(async {
            let nodes = nodes();
            let redlock = client(&nodes);
            let [first, second] =
                [redlock.lock("a").await.unwrap(), redlock.lock("b").await.unwrap()];
            let told = [run(first.lost()), run(second.lost())];
            // In the queue of this process, and in the queue between processes.
            let other = client(&nodes);
            let waiting = [&redlock, &redlock, &other, &other].map(|client| {
                let client = client.clone();
                run(async move { drop(client.lock("a").await) })
            });
            sleep(Duration::from_millis(50)).await;
            let shutdown = run({
                let redlock = redlock.clone();
                async move { redlock.shutdown(Duration::from_secs(60)).await }
            });
            drop(first);
            second.release().await.unwrap();
            while told
                .iter()
                .chain(&waiting)
                .chain([&shutdown])
                .any(|task| task.future.lock().unwrap().is_some())
            {
                sleep(Duration::from_millis(5)).await;
            }
        });
        done.send(()).unwrap();
    });
    is_done.recv_timeout(Duration::from_secs(30)).unwrap();
}

/// The first runtime exists and is not driven, as when a task blocks its only thread.
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
            let limit = Instant::now() + Duration::from_secs(30);
            loop {
                let guard = redlock.lock("r").await.unwrap();
                sleep(Duration::from_millis(50)).await;
                if guard.votes() == 3 && redlock.health().await.iter().all(|node| node.is_up()) {
                    break;
                }
                assert!(Instant::now() < limit, "{} votes", guard.votes());
            }
            while nodes.iter().any(|node| !node.keys().is_empty()) {
                assert!(Instant::now() < limit, "{:?}", nodes.each_ref().map(MemoryNode::keys));
                sleep(Duration::from_millis(5)).await;
            }
        });
    }
}
