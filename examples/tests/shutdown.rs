//! SIGTERM on a real service over real redis-servers: every request is answered, no lock stays
//! behind, and the process ends by itself (rule 13).

#![allow(clippy::unwrap_used)] // a test fails by a panic

mod common;

use std::collections::BTreeMap;

use common::{Service, locked};
use http_body_util::BodyExt;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use redlock_tests::{Nodes, wait_until, within};
use tokio::task::JoinSet;

const AXUM_ORDERS: &str = env!("CARGO_BIN_EXE_axum-orders");

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
