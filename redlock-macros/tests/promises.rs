//! What the attribute promises about a call, one test a promise, on nodes inside the process and
//! on tokio's paused clock.
#![allow(clippy::unwrap_used, reason = "these are tests, if not all of them are #[test]")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use redlock_core::{LockError, LockHandle, LostReason, Redlock, Released, pools, redlock};
use tokio::time::{Instant, sleep, timeout};

#[derive(Debug)]
enum AppError {
    Locked(LockError),
    Own(&'static str),
}

impl From<LockError> for AppError {
    fn from(error: LockError) -> Self {
        Self::Locked(error)
    }
}

/// Waits until the resource is free, within a limit that only a hang reaches.
async fn free(locks: &Redlock, resource: &str) {
    let freed = async {
        while locks
            .memory_nodes()
            .iter()
            .any(|node| node.keys().iter().any(|k| k.ends_with(resource)))
        {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(60), freed).await.unwrap();
}

// The key.

fn count(calls: &AtomicU32, value: &str) -> String {
    calls.fetch_add(1, Ordering::Relaxed);
    value.to_owned()
}

#[redlock(resource = "{count(calls, &name)}", client = locks)]
async fn template(
    locks: &Redlock,
    calls: &AtomicU32,
    mut name: String,
) -> Result<String, AppError> {
    name.push_str(" changed");
    let lock = LockHandle::current().unwrap();
    sleep(Duration::from_secs(60)).await;
    assert!(lock.is_valid());
    Ok(lock.resource().to_owned())
}

#[redlock(resource = count(calls, name), client = locks)]
async fn expression(locks: &Redlock, calls: &AtomicU32, name: &str) -> Result<String, AppError> {
    Ok(LockHandle::current().unwrap().resource().to_owned())
}

#[tokio::test(start_paused = true)]
async fn the_key_is_evaluated_once_and_before_the_body() {
    let locks = Redlock::in_memory(3);
    let calls = AtomicU32::new(0);
    assert_eq!(template(&locks, &calls, "order".into()).await.unwrap(), "order");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(expression(&locks, &calls, "order").await.unwrap(), "order");
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn the_key_is_evaluated_once_however_often_the_lock_is_tried_for() {
    let locks = Redlock::in_memory(3);
    let calls = AtomicU32::new(0);
    let guard = locks.lock("order").await.unwrap();
    let holder = async {
        sleep(Duration::from_secs(2)).await;
        assert_eq!(guard.release().await.unwrap(), Released::Ours);
    };
    let (outcome, ()) = tokio::join!(expression(&locks, &calls, "order"), holder);
    outcome.unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_evaluated_before_the_first_poll() {
    let locks = Redlock::in_memory(3);
    let calls = AtomicU32::new(0);
    drop(expression(&locks, &calls, "order"));
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

fn counted_client<'a>(calls: &AtomicU32, locks: &'a Redlock) -> &'a Redlock {
    calls.fetch_add(1, Ordering::Relaxed);
    locks
}

#[redlock(resource = "a", client = counted_client(calls, locks))]
async fn client(locks: &Redlock, calls: &AtomicU32) -> Result<(), AppError> {
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_client_is_evaluated_once_and_before_the_body() {
    client(&Redlock::in_memory(1), &AtomicU32::new(0)).await.unwrap();
}

// One at a time.

#[redlock(resource = "order:{id}", client = locks, wait = "10m")]
async fn exclusive(locks: &Redlock, id: u64, inside: &AtomicU32) -> Result<u32, AppError> {
    let before = inside.fetch_add(1, Ordering::SeqCst);
    sleep(Duration::from_millis(10)).await;
    inside.fetch_sub(1, Ordering::SeqCst);
    Ok(before)
}

#[tokio::test(start_paused = true)]
async fn bodies_with_one_key_exclude_each_other() {
    let locks = Redlock::in_memory(3);
    let inside = Arc::new(AtomicU32::new(0));
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let (locks, inside) = (locks.clone(), inside.clone());
            tokio::spawn(async move { exclusive(&locks, 1, &inside).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_with_two_keys_do_not() {
    let locks = Redlock::in_memory(3);
    let inside = AtomicU32::new(0);
    let (one, other) = tokio::join!(exclusive(&locks, 1, &inside), exclusive(&locks, 2, &inside));
    assert_eq!(one.unwrap() + other.unwrap(), 1);
}

// Refused.

#[redlock(resource = "a", client = locks, wait = "1s", retry_count = 2, retry_delay = 30, retry_jitter = 0)]
async fn tries_thrice(locks: &Redlock, runs: &AtomicU32) -> Result<(), AppError> {
    runs.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_does_not_run_and_says_why() {
    let locks = Redlock::in_memory(3);
    let runs = AtomicU32::new(0);
    let _guard = locks.lock("a").await.unwrap();
    let refused = tries_thrice(&locks, &runs).await.unwrap_err();
    let AppError::Locked(LockError::Held { resource, attempts, retry_after, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((resource.as_str(), attempts), ("a", 3));
    assert_eq!(retry_after, Duration::from_millis(30));
    assert_eq!(runs.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn no_quorum_is_told_from_held() {
    let locks = Redlock::in_memory(3);
    for node in &locks.memory_nodes()[..2] {
        node.stop();
    }
    let refused = tries_thrice(&locks, &AtomicU32::new(0)).await.unwrap_err();
    assert!(matches!(refused, AppError::Locked(LockError::NoQuorum { .. })), "{refused:?}");
}

#[redlock(resource = "a", client = locks, ttl = "1ms")]
async fn misconfigured(locks: &Redlock) -> Result<(), AppError> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_work_are_refused() {
    let refused = misconfigured(&Redlock::in_memory(3)).await.unwrap_err();
    assert!(matches!(refused, AppError::Locked(LockError::Config { .. })), "{refused:?}");
}

#[redlock(resource = "a", client = locks, wait = 0, map_err = |error| format!("mapped: {error}"))]
async fn mapped(locks: &Redlock) -> Result<(), String> {
    Err("the body's own".into())
}

#[tokio::test(start_paused = true)]
async fn map_err_makes_the_error_of_a_refusal_only() {
    let locks = Redlock::in_memory(3);
    assert_eq!(mapped(&locks).await.unwrap_err(), "the body's own");
    let _guard = locks.lock("a").await.unwrap();
    assert!(mapped(&locks).await.unwrap_err().starts_with("mapped: \"a\" is held"));
}

#[redlock(resource = "a", client = locks, wait = 0, on_reject = |error| if error.is_held() { -1 } else { -2 })]
async fn rejected(locks: &Redlock) -> i64 {
    1
}

#[tokio::test(start_paused = true)]
async fn on_reject_makes_the_return_value_of_a_refusal() {
    let locks = Redlock::in_memory(3);
    assert_eq!(rejected(&locks).await, 1);
    let guard = locks.lock("a").await.unwrap();
    assert_eq!(rejected(&locks).await, -1);
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    for node in locks.memory_nodes() {
        node.stop();
    }
    assert_eq!(rejected(&locks).await, -2);
}

// Skipped.

#[redlock(resource = "a", client = locks, skip_if_held)]
async fn skipped(locks: &Redlock) -> Result<Option<u8>, AppError> {
    Ok(Some(1))
}

#[tokio::test(start_paused = true)]
async fn skip_if_held_does_not_wait() {
    let locks = Redlock::in_memory(3);
    assert_eq!(skipped(&locks).await.unwrap(), Some(1));
    let _guard = locks.lock("a").await.unwrap();
    let start = Instant::now();
    assert_eq!(skipped(&locks).await.unwrap(), None);
    // On the paused clock only a wait takes time.
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[redlock(resource = "a", client = locks, skip_if_held, wait = "5s")]
async fn patient(locks: &Redlock) -> Result<Option<u8>, AppError> {
    Ok(Some(1))
}

#[tokio::test(start_paused = true)]
async fn skip_if_held_waits_when_told_to() {
    let locks = Redlock::in_memory(3);
    let guard = locks.lock("a").await.unwrap();
    let holder = async {
        sleep(Duration::from_secs(1)).await;
        assert_eq!(guard.release().await.unwrap(), Released::Ours);
    };
    assert_eq!(tokio::join!(patient(&locks), holder).0.unwrap(), Some(1));
    let _guard = locks.lock("a").await.unwrap();
    assert_eq!(patient(&locks).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn skip_if_held_keeps_other_errors() {
    let locks = Redlock::in_memory(3);
    for node in locks.memory_nodes() {
        node.stop();
    }
    let refused = skipped(&locks).await.unwrap_err();
    assert!(matches!(refused, AppError::Locked(LockError::NoQuorum { .. })), "{refused:?}");
}

#[redlock(resource = "a", client = locks, skip_if_held, max_hold = "1s")]
async fn skipped_value(locks: &Redlock, work: Duration) -> u8 {
    sleep(work).await;
    1
}

/// The error events of this thread, while the returned guard lives.
mod events {
    use std::sync::{Arc, Mutex};
    use tracing::{Level, Subscriber, field::Visit, subscriber::DefaultGuard};
    use tracing_subscriber::{Layer, layer::Context, prelude::*};

    #[derive(Clone, Default)]
    pub(crate) struct Errors(Arc<Mutex<Vec<String>>>);

    impl Errors {
        pub(crate) fn collect() -> (Self, DefaultGuard) {
            let errors = Self::default();
            let subscriber = tracing_subscriber::registry().with(errors.clone());
            (errors, subscriber.set_default())
        }

        /// The texts so far that are about a default value, taken.
        pub(crate) fn of_defaults(&self) -> Vec<String> {
            let all = std::mem::take(&mut *self.0.lock().unwrap());
            all.into_iter().filter(|text| text.contains("default value")).collect()
        }
    }

    impl<S: Subscriber> Layer<S> for Errors {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            struct Text(String);
            impl Visit for Text {
                fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                    self.0.push_str(&format!("{value:?} "));
                }
            }
            if *event.metadata().level() == Level::ERROR {
                let mut text = Text(String::new());
                event.record(&mut text);
                self.0.lock().unwrap().push(text.0);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn skip_if_held_without_a_result_returns_the_default_for_all_and_logs_all_but_held() {
    let (errors, _subscribed) = events::Errors::collect();
    let locks = Redlock::in_memory(3);
    assert_eq!(skipped_value(&locks, Duration::ZERO).await, 1);
    let guard = locks.lock("a").await.unwrap();
    assert_eq!(skipped_value(&locks, Duration::ZERO).await, 0);
    assert_eq!(errors.of_defaults(), [""; 0]);
    assert_eq!(guard.release().await.unwrap(), Released::Ours);

    assert_eq!(skipped_value(&locks, Duration::from_secs(5)).await, 0);
    let told = errors.of_defaults();
    assert!(matches!(&told[..], [lost] if lost.contains("was lost")), "{told:?}");

    for node in locks.memory_nodes() {
        node.stop();
    }
    assert_eq!(skipped_value(&locks, Duration::ZERO).await, 0);
    let told = errors.of_defaults();
    assert!(matches!(&told[..], [refused] if refused.contains("no quorum")), "{told:?}");
}

// Lost.

/// Counts down when its scope is left, by whatever way.
struct Inside<'a>(&'a AtomicU32);

impl<'a> Inside<'a> {
    fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[redlock(resource = "a", client = locks, max_hold = "1s")]
async fn cancelled(
    locks: &Redlock,
    finished: &AtomicU32,
    inside: &AtomicU32,
) -> Result<(), AppError> {
    let _inside = Inside::new(inside);
    sleep(Duration::from_secs(60)).await;
    finished.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_drops_the_body_and_is_told() {
    let locks = Redlock::in_memory(3);
    let (finished, inside) = (AtomicU32::new(0), AtomicU32::new(0));
    let start = Instant::now();
    let lost = cancelled(&locks, &finished, &inside).await.unwrap_err();
    let AppError::Locked(LockError::Lost { resource, reason, .. }) = lost else {
        panic!("{lost:?}");
    };
    assert_eq!((resource.as_str(), reason), ("a", LostReason::MaxHold));
    assert_eq!((finished.into_inner(), inside.into_inner()), (0, 0));
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[redlock(
    resource = "a",
    client = locks,
    ttl = "3s",
    on_reject = |error| matches!(error, LockError::Lost { reason: LostReason::Refused, .. })
)]
async fn evicted(locks: &Redlock) -> bool {
    for node in locks.memory_nodes() {
        node.clear();
    }
    sleep(Duration::from_secs(60)).await;
    false
}

#[tokio::test(start_paused = true)]
async fn a_loss_takes_the_way_of_a_refusal() {
    assert!(evicted(&Redlock::in_memory(3)).await);
}

#[redlock(resource = "a", client = locks, max_hold = "1s", on_lost = "continue", lock = guard)]
async fn continued(locks: &Redlock) -> Result<bool, AppError> {
    guard.lost().await;
    sleep(Duration::from_secs(60)).await;
    Ok(guard.is_valid())
}

#[tokio::test(start_paused = true)]
async fn with_continue_the_body_finishes_and_its_result_stands() {
    assert!(!continued(&Redlock::in_memory(3)).await.unwrap());
}

#[redlock(resource = "a", client = locks, on_lost = "cancel", max_hold = "1s")]
async fn finished_in_time(locks: &Redlock) -> Result<u8, AppError> {
    sleep(Duration::from_millis(900)).await;
    Ok(1)
}

#[tokio::test(start_paused = true)]
async fn a_body_that_finishes_in_time_keeps_its_result() {
    assert_eq!(finished_in_time(&Redlock::in_memory(3)).await.unwrap(), 1);
}

#[redlock(resource = "a", client = locks)]
async fn stops_the_nodes(locks: &Redlock) -> Result<u8, AppError> {
    for node in locks.memory_nodes() {
        node.stop();
    }
    Ok(1)
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_does_not_replace_the_result() {
    assert_eq!(stops_the_nodes(&Redlock::in_memory(3)).await.unwrap(), 1);
}

// Released.

#[redlock(resource = "a", client = locks)]
async fn fails(locks: &Redlock, early: bool) -> Result<(), AppError> {
    if early {
        return Err(AppError::Own("early"));
    }
    Err::<(), _>(AppError::Own("question mark"))?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_body_is_the_result_and_releases() {
    let locks = Redlock::in_memory(3);
    assert!(matches!(fails(&locks, true).await, Err(AppError::Own("early"))));
    assert!(matches!(fails(&locks, false).await, Err(AppError::Own("question mark"))));
    free(&locks, "a").await;
}

#[redlock(resource = "a", client = locks)]
async fn panics(locks: Redlock) -> Result<(), AppError> {
    assert_eq!(locks.held().len(), 1);
    panic!("the body's own");
}

#[tokio::test(start_paused = true)]
async fn a_panic_goes_through_and_releases() {
    let locks = Redlock::in_memory(3);
    let panicked = tokio::spawn(panics(locks.clone())).await.unwrap_err();
    assert_eq!(*panicked.into_panic().downcast::<&str>().unwrap(), "the body's own");
    free(&locks, "a").await;
}

#[redlock(resource = "a", client = locks)]
async fn never_ends(locks: &Redlock, inside: &AtomicU32) -> Result<(), AppError> {
    let _inside = Inside::new(inside);
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_drops_the_body_and_releases() {
    let locks = Redlock::in_memory(3);
    let inside = AtomicU32::new(0);
    {
        let mut call = std::pin::pin!(never_ends(&locks, &inside));
        let running = async {
            while inside.load(Ordering::SeqCst) == 0 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            _ = call.as_mut() => unreachable!(),
            () = running => {}
        }
        assert_eq!(locks.held().len(), 1);
    }
    assert_eq!(inside.into_inner(), 0);
    free(&locks, "a").await;
}

// Settings.

#[redlock(resource = "a", client = locks, ttl = ttl, clock_drift_factor = 0.5, lock = guard)]
async fn validity(locks: &Redlock, ttl: Duration) -> Result<Duration, AppError> {
    Ok(guard.validity())
}

#[tokio::test(start_paused = true)]
async fn ttl_and_drift_factor_set_the_validity() {
    let locks = Redlock::in_memory(3);
    for ttl in [Duration::from_secs(10), Duration::from_secs(20)] {
        let validity = validity(&locks, ttl).await.unwrap();
        assert!(validity <= ttl / 2 && validity > ttl / 2 - Duration::from_millis(100));
    }
}

#[redlock(resource = "a", client = locks, ttl = 3000, auto_extend = renew, on_lost = "continue", lock = guard)]
async fn outlasts_its_ttl(locks: &Redlock, renew: bool) -> Result<bool, AppError> {
    sleep(Duration::from_secs(10)).await;
    Ok(guard.is_valid())
}

#[tokio::test(start_paused = true)]
async fn the_lock_renews_itself_unless_auto_extend_is_off() {
    assert!(outlasts_its_ttl(&Redlock::in_memory(3), true).await.unwrap());
    assert!(!outlasts_its_ttl(&Redlock::in_memory(3), false).await.unwrap());
}

#[redlock(resource = "a", client = locks, skip_if_held, min_hold = "5s")]
async fn at_most_every_five_seconds(locks: &Redlock) -> Result<Option<u8>, LockError> {
    Ok(Some(1))
}

#[tokio::test(start_paused = true)]
async fn min_hold_keeps_the_key_after_the_body() {
    let locks = Redlock::in_memory(3);
    assert_eq!(at_most_every_five_seconds(&locks).await.unwrap(), Some(1));
    sleep(Duration::from_secs(4)).await;
    assert_eq!(at_most_every_five_seconds(&locks).await.unwrap(), None);
    sleep(Duration::from_secs(4)).await;
    assert_eq!(at_most_every_five_seconds(&locks).await.unwrap(), Some(1));
}

// Pools.

#[redlock(resource = "order:{id}")]
async fn in_the_default_pool(id: u64) -> Result<(), AppError> {
    std::future::pending().await
}

#[redlock(resource = "order:{id}", pool = "promises-b")]
async fn in_a_pool(id: u64) -> Result<(), AppError> {
    std::future::pending().await
}

#[redlock(resource = "order:{id}", pools = ["promises-a", "promises-b", "promises-c"], lock = guard)]
async fn in_three_pools(id: u64) -> Result<usize, AppError> {
    std::future::pending::<()>().await;
    Ok(guard.votes())
}

/// What is locked on the nodes of these clients while the call runs.
async fn keys_during<T>(clients: &[Redlock], call: impl Future<Output = T>) -> Vec<usize> {
    let mut call = std::pin::pin!(call);
    let keys = || -> Vec<usize> {
        clients
            .iter()
            .map(|client| client.memory_nodes().iter().map(|node| node.keys().len()).sum())
            .collect()
    };
    // Nothing but the call moves on: when its timers are through, it stands in its body.
    let _ = timeout(Duration::from_secs(1), call.as_mut()).await;
    keys()
}

#[tokio::test(start_paused = true)]
async fn the_lock_is_taken_on_the_nodes_of_the_pools_that_are_named() {
    let clients = ["default", "promises-a", "promises-b", "promises-c"].map(|name| {
        let client = Redlock::in_memory(1);
        pools::install(name, client.clone()).unwrap();
        client
    });
    assert_eq!(keys_during(&clients, in_the_default_pool(1)).await, [1, 0, 0, 0]);
    free(&clients[0], "order:1").await;
    assert_eq!(keys_during(&clients, in_a_pool(2)).await, [0, 0, 1, 0]);
    free(&clients[2], "order:2").await;
    assert_eq!(keys_during(&clients, in_three_pools(3)).await, [0, 1, 1, 1]);
}

#[redlock(resource = "a", pool = "promises-none")]
async fn in_no_pool() -> Result<(), AppError> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_not_installed_is_refused_by_name() {
    let refused = in_no_pool().await.unwrap_err();
    assert!(
        matches!(&refused, AppError::Locked(LockError::UnknownPool { pool, .. }) if pool == "promises-none"),
        "{refused:?}"
    );
}

#[redlock(resource = "spanned", client = redlock.clone())]
async fn in_its_span(redlock: &Redlock) -> Result<Option<&'static str>, LockError> {
    tokio::task::yield_now().await;
    Ok(tracing::Span::current().metadata().map(tracing::Metadata::name))
}

/// What a body logs can be told from what the rest of its task logs.
#[tokio::test(start_paused = true)]
async fn a_body_runs_in_the_span_of_its_lock() {
    let (_errors, _subscribed) = events::Errors::collect();
    let redlock = Redlock::in_memory(1);
    assert_eq!(in_its_span(&redlock).await.unwrap(), Some("redlock.body"));
    assert!(tracing::Span::current().is_none(), "and leaves it");
}
