//! The settings of a call: how long it waits, how long the lock lives, and whether it renews itself.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use redlock_core::{LockError, LockHandle, LockOptions, LostReason, Released};
use redlock_tests::{LIMIT, Nodes, wait_until, within};

use super::SECOND;

/// What Redis may round away of an expiry.
const ROUNDING: Duration = Duration::from_millis(20);

#[tokio::test]
async fn attempts_are_limited_by_wait_and_by_retry_count() {
    let nodes = Nodes::start(3);
    // A node that connects late, or again after it was silent for too long, notifies the waiter, and the
    // attempt that follows is no retry.
    let client = || nodes.client().node_timeout(10 * SECOND).build().unwrap();
    let (a, b) = (client(), client());
    nodes.warm_up(&b).await;
    let guard = a.lock("job").await.unwrap();
    wait_until("all nodes hold the lock", async || guard.votes() == 3).await;
    let attempts = |error: LockError| match error {
        LockError::Held { attempts, .. } => attempts,
        other => panic!("{other:?}"),
    };
    let pace = Duration::from_millis(5);

    let error = b.try_lock("job").await.unwrap_err();
    assert_eq!(attempts(error), 1);
    let error = b.lock("job").wait(Duration::ZERO).await.unwrap_err();
    assert_eq!(attempts(error), 1);
    let error = b.lock("job").wait(LIMIT).retry_count(2).retry_delay(pace).await.unwrap_err();
    assert_eq!(attempts(error), 3);
    let error = b.lock("job").wait(LIMIT).retry_count(0).await.unwrap_err();
    assert_eq!(attempts(error), 1);
    let patient = LockOptions::new().wait(LIMIT).retry_delay(pace).retry_count(9);
    let error = b.lock("job").options(patient).retry_count(1).await.unwrap_err();
    assert_eq!(attempts(error), 2, "the later call wins");

    // Long enough for a second attempt on a busy machine.
    let wait = 3 * SECOND;
    let start = Instant::now();
    let error = b.lock("job").wait(wait).retry_delay(pace).retry_jitter(pace).await.unwrap_err();
    assert!(start.elapsed() + pace * 2 + ROUNDING >= wait, "gave up after {:?}", start.elapsed());
    assert!(attempts(error) > 1);
}

#[tokio::test]
async fn a_lock_renews_itself_for_as_long_as_it_is_held() {
    let nodes = Nodes::start(3);
    let ttl = 6 * SECOND;
    let client = nodes.client().ttl(ttl).build().unwrap();
    nodes.warm_up(&client).await;
    let guard = client.lock("job").await.unwrap();
    let start = Instant::now();
    wait_until("two ttls have gone by", async || {
        assert!(guard.is_valid(), "lost after {:?}", start.elapsed());
        start.elapsed() > 2 * ttl
    })
    .await;
    assert!(nodes.holding("redlock:job") >= nodes.quorum());
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
}

#[tokio::test]
async fn a_lock_that_does_not_renew_itself_runs_out_and_is_told() {
    let nodes = Nodes::start(3);
    let client = nodes.client().node_timeout(SECOND / 3).build().unwrap();
    let request = client.lock("job").wait(LIMIT).ttl(SECOND).auto_extend(false);
    let start = Instant::now();
    let guard = request.await.unwrap();
    within("lost()", guard.lost()).await;
    assert!(!guard.is_valid());
    assert_eq!(guard.validity(), Duration::ZERO);
    let error = guard.extend(SECOND).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::Expired, .. }), "{error:?}");
    let next = nodes.client().build().unwrap().lock("job").wait(LIMIT).await.unwrap();
    // From before the first SET on: no node may let the key go earlier.
    assert!(start.elapsed() + ROUNDING >= SECOND);
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
    assert!(next.is_valid());
    assert!(nodes.holding("redlock:job") >= nodes.quorum(), "the next holder's keys are its own");
}

#[tokio::test]
async fn a_lock_is_lost_after_max_hold() {
    let nodes = Nodes::start(3);
    let client = nodes.client().build().unwrap();
    let max = Duration::from_millis(300);

    let guard = client.lock("job").max_hold(max).await.unwrap();
    within("lost()", guard.lost()).await;
    assert!(!guard.is_valid());
    drop(guard);
    wait_until("the key has gone with the guard", async || nodes.are_empty()).await;

    let body = async |_: &LockHandle| std::future::pending::<()>().await;
    let run = client.lock("job").max_hold(max).run(body);
    let error = within("run", run).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::MaxHold, .. }), "{error:?}");
    wait_until("the key has gone with the body", async || nodes.are_empty()).await;
}

#[tokio::test]
async fn a_key_stays_for_the_rest_of_min_hold_after_the_release() {
    let nodes = Nodes::start(3);
    let (a, b) = (nodes.client().build().unwrap(), nodes.client().build().unwrap());
    nodes.warm_up(&b).await;
    let min = 2 * SECOND;
    let start = Instant::now();
    let guard = a.lock("job").min_hold(min).await.unwrap();
    guard.release().await.unwrap();
    // A busy machine may need more than min_hold to get here: then there is nothing to see.
    let refused = b.try_lock("job").await;
    assert!(refused.is_err_and(|e| e.is_held()) || start.elapsed() >= min);
    wait_until("each node's key lives for the rest at most", async || {
        nodes.iter().all(|node| node.ttl("redlock:job").is_none_or(|ttl| ttl <= min))
    })
    .await;
    let guard = b.lock("job").wait(LIMIT).await.unwrap();
    assert!(start.elapsed() + ROUNDING >= min, "free after {:?}", start.elapsed());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn min_hold_outlives_a_killed_holder_beyond_its_ttl() {
    let nodes = Nodes::start(3);
    // The ttl of that process is 5 s.
    let min = 8 * SECOND;
    let start = Instant::now();
    let mut holder = Command::new(env!("CARGO_BIN_EXE_redlock-process"))
        .args(["hold", "job", &min.as_millis().to_string()])
        .args(nodes.urls())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said.trim(), "held");
    holder.kill().unwrap();
    holder.wait().unwrap();
    let client = nodes.client().build().unwrap();
    let guard = client.lock("job").wait(LIMIT).await.unwrap();
    assert!(start.elapsed() + ROUNDING >= min, "free after {:?}", start.elapsed());
    assert!(guard.is_valid());
}

#[tokio::test]
async fn extending_beyond_max_ttl_is_refused_and_never_shortens() {
    let nodes = Nodes::start(3);
    let client = nodes.client().build().unwrap();
    let guard = client.lock("job").await.unwrap();
    let error = guard.extend(61 * SECOND).await.unwrap_err();
    assert!(matches!(error, LockError::Config { .. }), "{error:?}");
    guard.extend(60 * SECOND).await.unwrap();
    guard.extend(10 * SECOND).await.unwrap();
    assert!(guard.validity() > 20 * SECOND, "{:?}", guard.validity());
}
