//! SIGTERM on a real service over real redis-servers: every request is answered, no lock stays
//! behind, and the process ends by itself (rule 13).

#![allow(clippy::unwrap_used)] // a test fails by a panic

mod common;

use std::{collections::BTreeMap, time::Duration};

use common::{Service, locked};
use http_body_util::BodyExt;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use redlock_tests::{Nodes, wait_until, within};
use tokio::{io::AsyncWriteExt, net::TcpStream, task::JoinSet, time::sleep};

const AXUM_ORDERS: &str = env!("CARGO_BIN_EXE_axum-orders");
const TONIC_ORDERS: &str = env!("CARGO_BIN_EXE_tonic-orders");
const OBSERVABILITY: &str = env!("CARGO_BIN_EXE_observability");

fn client() -> Client<HttpConnector, String> {
    Client::builder(TokioExecutor::new()).build_http()
}

/// The status of the answer to one request, which there has to be.
async fn post(client: Client<HttpConnector, String>, url: String, work: &'static str) -> u16 {
    let request = http::Request::post(url).body(work.to_owned()).unwrap();
    let response = client.request(request).await.unwrap();
    let status = response.status().as_u16();
    response.into_body().collect().await.unwrap();
    status
}

#[tokio::test]
async fn every_request_in_flight_is_answered_and_every_lock_goes() {
    let nodes = Nodes::start(3);
    let service = Service::start(AXUM_ORDERS, &nodes);
    let client = client();
    let mut holders = JoinSet::new();
    // Four that finish within the grace period, and one that would never end.
    for order in 0..4 {
        let url = format!("{}/orders/{order}", service.url);
        holders.spawn(post(client.clone(), url, "1500"));
    }
    holders.spawn(post(client.clone(), format!("{}/refunds/1", service.url), "86400000"));
    wait_until("all of them hold their locks", async || {
        (0..4).all(|order| locked(&nodes, &format!("order:{order}")))
            && locked(&nodes, "customer:1")
    })
    .await;
    // And some that wait for the first four, or come when the service is stopping: it answers for
    // as long as the endless one runs.
    let mut waiters = JoinSet::new();
    for order in 0..4 {
        let url = format!("{}/orders/{order}", service.url);
        waiters.spawn(post(client.clone(), url, "1500"));
    }

    service.terminate();
    let mut statuses = BTreeMap::new();
    for status in within("every answer", holders.join_all()).await {
        *statuses.entry(status).or_insert(0) += 1;
    }
    assert_eq!(statuses, BTreeMap::from([(200, 4), (503, 1)]));
    for status in within("every answer", waiters.join_all()).await {
        // 200 for one that got the lock before the service was told to stop.
        assert!(matches!(status, 200 | 503), "{status}");
    }
    service.ends_well().await;
    assert!(nodes.are_empty(), "locks stayed behind");
}

#[tokio::test]
async fn an_annotated_function_in_the_background_is_dropped_and_its_lock_goes() {
    let nodes = Nodes::start(3);
    let service = Service::start(AXUM_ORDERS, &nodes);
    wait_until("it runs", async || locked(&nodes, "reconciliation")).await;
    service.terminate();
    service.ends_well().await;
    assert!(nodes.are_empty(), "its lock stayed behind");
}

/// A server that waits for the rest of it never ends.
async fn ends_in_spite_of_half_a_request(program: &str, half: &[u8]) {
    let nodes = Nodes::start(3);
    let service = Service::start(program, &nodes);
    let address = service.url.strip_prefix("http://").unwrap();
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(half).await.unwrap();
    // The server has read it by then. Where it has not, the test sees less.
    sleep(Duration::from_millis(200)).await;
    service.terminate();
    service.ends_well().await;
    drop(client);
}

#[tokio::test]
async fn a_client_that_never_finishes_its_request_is_not_waited_for() {
    let head = b"POST /orders/1 HTTP/1.1\r\nHost: x\r\n";
    tokio::join!(
        ends_in_spite_of_half_a_request(AXUM_ORDERS, head),
        ends_in_spite_of_half_a_request(OBSERVABILITY, head),
        ends_in_spite_of_half_a_request(TONIC_ORDERS, b"PRI * HTTP/2.0\r\n"),
    );
}
