//! The end of a client: in order, and without a key left behind.

use std::{future::pending, time::Duration};

use redlock_core::{LockError, LockHandle, LostReason, Redlock, pools};
use redlock_tests::{LIMIT, Nodes, Peer, wait_until, within};
use tokio::{sync::oneshot, task::JoinHandle};

/// The longest ttl, so that no test passes because keys ran out.
const LONG: Duration = Duration::from_secs(60);

async fn start(count: usize) -> (Nodes, Redlock) {
    let nodes = Nodes::start(count);
    let client = nodes.client().ttl(LONG).build().unwrap();
    nodes.warm_up(&client).await;
    (nodes, client)
}

/// A body that holds `job` until it is told to finish, then returns 7. Returns once it runs.
async fn body(
    client: &Redlock,
    finish: oneshot::Receiver<()>,
) -> JoinHandle<Result<u8, LockError>> {
    let (started, start) = oneshot::channel();
    let client = client.clone();
    let task = tokio::spawn(async move {
        let body = async |_: &LockHandle| {
            started.send(()).unwrap();
            finish.await.unwrap();
            7
        };
        client.lock("job").run(body).await
    });
    start.await.unwrap();
    task
}

#[tokio::test]
async fn after_shutdown_nothing_is_locked() {
    let (nodes, client) = start(3).await;
    client.shutdown(Duration::ZERO).await;
    let error = client.lock("job").await.unwrap_err();
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error:?}");
    assert!(error.is_unavailable() && error.retry_after().is_some());
    assert!(nodes.are_empty());
}

#[tokio::test]
async fn waiters_are_refused_and_a_body_finishes_within_the_grace_period() {
    let (nodes, client) = start(5).await;
    let (finish, finished) = oneshot::channel();
    let body = body(&client, finished).await;
    let waiter = tokio::spawn({
        let client = client.clone();
        async move { client.lock("job").wait(LIMIT).await }
    });
    let shutdown = tokio::spawn({
        let client = client.clone();
        async move { client.shutdown(LIMIT).await }
    });
    let error = within("the waiter", waiter).await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error:?}");
    assert!(!shutdown.is_finished() && !body.is_finished());
    assert!(nodes.holding("redlock:job") >= nodes.quorum());

    finish.send(()).unwrap();
    assert_eq!(within("the body", body).await.unwrap().unwrap(), 7);
    within("shutdown", shutdown).await.unwrap();
    assert!(nodes.are_empty(), "shutdown returns when every node has confirmed");
}

/// Says, when dropped, on how many nodes the lock still was.
struct Witness<'a>(&'a Nodes, Option<oneshot::Sender<usize>>);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if let Some(tell) = self.1.take() {
            let _ = tell.send(self.0.holding("redlock:job"));
        }
    }
}

#[tokio::test]
async fn a_body_that_does_not_finish_is_dropped_and_only_then_released() {
    let (nodes, client) = start(5).await;
    let (tell, told) = oneshot::channel();
    let (started, start) = oneshot::channel();
    let run = client.lock("job").run(async |_: &LockHandle| {
        let _witness = Witness(&nodes, Some(tell));
        started.send(()).unwrap();
        pending::<()>().await;
    });
    let shutdown = async {
        start.await.unwrap();
        client.shutdown(Duration::from_millis(50)).await;
    };
    let (result, ()) = within("shutdown", async { tokio::join!(run, shutdown) }).await;
    let error = result.unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::Shutdown, .. }), "{error:?}");
    assert!(told.await.unwrap() >= nodes.quorum(), "released under a running body");
    assert!(nodes.are_empty(), "shutdown returns when every node has confirmed");
}

#[tokio::test]
async fn a_bare_guard_is_told_and_its_key_goes_with_it() {
    let (nodes, client) = start(3).await;
    let guard = client.lock("job").await.unwrap();
    wait_until("all nodes hold the lock", async || guard.votes() == 3).await;
    within("shutdown", client.shutdown(Duration::ZERO)).await;
    within("lost()", guard.lost()).await;
    assert!(!guard.is_valid());
    assert_eq!(nodes.holding("redlock:job"), 3, "its code may still run");
    drop(guard);
    wait_until("the key has gone with the guard", async || nodes.are_empty()).await;
}

#[tokio::test]
async fn dead_nodes_do_not_keep_shutdown_waiting() {
    let (nodes, client) = start(3).await;
    drop(client.lock("job").await.unwrap());
    nodes[0].kill();
    nodes[1].pause();
    within("shutdown", client.shutdown(Duration::ZERO)).await;
    assert!(nodes[2].keys().is_empty());
}

#[tokio::test]
async fn all_pools_shut_down_together() {
    let (nodes, client) = start(3).await;
    pools::install("orders", client.clone()).unwrap();
    let guard = client.lock("job").await.unwrap();
    drop(guard);
    // A lock through a pool that was removed since: no other call could end it.
    pools::install("removed", Redlock::in_memory(1)).unwrap();
    let (_finish, never) = oneshot::channel();
    let body = body(&pools::quorum_of(["removed"]).unwrap(), never).await;
    pools::remove("removed");

    // Each of them takes its whole grace. One after the other, they would take longer than `within` allows.
    let mut held = Vec::new();
    for number in 0..60 {
        let pool = Redlock::in_memory(1);
        pools::install(format!("pool {number}"), pool.clone()).unwrap();
        held.push(pool.lock("job").await.unwrap());
    }
    let joined = pools::quorum_of(["pool 0", "pool 1"]).unwrap();
    let of_joined = joined.lock("joined").await.unwrap();
    within("shutdown", pools::shutdown(Duration::from_secs(1))).await;
    assert!(!of_joined.is_valid());
    assert!(nodes.are_empty());
    let error = client.lock("job").await.unwrap_err();
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error:?}");
    // There is no way around it either.
    let error = pools::quorum_of(["orders"]).unwrap().lock("job").await.unwrap_err();
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error:?}");
    let error = within("the body", body).await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::Shutdown, .. }), "{error:?}");
}

/// Nothing runs after the end of `main` that could send a delete: it has to be on its way when `drop`
/// returns.
#[tokio::test]
async fn a_guard_that_is_dropped_at_the_end_of_main_leaves_no_key() {
    leaves_no_key("drop", 20, &["current_thread", "multi_thread"]).await;
}

/// They are dropped with their runtime, after the tasks of the nodes or before them.
#[tokio::test]
async fn guards_of_tasks_that_main_leaves_behind_leave_no_key() {
    leaves_no_key("leave", 20, &["current_thread", "multi_thread"]).await;
}

/// Each of them is dropped alone, and its delete goes out alone. On several threads, guards are dropped while the tasks
/// of the nodes still run: then answers are on their way as the process ends.
#[tokio::test]
async fn guards_of_a_thousand_tasks_that_main_leaves_behind_leave_no_key() {
    leaves_no_key("leave", 1000, &["current_thread", "multi_thread"]).await;
}

/// No runtime is left that could carry a byte.
#[tokio::test]
async fn guards_that_are_dropped_after_their_runtime_leave_no_key() {
    leaves_no_key("outlive", 20, &["current_thread", "multi_thread"]).await;
}

#[tokio::test]
async fn a_runtime_ends_while_a_node_hangs() {
    let nodes = Nodes::start(3);
    let client = nodes.client().ttl(LONG).node_timeout(LONG / 3).build().unwrap();
    let (tell, ended) = oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            nodes.warm_up(&client).await;
            nodes[0].pause();
            // The node has not answered yet.
            drop(client.lock("job").await.unwrap());
        });
        drop(runtime);
        let _ = tell.send(nodes);
    });
    let nodes = within("the end of the runtime", ended).await.unwrap();
    let others_are_empty = async || nodes[1].keys().is_empty() && nodes[2].keys().is_empty();
    wait_until("the others have no key", others_are_empty).await;
    nodes[0].resume();
    wait_until("no key is left", async || nodes.are_empty()).await;
}

async fn leaves_no_key(end: &str, guards: usize, flavors: &[&str]) {
    let nodes = Nodes::start(3);
    for flavor in flavors {
        for _ in 0..5 {
            let words = [end, flavor, &guards.to_string()].map(str::to_owned);
            let program = env!("CARGO_BIN_EXE_redlock-process");
            let process = Peer::start(program, words.into_iter().chain(nodes.urls()));
            assert!(process.end().await, "it failed");
            wait_until("no key is left", async || nodes.are_empty()).await;
        }
    }
}
