//! The key and the client are evaluated once, and one key is one call at a time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use redlock_core::{LockHandle, Redlock, Released, redlock};
use tokio::time::sleep;

use crate::AppError;

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
