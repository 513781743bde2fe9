//! `skip_if_held`: what is held elsewhere is no error.

use std::time::Duration;

use redlock_core::{LockError, Redlock, Released, redlock};
use tokio::time::{Instant, sleep};

use crate::{AppError, events};

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
