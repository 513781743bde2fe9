//! Rows 15 and 16: connections that cannot be opened.

use std::{
    future::Future,
    net::UdpSocket,
    process::Command,
    time::{Duration, Instant},
};

use redlock_core::{NodeErrorKind, Redlock, Released};
use redlock_tests::{LIMIT, Nodes, inside_namespace, patient, skipped, wait_until, within};
use tokio::net::TcpListener;

use crate::support::{
    LONG, SECOND, assert_all_failed, failed_nodes, health, wait_until_down, wait_until_empty,
};

/// An address from which nothing ever comes back, not even that it is not there.
const BLACK_HOLE: &str = "10.255.1.2:6379";

/// Runs a future on a runtime of its own, for tests that are functions first.
fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Runs commands of the shell in this namespace; false, and said so, where the machine cannot.
fn arranged(test: &str, commands: &str) -> bool {
    let output = Command::new("sh").args(["-ec", commands]).output().unwrap();
    if !output.status.success() {
        skipped(test, String::from_utf8_lossy(&output.stderr).trim());
    }
    output.status.success()
}

/// Two nodes that serve, and this one besides.
fn two_and(nodes: &Nodes, third: &str) -> Redlock {
    let third = format!("redis://{third}");
    patient(nodes.urls().into_iter().chain([third])).connect_timeout(SECOND / 2).build().unwrap()
}

/// A node that cannot be reached does not stop the others, and says why.
async fn stops_no_other_node(nodes: &Nodes, third: &str, why: &str) {
    let client = two_and(nodes, third);
    let guard = client.lock("job").wait(LIMIT).await.unwrap();
    assert_eq!(guard.votes(), 2);
    wait_until_down(&client, third, why).await;
    guard.extend(LONG).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    wait_until_empty(nodes).await;
}

/// A node that is known to be down answers so in no time.
async fn delays_no_caller(node: &str, why: &str) {
    let client = patient([format!("redis://{node}")]).connect_timeout(SECOND / 2).build().unwrap();
    let error = within("try_lock", client.try_lock("job")).await.unwrap_err();
    assert_eq!(failed_nodes(&error).len(), 1, "{error}");
    wait_until_down(&client, node, why).await;
    let start = Instant::now();
    for _ in 0..40 {
        let error = client.try_lock("job").await.unwrap_err();
        assert_all_failed(&error, NodeErrorKind::Down, why);
    }
    // Each of these calls would have waited for about a second.
    assert!(start.elapsed() < 10 * SECOND, "{:?}", start.elapsed());
}

#[test]
fn row_15_a_connection_into_a_black_hole_is_given_up() {
    let test = "connecting::row_15_a_connection_into_a_black_hole_is_given_up";
    // Packets to that address go to the other end of the cable, where no host has it.
    let cable = "ip link add cable type veth peer name end; ip link set cable up; \
                 ip link set end up; ip address add 10.255.1.1/24 dev cable; \
                 ip neighbour add 10.255.1.2 lladdr 02:00:00:00:00:01 dev cable nud permanent";
    if !inside_namespace(test) || !arranged(test, cable) {
        return;
    }
    let nodes = Nodes::start(2);
    block_on(async {
        stops_no_other_node(&nodes, BLACK_HOLE, "no connection within 500ms").await;
        delays_no_caller(BLACK_HOLE, "no connection within 500ms").await;
    });
}

#[tokio::test]
async fn row_15_a_port_that_takes_connections_and_says_nothing_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let nodes = Nodes::start(2);
    stops_no_other_node(&nodes, &address, "no connection within 500ms").await;
    delays_no_caller(&address, "no connection within 500ms").await;
}

#[tokio::test]
async fn row_16_a_refused_connection_is_an_error_at_once_and_tried_again_with_pauses() {
    let nodes = Nodes::start(2);
    // A port that no other test is given.
    stops_no_other_node(&nodes, "127.0.0.1:1", "refused").await;

    // A server that hangs up at once refuses as well, and can be asked how often it did.
    let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = two_and(&nodes, &door.local_addr().unwrap().to_string());
    let start = Instant::now();
    let guard = client.lock("job").wait(LIMIT).await.unwrap();
    let visits = async {
        for _ in 0..12 {
            drop(door.accept().await.unwrap());
        }
    };
    within("twelve tries to connect", visits).await;
    // At most two connections for each try, because a server that hangs up at HELLO is asked
    // without it. Between the six tries lie five pauses, which double from 20 ms.
    let pauses = Duration::from_millis(20 + 40 + 80 + 160 + 320);
    assert!(start.elapsed() >= pauses, "a hot loop: {:?}", start.elapsed());
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
}

#[test]
fn row_16_a_name_that_does_not_resolve_is_an_error_of_that_node() {
    let test = "connecting::row_16_a_name_that_does_not_resolve_is_an_error_of_that_node";
    if !inside_namespace(test) {
        return;
    }
    let nodes = Nodes::start(2);
    block_on(stops_no_other_node(&nodes, "redis.invalid:6379", "cannot resolve redis.invalid"));
}

#[test]
fn row_16_a_name_server_that_does_not_answer_keeps_no_caller_waiting() {
    let test = "connecting::row_16_a_name_server_that_does_not_answer_keeps_no_caller_waiting";
    if !inside_namespace(test) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let settings = directory.path().join("resolv.conf");
    std::fs::write(&settings, "nameserver 127.0.0.1\noptions timeout:2 attempts:1\n").unwrap();
    if !arranged(test, &format!("mount --bind {} /etc/resolv.conf", settings.display())) {
        return;
    }
    let _silent = UdpSocket::bind("127.0.0.1:53").unwrap();
    let nodes = Nodes::start(2);
    block_on(stops_no_other_node(&nodes, "redis.invalid:6379", "no connection within 500ms"));
}

#[tokio::test]
async fn row_16_all_nodes_refusing_is_no_quorum_until_they_are_there() {
    let nodes = Nodes::start(3);
    nodes.iter().for_each(|node| node.kill());
    let client = nodes.client().build().unwrap();
    let error = within("try_lock", client.try_lock("job")).await.unwrap_err();
    assert_all_failed(&error, NodeErrorKind::Down, "refused");
    nodes.iter().for_each(|node| node.start_again());
    wait_until("all are back", async || {
        client.health().await.iter().all(|health| health.is_up() && health.sits_out.is_none())
    })
    .await;
    nodes.warm_up(&client).await;
    assert!(health(&client, &nodes[0].address()).await.is_up());
}
