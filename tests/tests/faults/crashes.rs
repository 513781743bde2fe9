//! Rows 1 and 2, 25: nodes that die, and come back.

use std::time::Instant;

use redlock_core::{LockError, LockHandle, LostReason, NodeErrorKind, Redlock, Released};
use redlock_tests::{LIMIT, Nodes, wait_until, within};

use crate::support::{
    BRIEF, LONG, SECOND, brief, failed_nodes, health, wait_until_down, wait_until_empty,
};

#[tokio::test]
async fn row_01_a_killed_minority_stops_nothing() {
    let nodes = Nodes::start(5);
    // Far longer than all of the work below: one wait for a dead node would show.
    let timeout = 15 * SECOND;
    let client = nodes.client().node_timeout(timeout).ttl(LONG).build().unwrap();
    nodes.warm_up(&client).await;
    nodes[..2].iter().for_each(|node| node.kill());
    let start = Instant::now();
    for _ in 0..10 {
        let guard = client.lock("job").await.unwrap();
        wait_until("the others hold the lock", async || guard.votes() == 3).await;
        guard.extend(LONG).await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Ours);
    }
    assert!(start.elapsed() < timeout, "a request waited for a dead node");
    wait_until_empty(&nodes[2..]).await;
}

#[tokio::test]
async fn row_01_a_service_starts_while_a_minority_is_dead() {
    let nodes = Nodes::start(5);
    nodes[..2].iter().for_each(|node| node.kill());
    let client = within("connect", Redlock::connect(nodes.urls())).await.unwrap();
    let guard = client.lock("job").wait(LIMIT).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
}

#[tokio::test]
async fn row_01_a_node_that_comes_back_votes_again() {
    let nodes = Nodes::start(3);
    let client = brief(&nodes);
    nodes.warm_up(&client).await;
    nodes[0].kill();
    let guard = client.lock("job").await.unwrap();
    wait_until("the others hold the lock", async || guard.votes() == 2).await;
    guard.release().await.unwrap();
    nodes[0].start_again();
    // Returns once every node votes.
    nodes.warm_up(&client).await;
}

#[tokio::test]
async fn row_02_without_a_majority_the_error_names_the_dead_nodes_and_why() {
    let nodes = Nodes::start(5);
    let client = nodes.client().build().unwrap();
    nodes.warm_up(&client).await;
    let dead = &nodes[..3];
    dead.iter().for_each(|node| node.kill());
    // The connections break first. From then on the reason is that no server takes new ones.
    wait_until("the reason is told", async || {
        let error = client.try_lock("job").await.unwrap_err();
        let failed = failed_nodes(&error);
        let text = error.to_string();
        let LockError::NoQuorum { granted, quorum, .. } = &error else { panic!("{error:?}") };
        assert_eq!((*quorum, *granted <= 2), (3, true));
        for node in dead {
            assert!(text.contains(&node.address()), "{text}");
            assert!(failed.iter().any(|failed| *failed.node == *node.address()), "{failed:?}");
        }
        assert!(nodes[3..].iter().all(|node| !text.contains(&node.address())), "{text}");
        failed.iter().all(|failed| {
            failed.kind == NodeErrorKind::Down && failed.reason.to_lowercase().contains("refused")
        })
    })
    .await;
    wait_until_empty(&nodes[3..]).await;
}

#[tokio::test]
async fn row_02_a_holder_without_a_majority_is_told_when_its_validity_ends() {
    let nodes = Nodes::start(5);
    let client = brief(&nodes);
    nodes.warm_up(&client).await;
    let guard = client.lock("job").wait(LIMIT).await.unwrap();
    nodes[..3].iter().for_each(|node| node.kill());
    within("lost()", guard.lost()).await;
    assert!(!guard.is_valid());
    let error = guard.extend(BRIEF).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::Expired, .. }), "{error:?}");
    drop(guard);
    wait_until_empty(&nodes[3..]).await;
}

#[tokio::test]
async fn row_02_a_body_keeps_its_result_when_the_release_finds_no_quorum() {
    let nodes = Nodes::start(3);
    let client = nodes.client().build().unwrap();
    let result = client.lock("job").run(async |_: &LockHandle| {
        nodes.iter().for_each(|node| node.kill());
        7
    });
    assert_eq!(within("run", result).await.unwrap(), 7);
}

#[tokio::test]
async fn row_02_a_majority_that_comes_back_is_used_again() {
    let nodes = Nodes::start(3);
    let client = brief(&nodes);
    nodes.warm_up(&client).await;
    nodes[..2].iter().for_each(|node| node.kill());
    assert!(client.try_lock("job").await.unwrap_err().is_unavailable());
    nodes[..2].iter().for_each(|node| node.start_again());
    let guard = client.lock("job").wait(LIMIT).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
}

#[tokio::test]
async fn row_25_a_node_that_loads_its_data_is_down_and_then_sits_out() {
    let nodes = Nodes::start(3);
    let client = brief(&nodes);
    nodes.warm_up(&client).await;
    let loading = &nodes[0];
    loading.restart_loading();
    wait_until_down(&client, &loading.address(), "LOADING").await;
    let guard = client.lock("job").wait(LIMIT).await.unwrap();
    wait_until("the others hold the lock", async || guard.votes() == 2).await;
    assert_eq!(guard.release().await.unwrap(), Released::Ours);

    loading.finish_loading();
    wait_until("it is up and sits out", async || {
        let health = health(&client, &loading.address()).await;
        assert!(health.is_up() <= health.sits_out.is_some(), "it votes: {health:?}");
        health.is_up()
    })
    .await;
    nodes.warm_up(&client).await;
}
