//! Each setting does what its name says.

use std::time::Duration;

use redlock_core::{FencingToken, LockError, Redlock, redlock};
use tokio::time::{Instant, sleep};

use crate::{AppError, events};

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

#[redlock(resource = "a", client = locks, fenced, lock = guard)]
async fn token(locks: &Redlock) -> Result<Option<FencingToken>, AppError> {
    sleep(Duration::from_millis(1)).await;
    Ok(guard.fencing_token())
}

/// One after the other, and in a crowd.
#[tokio::test(start_paused = true)]
async fn each_call_of_a_fenced_function_has_a_larger_token() {
    let locks = Redlock::in_memory(3);
    let mut last = None;
    for _ in 0..3 {
        let token = token(&locks).await.unwrap();
        assert!(token.is_some() && token > last);
        last = token;
    }
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let locks = locks.clone();
            tokio::spawn(async move { token(&locks).await })
        })
        .collect();
    for call in calls {
        let token = call.await.unwrap().unwrap();
        assert!(token > last, "{token:?} after {last:?}");
        last = token;
    }
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

#[redlock(resources = ["a"], client = locks, shared)]
async fn reads_one(locks: &Redlock) -> Result<(), LockError> {
    sleep(Duration::from_secs(1)).await;
    Ok(())
}

#[redlock(resources = names, client = locks, shared)]
async fn reads(locks: &Redlock, names: Vec<&str>) -> Result<(), LockError> {
    Ok(())
}

/// The attribute refuses a reader of several resources. Where it cannot count them, core does.
#[tokio::test(start_paused = true)]
async fn readers_of_one_resource_in_a_list_are_inside_together() {
    let locks = Redlock::in_memory(3);
    let start = Instant::now();
    let (one, other) = tokio::join!(reads_one(&locks), reads_one(&locks));
    one.and(other).unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    reads(&locks, vec!["a", "a"]).await.unwrap();
    let refused = reads(&locks, vec!["a", "b"]).await.unwrap_err();
    assert!(matches!(refused, LockError::Config { .. }), "{refused}");
}

#[redlock(resource = "a", client = locks, permits = 1024, ttl = "365d", min_hold = "365d")]
async fn most_of_all(locks: &Redlock) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "a", client = locks, permits = permits)]
async fn one_of(locks: &Redlock, permits: u32) -> Result<(), LockError> {
    Ok(())
}

/// What the attribute refuses as too much is more than core takes, and no less.
#[tokio::test(start_paused = true)]
async fn the_limits_of_the_attribute_are_those_of_core() {
    let locks = Redlock::in_memory(3);
    let client = |max_ttl| Redlock::builder().nodes(locks.memory_nodes()).max_ttl(max_ttl).build();
    let year = Duration::from_secs(365 * 24 * 60 * 60);
    most_of_all(&client(year).unwrap()).await.unwrap();
    assert!(client(year + Duration::from_millis(1)).is_err());
    for permits in [0, 1025] {
        let refused = one_of(&locks, permits).await.unwrap_err();
        assert!(refused.to_string().contains("from 1 to 1024"), "{refused}");
    }
    named(&locks, &"r".repeat(1024)).await.unwrap();
    let refused = named(&locks, &"r".repeat(1025)).await.unwrap_err();
    assert!(refused.to_string().contains("use at most 1024"), "{refused}");
    let many = |count: usize| (0..count).map(|it| it.to_string()).collect();
    locked_together(&locks, many(64)).await.unwrap();
    let refused = locked_together(&locks, many(65)).await.unwrap_err();
    assert!(refused.to_string().contains("at most 64"), "{refused}");
}

#[redlock(resource = name, client = locks)]
async fn named(locks: &Redlock, name: &str) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resources = names, client = locks)]
async fn locked_together(locks: &Redlock, names: Vec<String>) -> Result<(), LockError> {
    Ok(())
}

#[redlock(resource = "spanned", client = redlock.clone())]
async fn in_its_span(redlock: &Redlock) -> Result<Option<&'static str>, LockError> {
    tokio::task::yield_now().await;
    Ok(tracing::Span::current().metadata().map(tracing::Metadata::name))
}

/// What a body logs can be told from what the rest of its task logs.
#[tokio::test(start_paused = true)]
async fn a_body_runs_in_the_span_of_its_lock() {
    let redlock = Redlock::in_memory(1);
    // The span is known before a subscriber listens: tracing may miss a listener that comes while a
    // span is used for the first time, on whatever thread.
    in_its_span(&redlock).await.unwrap();
    let (_errors, _subscribed) = events::Errors::collect();
    assert_eq!(in_its_span(&redlock).await.unwrap(), Some("redlock.body"));
    assert!(tracing::Span::current().is_none(), "and leaves it");
}
