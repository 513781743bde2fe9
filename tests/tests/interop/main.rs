//! Clients of other languages beside ours: with `key_prefix("")` they exclude each other in both
//! directions, and their releases wake our waiters.

mod other;

use std::time::Duration;

use other::Other;
use redlock_core::{LockError, Redlock};
use redlock_tests::{LIMIT, Nodes, Server, packages, patient, wait_until, within};

/// The resource, which is the key as well.
const RESOURCE: &str = "interop";

/// How often each of the two takes the lock.
const ROUNDS: u32 = 60;

/// Our client beside theirs.
fn ours(nodes: &Nodes) -> Redlock {
    let client = patient(nodes.urls()).key_prefix("").ttl(Duration::from_secs(20));
    client.wait(2 * LIMIT).retry_delay(Duration::from_millis(50)).build().unwrap()
}

/// A number that is read and written in two steps: two holders at once would lose an update.
async fn increment(store: &mut redis::aio::MultiplexedConnection) {
    let before: Option<u32> = redis::cmd("GET").arg("n").query_async(store).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let after = before.unwrap_or(0) + 1;
    () = redis::cmd("SET").arg("n").arg(after).query_async(store).await.unwrap();
}

/// Both take the lock many times at once.
async fn exclude_each_other(nodes: &Nodes, store: &Server, theirs: &mut Other) {
    let redlock = ours(nodes);
    let client = redis::Client::open(store.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    theirs.begin(&format!("rounds {ROUNDS}"));
    for _ in 0..ROUNDS {
        let guard = within("our turn", redlock.lock(RESOURCE)).await.unwrap();
        increment(&mut connection).await;
        within("release", guard.release()).await.unwrap();
        // Theirs only ask from time to time.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(theirs.answer().await, "done");
    assert_eq!(store.get("n"), Some((2 * ROUNDS).to_string()), "an update was lost");
}

/// One holds, and the other is refused.
async fn refuse_each_other(nodes: &Nodes, theirs: &mut Other) {
    let redlock = ours(nodes);
    let guard = within("ours", redlock.lock(RESOURCE)).await.unwrap();
    assert_eq!(theirs.ask("try").await, "held");
    within("release", guard.release()).await.unwrap();

    assert_eq!(theirs.ask("try").await, "got");
    let held = within("held", redlock.try_lock(RESOURCE)).await.unwrap_err();
    assert!(matches!(held, LockError::Held { .. }), "{held}");
    // A name of the holder that is none of ours is not made up.
    let status = within("a look", redlock.inspect(RESOURCE)).await.unwrap();
    assert_eq!(status.holder(), None, "{status:?}");
    assert_eq!(theirs.ask("release").await, "released");
}

/// Our waiter would ask again far later than their release.
async fn wake_our_waiters(nodes: &Nodes, theirs: &mut Other) {
    let patient = patient(nodes.urls()).key_prefix("").retry_delay(4 * LIMIT);
    let redlock = patient.wait(4 * LIMIT).build().unwrap();
    for _ in 0..5 {
        assert_eq!(theirs.ask("try").await, "got");
        let waiting = tokio::spawn({
            let redlock = redlock.clone();
            async move { redlock.lock(RESOURCE).await }
        });
        wait_until("it listens to the key", async || {
            nodes.iter().filter(|it| it.info("clients").contains("tracking_clients:1")).count()
                >= nodes.quorum()
        })
        .await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(theirs.ask("release").await, "released");
        let guard = within("the waiter", waiting).await.unwrap().unwrap();
        within("release", guard.release()).await.unwrap();
    }
}

async fn play(nodes: &Nodes, theirs: &mut Other, store: &Server) {
    refuse_each_other(nodes, theirs).await;
    wake_our_waiters(nodes, theirs).await;
    exclude_each_other(nodes, store, theirs).await;
}

#[tokio::test]
async fn node_redlock_and_ours_exclude_and_wake_each_other() {
    let test = "node_redlock_and_ours_exclude_and_wake_each_other";
    let Some(folder) = packages::node_redlock(test) else { return };
    let (nodes, store) = (Nodes::start(3), Server::start());
    let mut theirs = Other::node(&folder, &nodes, &store);
    play(&nodes, &mut theirs, &store).await;
}

#[tokio::test]
async fn redis_py_and_ours_exclude_and_wake_each_other() {
    let test = "redis_py_and_ours_exclude_and_wake_each_other";
    let Some(folder) = packages::redis_py(test) else { return };
    // Its lock knows one server.
    let (nodes, store) = (Nodes::start(1), Server::start());
    let mut theirs = Other::python(&folder, &nodes, &store);
    play(&nodes, &mut theirs, &store).await;
}
