//! How long a `min_hold` keeps the keys of a hold that has ended.

use std::{future::pending, panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt;
use tokio::time::{Instant, sleep};

use super::{TTL, client};
use crate::{LockError, LockHandle, MemoryNode, Redlock, Released, testing::nodes};

const MIN_HOLD: Duration = Duration::from_secs(20);

#[tokio::test(start_paused = true)]
async fn min_hold_keeps_the_key_for_the_rest() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let guard = redlock.lock("r").min_hold(MIN_HOLD).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    let rest = nodes[0].remaining("redlock:r").unwrap();
    assert!(rest > Duration::from_secs(14) && rest <= Duration::from_secs(15), "{rest:?}");
    assert!(redlock.try_lock("r").await.unwrap_err().is_held());
    sleep(Duration::from_secs(10)).await;
    let rest = nodes[0].remaining("redlock:r").unwrap();
    assert!(rest <= Duration::from_secs(5), "nothing lengthens it: {rest:?}");
    sleep(Duration::from_secs(6)).await;
    let _ = redlock.try_lock("r").await.unwrap();
}

/// When the `SET`s reach the nodes late, a release must not free the keys earlier than they would have
/// gone after a crash.
#[tokio::test(start_paused = true)]
async fn min_hold_begins_with_the_hold() {
    let nodes = nodes(3);
    let redlock = Redlock::builder().nodes(&nodes).ttl(TTL).node_timeout(TTL / 3).build().unwrap();
    drop(redlock.lock("warm").await.unwrap());
    nodes.iter().for_each(MemoryNode::hang);
    let taken = async {
        sleep(Duration::from_secs(2)).await;
        nodes.iter().for_each(MemoryNode::resume);
    };
    let request = redlock.lock("r").min_hold(MIN_HOLD).into_future();
    let (guard, ()) = tokio::join!(request, taken);
    let begun = Instant::now();
    assert_eq!(guard.unwrap().release().await.unwrap(), Released::Ours);
    for node in &nodes {
        let rest = node.remaining("redlock:r").unwrap() + begun.elapsed();
        assert!(rest >= MIN_HOLD, "{rest:?}");
    }
}

/// The lock ended `after` it was taken, and the keys stay for the rest.
fn assert_rest(nodes: &[MemoryNode], after: Duration) {
    for node in nodes {
        let rest = node.remaining("redlock:r").expect("the key stays");
        let expected = MIN_HOLD - after;
        assert!(rest <= expected && rest + Duration::from_secs(1) > expected, "{rest:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn min_hold_keeps_the_key_of_a_body_that_panics() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let body = async |_: &LockHandle| {
        sleep(Duration::from_secs(5)).await;
        panic!("in the body")
    };
    let running = redlock.lock("r").min_hold(MIN_HOLD).run::<(), _>(body);
    assert!(AssertUnwindSafe(running).catch_unwind().await.is_err());
    assert_rest(&nodes, Duration::from_secs(5));
    assert!(redlock.try_lock("r").await.unwrap_err().is_held());
}

#[tokio::test(start_paused = true)]
async fn min_hold_keeps_the_key_of_a_body_that_a_shutdown_drops() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let running = redlock.lock("r").min_hold(MIN_HOLD).run(async |_| pending::<()>().await);
    let running = tokio::spawn(running.into_future());
    sleep(Duration::from_secs(5)).await;
    redlock.shutdown(Duration::ZERO).await;
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Lost { .. }), "{error}");
    assert_rest(&nodes, Duration::from_secs(5));
    assert!(client(&nodes).try_lock("r").await.unwrap_err().is_held());
}
