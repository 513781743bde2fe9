//! Rows 32, 33, 35 to 37: operators and other programs that touch connections and keys, and names
//! of nodes.

use redlock_core::{LockError, LostReason, NodeErrorKind, Redlock, Released};
use redlock_tests::{LIMIT, Nodes, Server, patient, wait_until, within};

use crate::support::{JOB, LONG, assert_all_failed, failed_nodes, health, wait_until_empty};

async fn start() -> (Nodes, Redlock) {
    let nodes = Nodes::start(3);
    let client = nodes.client().ttl(LONG).build().unwrap();
    nodes.warm_up(&client).await;
    (nodes, client)
}

#[tokio::test]
async fn row_32_a_list_of_another_program_is_held_and_left_alone() {
    let (nodes, client) = start().await;
    for node in nodes.iter() {
        node.command(&["LPUSH", JOB, "x"]);
    }
    let error = within("try_lock", client.try_lock("job")).await.unwrap_err();
    let LockError::Held { attempts, by_this_client, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*attempts, *by_this_client), (1, false), "{error}");
    // A lock that becomes a list is not ours to renew or to delete either.
    let guard = client.lock("turned").await.unwrap();
    wait_until("all nodes hold the lock", async || guard.votes() == 3).await;
    for node in nodes.iter() {
        node.command(&["DEL", "redlock:turned"]);
        node.command(&["LPUSH", "redlock:turned", "x"]);
    }
    assert!(guard.extend(LONG).await.unwrap_err().is_lost());
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
    for node in nodes.iter() {
        assert_eq!(node.keys(), [JOB, "redlock:turned"]);
        assert_eq!(node.command(&["LLEN", JOB]), redis::Value::Int(1));
    }
}

#[tokio::test]
async fn row_33_connections_that_an_operator_kills_are_replaced_under_a_lock() {
    let (nodes, client) = start().await;
    let guard = client.lock("job").await.unwrap();
    for round in 0..3 {
        for node in nodes.iter() {
            node.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        }
        // Questions on the old connections may have failed. Questions on new connections do not.
        let _ = client.try_lock(format!("other:{round}")).await;
        let other = client.lock(format!("other:{round}")).wait(LIMIT).await.unwrap();
        assert_eq!(other.release().await.unwrap(), Released::Ours);
    }
    wait_until("the lock is renewed", async || guard.extend(LONG).await.is_ok()).await;
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;
    nodes.warm_up(&client).await;
}

#[tokio::test]
async fn row_35_a_lock_that_was_flushed_is_lost_at_its_renewal_and_not_set_again() {
    let (nodes, client) = start().await;
    let guard = client.lock("job").await.unwrap();
    wait_until("all nodes hold the lock", async || guard.votes() == 3).await;
    nodes[..2].iter().for_each(|node| drop(node.command(&["FLUSHALL"])));
    let error = guard.extend(LONG).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::Refused, .. }), "{error:?}");
    within("lost()", guard.lost()).await;
    assert_eq!(nodes.holding(JOB), 1, "a lost lock is not set again");
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_35_a_lock_that_was_flushed_on_a_minority_is_set_again_at_its_renewal() {
    let (nodes, client) = start().await;
    let guard = client.lock("job").await.unwrap();
    wait_until("all nodes hold the lock", async || guard.votes() == 3).await;
    nodes[0].command(&["FLUSHALL"]);
    guard.extend(LONG).await.unwrap();
    wait_until("all nodes hold the lock", async || nodes.holding(JOB) == 3).await;
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_36_a_key_of_another_client_is_neither_renewed_nor_deleted() {
    let (nodes, client) = start().await;
    let guard = client.lock("job").await.unwrap();
    for node in nodes.iter() {
        node.command(&["SET", JOB, "somebody-else", "PX", "30000"]);
    }
    let error = guard.extend(LONG).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::Refused, .. }), "{error:?}");
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
    let released = client.lock("other").await.unwrap();
    for node in nodes.iter() {
        node.command(&["SET", "redlock:other", "somebody-else", "PX", "30000"]);
    }
    assert_eq!(released.release().await.unwrap(), Released::AlreadyLost);
    for node in nodes.iter() {
        for key in [JOB, "redlock:other"] {
            assert_eq!(node.get(key).as_deref(), Some("somebody-else"));
            assert!(node.ttl(key).unwrap().as_secs() <= 30, "it was renewed");
        }
    }
}

#[tokio::test]
async fn row_37_one_server_under_two_names_has_one_vote() {
    let server = Server::builder().unix_socket().start();
    let names = [server.url(), format!("unix://{}", server.socket().display())];
    let client = patient(names.clone()).build().unwrap();
    // Both have answered by then, so that they are known to be one.
    wait_until("the second name is refused", async || {
        let health = health(&client, &names[1]["unix://".len()..]).await;
        !health.is_up() && format!("{health:?}").contains("same server")
    })
    .await;
    let error = within("try_lock", client.try_lock("job")).await.unwrap_err();
    assert_all_failed(&error, NodeErrorKind::Twin, "it is the same server as 127.0.0.1:");
    wait_until_empty(std::slice::from_ref(&server)).await;

    // Among three names of two servers, both are needed.
    let other = Server::start();
    let client = patient(names.into_iter().chain([other.url()])).build().unwrap();
    let guard = client.lock("job").wait(LIMIT).await.unwrap();
    assert_eq!(guard.votes(), 2);
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    other.kill();
    let error = within("try_lock", client.try_lock("job")).await.unwrap_err();
    assert_eq!(failed_nodes(&error).len(), 2, "{error}");
    wait_until_empty(std::slice::from_ref(&server)).await;
}

#[tokio::test]
async fn row_37_even_numbers_of_nodes_need_more_than_half() {
    for (count, may_fail) in [(1, 0), (2, 0), (4, 1)] {
        let nodes = Nodes::start(count);
        let client = nodes.client().ttl(LONG).build().unwrap();
        nodes.warm_up(&client).await;
        nodes[..may_fail].iter().for_each(|node| node.kill());
        let guard = client.lock("job").wait(LIMIT).await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Ours);
        nodes[may_fail].kill();
        let error = within("try_lock", client.try_lock("job")).await.unwrap_err();
        assert_eq!(failed_nodes(&error).len(), may_fail + 1, "of {count}: {error}");
        wait_until_empty(&nodes[may_fail + 1..]).await;
    }
}
