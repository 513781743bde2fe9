//! Bodies under locks of in-memory nodes.

use std::{
    future::{IntoFuture, poll_fn},
    panic::AssertUnwindSafe,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use futures_util::FutureExt;
use tokio::time::sleep;

use super::*;
use crate::{
    LockError, LockHandle, LostReason, Redlock, clock::manual::ManualClock, op::release,
    testing::nodes,
};

/// The result of a body that is polled for the first time now.
async fn first_poll(mut guard: BodyGuard) -> Result<(), LockError> {
    poll_fn(|cx| guard.poll_body(cx, |_| Poll::Ready(()))).await
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_to_finish_keeps_its_key_until_it_has() {
    let redlock = Redlock::in_memory(3);
    let keys = |redlock: &Redlock| redlock.memory_nodes()[0].keys();
    let running = tokio::spawn({
        let redlock = redlock.clone();
        async move {
            let body = async |lock: LockHandle| {
                lock.lost().await;
                sleep(Duration::from_secs(1)).await;
                keys(&redlock)
            };
            let guard = redlock.lock("r").max_hold(Duration::from_secs(1)).await?;
            run(BodyGuard::new(guard), OnLost::Continue, body).await
        }
    });
    assert_eq!(running.await.unwrap().unwrap(), ["redlock:r"], "while it ran");
    assert_eq!(keys(&redlock), [""; 0]);
}

/// Work before the first await may take longer than the lock lasts.
#[tokio::test(start_paused = true)]
async fn a_body_that_is_to_finish_goes_on_when_its_lock_ends_while_it_is_first_polled() {
    let clock = Arc::new(ManualClock::new());
    let builder = Redlock::builder().nodes(nodes(3)).clock(Arc::clone(&clock) as _);
    let redlock = builder.build().unwrap();
    for (on_lost, finishes) in [(OnLost::Continue, true), (OnLost::Cancel, false)] {
        let guard = redlock.lock("r").max_hold(Duration::from_secs(1)).await.unwrap();
        let body = async |_| {
            clock.sleep(Duration::from_secs(2));
            sleep(Duration::from_millis(1)).await;
        };
        let outcome = run(BodyGuard::new(guard), on_lost, body).await;
        assert_eq!(outcome.is_ok(), finishes, "{outcome:?}");
    }
}

/// Rule 13: a shutdown returns when nothing runs under its locks any more, and `release_all` too. The
/// lock of the body may be held then, or lost.
#[tokio::test(start_paused = true)]
async fn a_body_that_is_to_finish_ends_when_everything_ends() {
    const SECOND: Duration = Duration::from_secs(1);
    for (is_lost, is_over) in [(false, false), (false, true), (true, false), (true, true)] {
        let redlock = Redlock::in_memory(3);
        let max_hold = if is_lost { SECOND } else { 60 * SECOND };
        let guard = redlock.lock("r").max_hold(max_hold).await.unwrap();
        let running = tokio::spawn(run(BodyGuard::new(guard), OnLost::Continue, async |_| {
            sleep(60 * SECOND).await;
        }));
        sleep(2 * SECOND).await;
        assert!(!running.is_finished());
        if is_over {
            redlock.shutdown(2 * SECOND).await;
        } else {
            redlock.release_all().await;
        }
        assert_eq!(redlock.memory_nodes()[0].keys(), [""; 0]);
        let error = running.await.unwrap().unwrap_err();
        let LockError::Lost { reason, .. } = error else { panic!("{error}") };
        assert_eq!(reason == LostReason::MaxHold, is_lost, "{reason:?}");
    }
}

#[test]
fn a_large_body_makes_no_large_future() {
    let redlock = Redlock::in_memory(1);
    let running = redlock.lock("r").run(async |_: &LockHandle| {
        let large = [0_u8; 10_000];
        sleep(Duration::from_secs(1)).await;
        large.len()
    });
    assert!(size_of_val(&running) < 1000, "{} bytes", size_of_val(&running));
}

/// A closure that does something before it makes its future is part of the body.
#[tokio::test(start_paused = true)]
async fn the_work_of_a_closure_before_its_future_is_under_the_lock() {
    let redlock = Redlock::in_memory(3);
    let mut current = None;
    let body = |_: &LockHandle| {
        current = LockHandle::current().map(|lock| lock.resource().to_owned());
        async { sleep(Duration::from_secs(1)).await }
    };
    redlock.lock("r").run(body).await.unwrap();
    assert_eq!(current.as_deref(), Some("r"));

    let panics = |_: &LockHandle| -> std::future::Ready<()> { panic!("at once") };
    let panicked = AssertUnwindSafe(redlock.lock("r").run(panics)).catch_unwind().await;
    assert!(panicked.is_err());
    assert_eq!(redlock.memory_nodes()[0].keys(), [""; 0], "released before");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_end_of_a_body_goes_on_after_the_release() {
    struct Panics;

    impl Drop for Panics {
        fn drop(&mut self) {
            assert!(LockHandle::current().is_some_and(|lock| lock.resource() == "r"));
            panic!("while it is dropped");
        }
    }

    let redlock = Redlock::in_memory(3);
    let body = async |_: &LockHandle| {
        let _panics = Panics;
        sleep(Duration::from_secs(60)).await;
    };
    let request = redlock.lock("r").auto_extend(false);
    let panicked = AssertUnwindSafe(request.run(body)).catch_unwind().await.unwrap_err();
    assert_eq!(panicked.downcast_ref::<&str>(), Some(&"while it is dropped"));
    assert_eq!(redlock.memory_nodes()[0].keys(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_to_finish_does_not_start_without_its_lock() {
    let redlock = Redlock::in_memory(3);
    let guard = redlock.lock("r").await.unwrap();
    drop(release::end_all(redlock.client()));
    let body = async |_| panic!("it ran");
    let error = run::<(), _>(BodyGuard::new(guard), OnLost::Continue, body).await.unwrap_err();
    assert!(matches!(error, LockError::Held { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_ends_before_its_body_starts_is_not_lost() {
    let pause = Duration::from_secs(7);
    let redlock = Redlock::builder().nodes(nodes(3)).retry_delay(pause).build().unwrap();
    let late = BodyGuard::new(redlock.lock("late").auto_extend(false).await.unwrap());
    sleep(Duration::from_secs(31)).await;
    let error = first_poll(late).await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    assert!(error.to_string().contains("came too late"), "{error}");

    let short = redlock.lock("short").max_hold(Duration::from_secs(1)).await.unwrap();
    let taken = redlock.lock("taken").await.unwrap();
    let ended = redlock.lock("ended").await.unwrap();
    let [short, taken, ended] = [short, taken, ended].map(BodyGuard::new);
    redlock.force_release_now("taken").await.unwrap();
    // By then it was to be renewed.
    sleep(Duration::from_secs(15)).await;
    redlock.release_all().await;
    for (lock, by_itself) in [(short, true), (taken, false), (ended, true)] {
        let error = first_poll(lock).await.unwrap_err();
        let LockError::Held { by_this_client, .. } = error else { panic!("{error}") };
        assert_eq!(by_this_client, by_itself, "{error}");
        assert_eq!(error.retry_after(), Some(pause));
    }

    let closed = BodyGuard::new(redlock.lock("closed").await.unwrap());
    redlock.shutdown(Duration::ZERO).await;
    let error = first_poll(closed).await.unwrap_err();
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
}

/// The lease is older: tasks before had it.
#[tokio::test(start_paused = true)]
async fn a_lock_that_was_handed_over_and_not_used_tells_how_long_its_caller_waited() {
    let redlock = Redlock::in_memory(3);
    let before = redlock.lock("r").await.unwrap();
    sleep(Duration::from_millis(15)).await;
    let waits = tokio::spawn(redlock.lock("r").into_future());
    sleep(Duration::from_millis(1)).await;
    before.release().await.unwrap();
    let guard = BodyGuard::new(waits.await.unwrap().unwrap());
    drop(release::end_all(redlock.client()));
    let error = first_poll(guard).await.unwrap_err();
    let LockError::Held { waited, .. } = error else { panic!("{error}") };
    assert!(waited < Duration::from_millis(5), "{waited:?}");
}
