//! Row 46: keys of a set that go, or that another client takes.

use std::time::Duration;

use redlock_core::Released;
use redlock_tests::{LIMIT, Nodes, patient, wait_until, wait_until_renewed, within};

use super::support::wait_until_empty;

const TTL: Duration = Duration::from_secs(7);

#[tokio::test]
async fn row_46_a_key_of_a_set_that_went_is_set_again_and_without_a_quorum_the_set_is_lost() {
    let nodes = Nodes::start(3);
    let redlock = nodes.client().wait(LIMIT).build().unwrap();
    nodes.warm_up(&redlock).await;
    let guard = redlock.lock_all(["a", "b"]).ttl(TTL).await.unwrap();
    wait_until("every node has the set", async || guard.votes() == 3).await;
    nodes[0].command(&["DEL", "redlock:b"]);
    wait_until("it is set again (rule 8)", async || nodes.holding("redlock:b") == 3).await;
    assert!(guard.is_valid());
    // A renewal between the two deletes sets the first key again.
    wait_until("the set is lost", async || {
        nodes[0].command(&["DEL", "redlock:b"]);
        nodes[1].command(&["DEL", "redlock:a"]);
        !guard.is_valid()
    })
    .await;
    within("the loss", guard.lost()).await;
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_46_a_node_where_another_client_has_a_key_of_a_set_gets_no_part_of_it() {
    let nodes = Nodes::start(3);
    let redlock = nodes.client().wait(LIMIT).build().unwrap();
    nodes.warm_up(&redlock).await;
    let guard = redlock.lock_all(["a", "b"]).ttl(TTL).await.unwrap();
    wait_until("every node has the set", async || guard.votes() == 3).await;
    // In this order a renewal that comes between the two sets nothing again.
    nodes[0].command(&["SET", "redlock:a", "theirs", "PX", "60000"]);
    nodes[0].command(&["DEL", "redlock:b"]);
    wait_until_renewed(&nodes[1], "redlock:a").await;
    wait_until("the other client's node has no vote", async || guard.votes() == 2).await;
    assert_eq!(nodes[0].get("redlock:b"), None, "all or none");
    assert!(guard.is_valid());
    let theirs = patient([nodes[0].url()]).build().unwrap();
    assert!(theirs.try_lock("b").await.is_ok(), "the lock is free there");
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    assert_eq!(nodes[0].get("redlock:a").as_deref(), Some("theirs"));
}
