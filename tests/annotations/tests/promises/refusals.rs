//! A call that is refused does not run, and says why.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use redlock_core::{LockError, Redlock, Released, redlock};

use crate::AppError;

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
