//! Clients by name, for the whole process.

use std::time::Duration;

use redlock_core::{LockError, Redlock, Released, pools};
use redlock_tests::{Nodes, patient, wait_until, within};

/// Stays after the runtime that it was used on has ended.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_name_is_taken_once_and_can_be_replaced_and_removed() {
    let client = || Redlock::builder().nodes(["redis://127.0.0.1:1"]).build().unwrap();
    pools::install("names", client()).unwrap();
    let error = pools::install("names", client()).unwrap_err();
    assert!(matches!(error, LockError::Config { .. }), "{error:?}");
    assert!(error.to_string().contains("names"), "{error}");
    assert!(pools::get("names").is_some());
    assert!(pools::replace("names", client()).is_some());
    assert!(pools::remove("names").is_some());
    assert!(pools::remove("names").is_none() && pools::get("names").is_none());
    assert!(pools::replace("names", client()).is_none());
    pools::remove("names");
}

#[tokio::test]
async fn a_quorum_of_pools_spans_all_of_their_nodes() {
    let nodes = Nodes::start(3);
    for (name, node) in ["east", "west", "north"].iter().zip(nodes.iter()) {
        let client = patient([node.url()]).build().unwrap();
        pools::install(*name, client).unwrap();
    }
    let names = ["east", "west", "north"];
    let client = pools::quorum_of(names).unwrap();
    nodes.warm_up(&client).await;
    let guard = client.lock("job").await.unwrap();
    wait_until("all nodes hold the lock", async || nodes.holding("redlock:job") == 3).await;

    // The same client each time: it knows that it is the holder.
    let error = pools::quorum_of(names).unwrap().try_lock("job").await.unwrap_err();
    assert!(matches!(error, LockError::Held { by_this_client: true, .. }), "{error:?}");
    guard.release().await.unwrap();

    let error = pools::quorum_of(["east", "nowhere"]).unwrap_err();
    assert!(matches!(error, LockError::UnknownPool { .. }), "{error:?}");
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[test]
fn a_client_in_a_pool_outlives_the_runtime_that_it_was_used_on() {
    let nodes = Nodes::start(3);
    let ttl = Duration::from_secs(60);
    pools::install("runtimes", nodes.client().ttl(ttl).build().unwrap()).unwrap();
    let client = || pools::get("runtimes").unwrap();

    let first = runtime();
    let guard = first.block_on(async {
        nodes.warm_up(&client()).await;
        client().lock("job").await.unwrap()
    });
    drop(first);

    runtime().block_on(async {
        nodes.warm_up(&client()).await;
        // The old hold is told from here on, too.
        guard.extend(ttl).await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Ours);
        wait_until("the lock is gone", async || nodes.are_empty()).await;
    });

    // A guard dropped while there is no runtime at all is released by the next that is there.
    let last = runtime();
    let guard = last.block_on(async { client().lock("job").await.unwrap() });
    drop(last);
    drop(guard);
    runtime().block_on(async {
        let guard = within("the next lock", client().lock("other")).await.unwrap();
        guard.release().await.unwrap();
        wait_until("the lock is gone", async || nodes.are_empty()).await;
    });
}
