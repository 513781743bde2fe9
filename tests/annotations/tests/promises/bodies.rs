//! A body ends with its lock, and the lock with its body.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use redlock_core::{LockError, LockHandle, LostReason, Redlock, redlock};
use tokio::time::{Instant, sleep};

use crate::{AppError, free};

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

#[async_trait::async_trait]
trait Continues {
    async fn continued(&self) -> Result<bool, AppError>;
}

#[async_trait::async_trait]
impl Continues for Redlock {
    #[redlock(resource = "a", client = self, max_hold = "1s", on_lost = "continue", lock = guard)]
    async fn continued(&self) -> Result<bool, AppError> {
        guard.lost().await;
        sleep(Duration::from_secs(60)).await;
        Ok(guard.is_valid())
    }
}

#[redlock(resource = "a", client = locks, max_hold = "1s", on_lost = "continue", lock = guard)]
fn continued_in_a_block<'a>(
    locks: &'a Redlock,
) -> Pin<Box<dyn Future<Output = Result<bool, AppError>> + Send + 'a>> {
    Box::pin(async move {
        guard.lost().await;
        sleep(Duration::from_secs(60)).await;
        Ok(guard.is_valid())
    })
}

#[tokio::test(start_paused = true)]
async fn with_continue_a_boxed_future_finishes_too() {
    let locks = Redlock::in_memory(3);
    assert!(!Continues::continued(&locks).await.unwrap());
    assert!(!continued_in_a_block(&locks).await.unwrap());
}

/// Notes at its end whether the lock was still there.
struct Seen<'a>(LockHandle, &'a AtomicU32);

impl Drop for Seen<'_> {
    fn drop(&mut self) {
        let seen = if self.0.is_valid() { 1 } else { 2 };
        self.1.store(seen, Ordering::SeqCst);
    }
}

#[redlock(resource = "a", client = locks, lock = guard)]
async fn dropped(locks: &Redlock, seen: &AtomicU32) -> Result<(), AppError> {
    let _seen = Seen(guard, seen);
    std::future::pending().await
}

#[redlock(resource = "a", client = locks, on_lost = "continue", lock = guard)]
async fn dropped_that_would_continue(locks: &Redlock, seen: &AtomicU32) -> Result<(), AppError> {
    let _seen = Seen(guard, seen);
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn a_dropped_body_ends_under_its_lock() {
    async fn drop_it(locks: &Redlock, call: impl Future) {
        let held = async {
            while locks.held().is_empty() {
                sleep(Duration::from_millis(1)).await;
            }
            // One more turn: the body starts after its lock is given.
            sleep(Duration::from_millis(1)).await;
        };
        tokio::select! {
            _ = call => unreachable!(),
            () = held => {}
        }
    }
    let locks = Redlock::in_memory(3);
    let seen = AtomicU32::new(0);
    drop_it(&locks, dropped(&locks, &seen)).await;
    assert_eq!(seen.swap(0, Ordering::SeqCst), 1);
    free(&locks, "a").await;
    drop_it(&locks, dropped_that_would_continue(&locks, &seen)).await;
    assert_eq!(seen.load(Ordering::SeqCst), 1);
    free(&locks, "a").await;
}

/// Notes at its end whether the lock was still held.
struct Held(Redlock, Arc<AtomicU32>);

impl Drop for Held {
    fn drop(&mut self) {
        self.1.store(if self.0.held().is_empty() { 2 } else { 1 }, Ordering::SeqCst);
    }
}

struct Order {
    id: u8,
    _held: Held,
}

#[redlock(resource = "a", client = locks)]
async fn named(locks: &Redlock, order: Order) -> Result<u8, AppError> {
    let order = order;
    Ok(order.id)
}

#[redlock(resource = "a", client = locks)]
fn named_in_a_block<'a>(
    locks: &'a Redlock,
    order: Order,
) -> Pin<Box<dyn Future<Output = Result<u8, AppError>> + Send + 'a>> {
    Box::pin(async move {
        let order = order;
        Ok(order.id)
    })
}

#[tokio::test(start_paused = true)]
async fn an_argument_that_the_body_names_is_dropped_under_the_lock() {
    let locks = Redlock::in_memory(3);
    let seen = Arc::new(AtomicU32::new(0));
    let order = || Order { id: 7, _held: Held(locks.clone(), Arc::clone(&seen)) };
    assert_eq!(named(&locks, order()).await.unwrap(), 7);
    assert_eq!(seen.swap(0, Ordering::SeqCst), 1);
    assert_eq!(named_in_a_block(&locks, order()).await.unwrap(), 7);
    assert_eq!(seen.swap(0, Ordering::SeqCst), 1);
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

#[redlock(resource = "a", client = locks)]
async fn large(locks: Redlock) -> Result<usize, AppError> {
    let large = [0_u8; 10_000];
    sleep(Duration::from_secs(1)).await;
    Ok(large.len())
}

#[test]
fn a_large_body_makes_no_large_future() {
    let call = large(Redlock::in_memory(1));
    assert!(size_of_val(&call) < 500, "{} bytes", size_of_val(&call));
}
