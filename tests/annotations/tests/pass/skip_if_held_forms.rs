use crate::{AppError, memory};
use redlock_core::{LockError, Redlock, redlock};

#[redlock(resource = "nightly", client = locks, skip_if_held)]
async fn unit(locks: &Redlock, runs: &mut u8) {
    *runs += 1;
}

#[redlock(resource = "nightly", client = locks, skip_if_held)]
async fn value(locks: &Redlock) -> Option<u8> {
    Some(1)
}

#[redlock(resource = "nightly", client = locks, skip_if_held)]
async fn result(locks: &Redlock) -> Result<Vec<u8>, AppError> {
    Ok(vec![1])
}

#[redlock(resource = name, client = locks, skip_if_held, map_err = |error: LockError| error.to_string())]
async fn mapped(locks: &Redlock, name: &str) -> Result<u8, String> {
    Ok(1)
}

#[redlock(resource = name, client = locks, skip_if_held, on_reject = |_| -1)]
async fn rejected(locks: &Redlock, name: &str) -> i64 {
    1
}

#[redlock(resource = name, client = locks, skip_if_held, on_reject = |_| Ok(-1))]
async fn rejected_result(locks: &Redlock, name: &str) -> Result<i64, AppError> {
    Ok(1)
}

#[tokio::test]
async fn what_is_held_elsewhere_is_skipped_whatever_the_function_returns() {
    let locks = memory();
    let mut runs = 0;
    unit(&locks, &mut runs).await;
    assert_eq!(runs, 1);
    assert_eq!(value(&locks).await, Some(1));
    assert_eq!(result(&locks).await.unwrap(), [1]);
    assert_eq!(mapped(&locks, "nightly").await, Ok(1));
    assert_eq!(rejected(&locks, "nightly").await, 1);
    assert_eq!(rejected_result(&locks, "nightly").await.unwrap(), 1);

    let _guard = locks.lock("nightly").await.unwrap();
    unit(&locks, &mut runs).await;
    assert_eq!(runs, 1);
    assert_eq!(value(&locks).await, None);
    assert!(result(&locks).await.unwrap().is_empty());
    assert_eq!(mapped(&locks, "nightly").await, Ok(0));
    assert_eq!(rejected(&locks, "nightly").await, 0);
    assert_eq!(rejected_result(&locks, "nightly").await.unwrap(), 0);
}

#[tokio::test]
async fn what_is_refused_for_another_reason_is_answered_as_without_it() {
    let locks = memory();
    assert!(mapped(&locks, "").await.is_err());
    assert_eq!(rejected(&locks, "").await, -1);
    assert_eq!(rejected_result(&locks, "").await.unwrap(), -1);
}
