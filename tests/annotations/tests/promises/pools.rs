//! The pools that are named are the ones that vote.

use std::time::Duration;

use redlock_core::{LockError, Redlock, pools, redlock};
use tokio::time::timeout;

use crate::{AppError, free};

#[redlock(resource = "order:{id}")]
async fn in_the_default_pool(id: u64) -> Result<(), AppError> {
    std::future::pending().await
}

#[redlock(resource = "order:{id}", pool = "promises-b")]
async fn in_a_pool(id: u64) -> Result<(), AppError> {
    std::future::pending().await
}

#[redlock(resource = "order:{id}", pools = ["promises-a", "promises-b", "promises-c"], lock = guard)]
async fn in_three_pools(id: u64) -> Result<usize, AppError> {
    std::future::pending::<()>().await;
    Ok(guard.votes())
}

/// What is locked on the nodes of these clients while the call runs.
async fn keys_during<T>(clients: &[Redlock], call: impl Future<Output = T>) -> Vec<usize> {
    let mut call = std::pin::pin!(call);
    let keys = || -> Vec<usize> {
        clients
            .iter()
            .map(|client| client.memory_nodes().iter().map(|node| node.keys().len()).sum())
            .collect()
    };
    // Nothing but the call moves on: when its timers are through, it stands in its body.
    let _ = timeout(Duration::from_secs(1), call.as_mut()).await;
    keys()
}

#[tokio::test(start_paused = true)]
async fn the_lock_is_taken_on_the_nodes_of_the_pools_that_are_named() {
    let clients = ["default", "promises-a", "promises-b", "promises-c"].map(|name| {
        let client = Redlock::in_memory(1);
        pools::install(name, client.clone()).unwrap();
        client
    });
    assert_eq!(keys_during(&clients, in_the_default_pool(1)).await, [1, 0, 0, 0]);
    free(&clients[0], "order:1").await;
    assert_eq!(keys_during(&clients, in_a_pool(2)).await, [0, 0, 1, 0]);
    free(&clients[2], "order:2").await;
    assert_eq!(keys_during(&clients, in_three_pools(3)).await, [0, 1, 1, 1]);
}

#[redlock(resource = "a", pool = "promises-none")]
async fn in_no_pool() -> Result<(), AppError> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_not_installed_is_refused_by_name() {
    let refused = in_no_pool().await.unwrap_err();
    assert!(
        matches!(&refused, AppError::Locked(LockError::UnknownPool { pool, .. }) if pool == "promises-none"),
        "{refused:?}"
    );
}

#[redlock(resource = "nested", pool = "promises-one")]
async fn outside() -> Result<(), AppError> {
    Ok(inside().await?)
}

#[redlock(resource = "nested", pools = ["promises-one"])]
async fn inside() -> Result<(), LockError> {
    Ok(())
}

/// A client of its own for the one pool would wait for the body around it.
#[tokio::test(start_paused = true)]
async fn a_list_of_one_pool_is_that_pool() {
    pools::install("promises-one", Redlock::in_memory(1)).unwrap();
    let begun = tokio::time::Instant::now();
    outside().await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}
