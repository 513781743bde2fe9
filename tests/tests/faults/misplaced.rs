//! Rows 22, 23 and 31: servers that should not be nodes.

use redlock_core::{LockError, LostReason, NodeErrorKind, Released};
use redlock_tests::{Events, LIMIT, Nodes, Server, wait_until, within};

use crate::support::{
    JOB, LONG, assert_all_failed, wait_until_down, wait_until_empty, wait_until_up,
};

#[tokio::test]
async fn row_22_a_policy_that_drops_locks_is_warned_of_and_a_dropped_lock_is_noticed() {
    let events = Events::record();
    let kind = Server::builder().argument(&["--maxmemory-policy", "volatile-ttl"]);
    let nodes = Nodes::start_as(3, &kind);
    let client = nodes.client().ttl(LONG).build().unwrap();
    nodes.warm_up(&client).await;
    for node in nodes.iter() {
        let words = ["evict", "volatile-ttl", "noeviction", &node.address()];
        assert!(events.warned_of(&words), "{:?}", events.warnings());
    }
    // The next connection says nothing new.
    let advised = || events.warnings().iter().filter(|it| it.contains("needs attention")).count();
    let before = nodes[2].connections();
    nodes[2].command(&["CLIENT", "KILL", "TYPE", "normal"]);
    wait_until("it is connected again", async || nodes[2].connections() > before).await;
    nodes.warm_up(&client).await;
    assert_eq!(advised(), 3, "{:?}", events.warnings());
    let guard = client.lock("job").await.unwrap();
    wait_until("all nodes hold the lock", async || guard.votes() == 3).await;
    for node in &nodes[..2] {
        node.configure("maxmemory", "1");
        wait_until("the lock is evicted", async || {
            // Refused, but only after room was sought.
            let _ = node.try_command(&["SET", "something", "else"]);
            node.get(JOB).is_none()
        })
        .await;
    }
    assert!(guard.is_valid(), "no holder could know before a renewal");
    let error = guard.extend(LONG).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::Refused, .. }), "{error:?}");
    for node in &nodes[..2] {
        assert!(events.warned_of(&["odd expiry", "evicted", &node.address()]));
    }
    drop(guard);
    wait_until("nothing of the lock is left", async || nodes.holding(JOB) == 0).await;
}

#[tokio::test]
async fn row_23_a_replica_is_no_node() {
    let master = Server::start();
    let replica = Server::builder().replica_of(&master).start();
    let others = Nodes::start(2);
    let urls = others.urls().into_iter().chain([replica.url()]);
    let client = redlock_tests::patient(urls).ttl(LONG).build().unwrap();
    let guard = client.lock("job").wait(LIMIT).await.unwrap();
    wait_until_down(&client, &replica.address(), "it is a replica").await;
    assert_eq!(guard.votes(), 2);
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    let alone = redlock_tests::patient([replica.url()]).build().unwrap();
    let error = within("try_lock", alone.try_lock("job")).await.unwrap_err();
    assert_all_failed(&error, NodeErrorKind::Down, "it is a replica");

    replica.command(&["REPLICAOF", "NO", "ONE"]);
    wait_until_up(&alone, &replica.address()).await;
    wait_until_empty(&others).await;
}

#[tokio::test]
async fn row_23_nodes_that_become_replicas_lock_nothing_and_say_so() {
    let nodes = Nodes::start(3);
    let client = nodes.client().ttl(LONG).build().unwrap();
    nodes.warm_up(&client).await;
    let guard = client.lock("job").await.unwrap();
    for node in &nodes[..2] {
        node.command(&["REPLICAOF", "127.0.0.1", "1"]);
    }
    let error = within("try_lock", client.try_lock("other")).await.unwrap_err();
    assert_all_failed(&error, NodeErrorKind::Server, "READONLY");
    assert_all_failed(&error, NodeErrorKind::Server, "a node is a master");
    // They are asked for their role again, and are down until they are masters. Meanwhile a
    // renewal is unknown; the lock is not lost.
    for node in &nodes[..2] {
        wait_until_down(&client, &node.address(), "it is a replica").await;
    }
    let error = guard.extend(LONG).await.unwrap_err();
    assert_all_failed(&error, NodeErrorKind::Down, "it is a replica");
    assert!(guard.is_valid());
    for node in &nodes[..2] {
        node.command(&["REPLICAOF", "NO", "ONE"]);
    }
    wait_until("it is renewed again", async || guard.extend(LONG).await.is_ok()).await;
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_31_members_of_a_cluster_that_is_down_lock_nothing_and_say_what_is_needed() {
    let nodes = Nodes::start_as(3, &Server::builder().argument(&["--cluster-enabled", "yes"]));
    let client = nodes.client().build().unwrap();
    let error = within("try_lock", client.try_lock("job")).await.unwrap_err();
    assert_all_failed(&error, NodeErrorKind::Server, "CLUSTERDOWN");
    assert_all_failed(&error, NodeErrorKind::Server, "independent masters");
}

#[tokio::test]
async fn row_31_a_member_of_a_cluster_that_has_moved_the_key_locks_nothing() {
    let kind = Server::builder().argument(&[
        "--cluster-enabled",
        "yes",
        "--cluster-require-full-coverage",
        "no",
    ]);
    let members = Nodes::start_as(2, &kind);
    let [here, there] = &members[..] else { unreachable!() };
    // Of the 16384 slots, the first knows none of its own and all of the other's.
    there.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    there.command(&["CLUSTER", "MEET", "127.0.0.1", &here.port().to_string()]);
    wait_until("they know each other", async || {
        let answer = here.try_command(&["GET", JOB]);
        let up = there.try_command(&["GET", JOB]).is_ok();
        up && answer.is_err_and(|error| error.code() == Some("MOVED"))
    })
    .await;
    let client = redlock_tests::patient([here.url()]).build().unwrap();
    let error = within("try_lock", client.try_lock("job")).await.unwrap_err();
    assert_all_failed(&error, NodeErrorKind::Server, "MOVED");
    assert_all_failed(&error, NodeErrorKind::Server, "independent masters");
    assert_eq!(there.get(JOB), None, "no client follows it there");
}
