//! Rows 10 to 14 and 17: what the network does to connections that are there.

use std::time::Duration;

use redlock_core::{LockError, LockHandle, LostReason, NodeErrorKind, Redlock, Released};
use redlock_tests::{Flow, LIMIT, Nodes, Proxy, patient, sockets, wait_until, within};
use tokio::{io::AsyncWriteExt, net::TcpListener};

use crate::support::{
    BRIEF, JOB, LONG, SECOND, assert_all_failed, behind_proxies, forget_calls, wait_until_down,
    wait_until_empty, wait_until_set,
};

#[tokio::test]
async fn row_10_latency_below_the_timeout_costs_validity_and_nothing_else() {
    let (nodes, proxies, client) = behind_proxies(3, 2 * SECOND).await;
    let delay = 8 * 2 * SECOND / 10;
    proxies.iter().for_each(|proxy| proxy.replies(Flow::Delay(delay)));
    let guard = client.lock("job").wait(LIMIT).await.unwrap();
    // A hundredth and 2 ms are the allowance for clocks.
    let most = LONG - LONG / 100 - Duration::from_millis(2) - delay;
    assert!(guard.is_valid() && guard.validity() <= most, "{:?}", guard.validity());
    proxies.iter().for_each(|proxy| proxy.replies(Flow::Pass));
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_11_replies_that_are_held_for_longer_than_the_ttl_lock_nothing() {
    let (nodes, proxies, client) = behind_proxies(3, SECOND / 2).await;
    let resource = "unheard";
    forget_calls(&nodes);
    proxies.iter().for_each(|proxy| proxy.replies(Flow::Hold));
    let (error, ()) =
        tokio::join!(client.try_lock(resource).ttl(2 * SECOND), wait_until_set(&nodes),);
    assert_all_failed(&error.unwrap_err(), NodeErrorKind::Timeout, "no answer within 500ms");
    // Requests arrive, so the deletes do, though no client hears of that either.
    wait_until_empty(&nodes).await;
    proxies.iter().for_each(|proxy| proxy.replies(Flow::Pass));
    let guard = client.lock(resource).wait(LIMIT).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_11_a_quorum_that_comes_too_late_for_its_validity_locks_nothing() {
    let (nodes, proxies, client) = behind_proxies(3, 2 * SECOND).await;
    proxies.iter().for_each(|proxy| proxy.replies(Flow::Delay(SECOND / 5)));
    // All but 58 ms of it are the allowance for clocks: less than the way back takes.
    let error = client.try_lock("job").ttl(6 * SECOND).clock_drift_factor(0.99).await.unwrap_err();
    let LockError::NoQuorum { granted, quorum, nodes: failed, .. } = &error else {
        panic!("{error:?}")
    };
    assert!(granted >= quorum && failed.is_empty(), "{error:?}");
    assert!(error.to_string().contains("came too late"), "{error}");
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_12_a_minority_that_hears_and_is_not_heard_is_not_counted_but_released() {
    let (nodes, proxies, client) = behind_proxies(3, 2 * SECOND).await;
    proxies[0].replies(Flow::Discard);
    let guard = client.lock("job").wait(LIMIT).await.unwrap();
    wait_until("it has the key", async || nodes[0].get(JOB).is_some()).await;
    assert!(guard.votes() <= 2, "{} votes", guard.votes());
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_12_a_majority_that_hears_and_is_not_heard_is_no_quorum_and_released() {
    let (nodes, proxies, client) = behind_proxies(3, SECOND / 2).await;
    forget_calls(&nodes);
    proxies[..2].iter().for_each(|proxy| proxy.replies(Flow::Discard));
    let (error, ()) = tokio::join!(client.try_lock("job"), wait_until_set(&nodes));
    assert_all_failed(&error.unwrap_err(), NodeErrorKind::Timeout, "no answer within 500ms");
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_13_a_half_open_connection_is_replaced_and_its_socket_closed() {
    let nodes = Nodes::start(3);
    let proxies = nodes.proxies();
    let client = patient(proxies.iter().map(Proxy::url))
        .node_timeout(SECOND)
        .connect_timeout(SECOND)
        .build()
        .unwrap();
    nodes.warm_up(&client).await;
    // The other side neither answers nor says that it has gone, and does not see us go.
    proxies[0].both(Flow::Hold);
    let port = proxies[0].port();
    wait_until("the connection was given up four times", async || {
        let guard = client.lock("job").wait(LIMIT).await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Ours);
        // At most the connection that is being closed, and the next connection.
        let ours = sockets::connected_to(port);
        assert!(ours <= 2, "{ours} sockets: those given up are kept");
        proxies[0].connections() > 4
    })
    .await;
    // Between two attempts to connect there is no socket.
    wait_until("those given up are closed", async || sockets::connected_to(port) == 0).await;
    proxies[0].both(Flow::Pass);
    nodes.warm_up(&client).await;
}

/// Damaged replies of one node are the trouble of that node alone, and end with the damage.
async fn one_node_in_trouble(flow: Flow, words: &[&str]) {
    let (nodes, proxies, client) = behind_proxies(3, 2 * SECOND).await;
    let alone = patient([proxies[0].url()]).build().unwrap();
    alone.lock("alone").await.unwrap().release().await.unwrap();
    proxies[0].replies(flow);
    let error = within("try_lock", alone.try_lock("alone")).await.unwrap_err();
    let LockError::NoQuorum { nodes: failed, .. } = &error else { panic!("{error:?}") };
    assert!(words.iter().any(|words| failed[0].reason.contains(words)), "{error}");

    for number in 0..5 {
        let guard = client.lock(format!("job:{number}")).wait(LIMIT).await.unwrap();
        guard.extend(LONG).await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Ours);
    }
    proxies[0].replies(Flow::Pass);
    nodes.warm_up(&client).await;
    wait_until("the client of that node alone works again", async || {
        alone.try_lock("alone").await.is_ok()
    })
    .await;
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_14_a_connection_that_is_reset_within_a_reply_is_replaced() {
    one_node_in_trouble(Flow::Break, &["reset by peer"]).await;
}

#[tokio::test]
async fn row_14_garbage_breaks_the_connection_of_that_node_alone() {
    let garbage = Flow::Forge(b"\xff\x00garbage\r\n");
    one_node_in_trouble(garbage, &["does not speak the Redis protocol"]).await;
}

#[tokio::test]
async fn row_14_a_reply_that_claims_to_be_huge_takes_no_memory() {
    // A quarter of what is claimed, for tests beside this one.
    let most = peak_memory() + 128 * 1024;
    let huge = Flow::Forge(b"$536870911\r\nx");
    one_node_in_trouble(huge, &["no answer", "does not speak"]).await;
    assert!(peak_memory() < most, "{} kB", peak_memory());
}

/// It does so before it has proved anything, and a lock is held over the other two meanwhile.
#[tokio::test]
async fn row_14_a_server_that_never_ends_its_first_reply_takes_no_memory() {
    let nodes = Nodes::start(2);
    let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = door.local_addr().unwrap().to_string();
    let most = peak_memory() + 128 * 1024;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = door.accept().await {
            tokio::spawn(async move {
                let filler = vec![b'x'; 1 << 20];
                let _ = stream.write_all(b"*100\r\n$536870912\r\n").await;
                for _ in 0..512 {
                    if stream.write_all(&filler).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    let urls = nodes.urls().into_iter().chain([format!("redis://{address}")]);
    let client = patient(urls).build().unwrap();
    let guard = client.lock("job").wait(LIMIT).await.unwrap();
    wait_until_down(&client, &address, "the server sent more than any answer takes").await;
    guard.extend(LONG).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    assert!(peak_memory() < most, "{} kB", peak_memory());
}

/// The most memory that this process has had so far, in kB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn row_14_replies_that_come_byte_by_byte_are_understood() {
    let (nodes, proxies, client) = behind_proxies(3, 5 * SECOND).await;
    proxies.iter().for_each(|proxy| proxy.both(Flow::PerByte));
    let guard = client.lock("job").await.unwrap();
    guard.extend(LONG).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    // New connections, too.
    proxies.iter().for_each(Proxy::close);
    nodes.warm_up(&client).await;
}

#[tokio::test]
async fn row_14_connections_that_are_cut_or_closed_are_replaced_under_a_lock() {
    let (nodes, proxies, client) = behind_proxies(3, 2 * SECOND).await;
    let guard = client.lock("job").await.unwrap();
    for end in [Proxy::cut, Proxy::close] {
        proxies.iter().for_each(end);
        // All nodes vote again, and the lock held meanwhile is still ours.
        wait_until("the lock is confirmed on new connections", async || {
            guard.extend(LONG).await.is_ok()
        })
        .await;
    }
    assert!(guard.is_valid());
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    nodes.warm_up(&client).await;
}

#[tokio::test]
async fn row_17_a_partitioned_holder_is_told_and_takes_nothing_from_the_next() {
    let nodes = Nodes::start(3);
    let proxies = nodes.proxies();
    let holder: Redlock =
        patient(proxies.iter().map(Proxy::url)).node_timeout(SECOND).ttl(BRIEF).build().unwrap();
    let other = nodes.client().build().unwrap();
    let guard = holder.lock("bare").wait(LIMIT).await.unwrap();
    let (started, start) = tokio::sync::oneshot::channel();
    let body = tokio::spawn({
        let holder = holder.clone();
        async move {
            let body = async |_: &LockHandle| {
                started.send(()).unwrap();
                std::future::pending::<()>().await;
            };
            holder.lock("body").wait(LIMIT).run(body).await
        }
    });
    start.await.unwrap();

    proxies.iter().for_each(|proxy| proxy.both(Flow::Hold));
    within("lost()", guard.lost()).await;
    assert!(!guard.is_valid());
    let error = within("the body", body).await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::Expired, .. }), "{error:?}");

    // Another client takes over, and late commands of the old holder do not take the lock away from
    // it.
    let next = other.lock("bare").wait(LIMIT).await.unwrap();
    proxies.iter().for_each(|proxy| proxy.both(Flow::Pass));
    drop(guard);
    wait_until("only the new holder's key is left", async || {
        nodes.iter().all(|node| node.keys() == ["redlock:bare"])
    })
    .await;
    assert_eq!(next.release().await.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;
}
