//! A client is used where no tokio runtime drives it, and by executors that are not tokio's.

use std::{
    future::{Future, IntoFuture},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use redlock_core::{LockError, LockGuard, Redlock, pools};
use tokio::time::sleep;

use crate::{client, nodes, runtime};

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

/// Waits behind another client on a runtime that is shut down, and goes on through the handle that is left of it.
fn waits_behind_others<F: Future<Output = Result<LockGuard, LockError>> + Send + 'static>(
    asks: impl FnOnce(&Redlock) -> F,
) {
    let nodes = nodes();
    let (holder, first, redlock) = (client(&nodes), client(&nodes), client(&nodes));
    let living = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let (living, dead) = (living.unwrap(), runtime());
    let handle = dead.handle().clone();
    let _guards = living.block_on(async {
        drop(redlock.lock("warm").await.unwrap());
        [holder.lock("q").await.unwrap(), holder.lock("r").await.unwrap()]
    });
    let _first = living.spawn(async move { first.lock("r").wait(Duration::MAX).await.map(drop) });
    living.block_on(async { sleep(Duration::from_millis(50)).await });
    let mut waiting = Box::pin(asks(&redlock));
    dead.block_on(async {
        tokio::time::timeout(Duration::from_millis(300), &mut waiting).await.unwrap_err()
    });
    drop(dead);
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || done.send(handle.block_on(waiting).map(drop)).unwrap());
    let error = ended.recv_timeout(Duration::from_secs(60)).unwrap().unwrap_err();
    assert!(matches!(error, LockError::Config { .. }), "{error}");
}

/// Timers are over at once there, and so are reports to the queue: the wait has no end of its own.
#[test]
fn a_waiter_behind_others_ends_with_an_error_when_its_runtime_is_shut_down() {
    waits_behind_others(|redlock| redlock.lock("r").wait(Duration::MAX).into_future());
}

/// It also keeps its place before the key that it does not wait for now.
#[test]
fn a_set_behind_others_ends_with_an_error_when_its_runtime_is_shut_down() {
    waits_behind_others(|redlock| redlock.lock_all(["q", "r"]).wait(Duration::MAX).into_future());
}

/// No time passes there, so that a pause between two looks at the nodes is none.
#[test]
fn release_all_and_shutdown_return_on_a_runtime_that_was_shut_down() {
    for all in [true, false] {
        let redlock = client(&nodes());
        let dead = runtime();
        let handle = dead.handle().clone();
        let guard = dead.block_on(async { redlock.lock("r").await.unwrap() });
        drop(dead);
        let (done, returned) = mpsc::channel();
        std::thread::spawn(move || {
            if all {
                handle.block_on(redlock.release_all());
            } else {
                drop(guard);
                handle.block_on(redlock.shutdown(Duration::ZERO));
            }
            done.send(()).unwrap();
        });
        let returned = returned.recv_timeout(Duration::from_secs(60));
        assert_eq!(returned, Ok(()), "release_all: {all}");
    }
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
            // A client of a pool, whose waiter looks for its pool when it is woken.
            let pooled = client(&nodes);
            pools::install("inline", pooled.clone()).unwrap();
            let asking = run(async move {
                let ended = pooled.lock("a").await;
                assert!(ended.is_err() && pools::get("inline").is_some());
            });
            sleep(Duration::from_millis(50)).await;
            pools::shutdown(Duration::from_secs(60)).await;
            let shutdown = run({
                let redlock = redlock.clone();
                async move { redlock.shutdown(Duration::from_secs(60)).await }
            });
            drop(first);
            second.release().await.unwrap();
            while told
                .iter()
                .chain(&waiting)
                .chain([&shutdown, &asking])
                .any(|task| task.future.lock().unwrap().is_some())
            {
                sleep(Duration::from_millis(5)).await;
            }
        });
        done.send(()).unwrap();
    });
    is_done.recv_timeout(Duration::from_secs(30)).unwrap();
}
