//! SIGTERM on a real service over real redis-servers: everybody is answered, no lock stays behind,
//! and the process ends by itself (rule 13).

#![allow(clippy::expect_used, clippy::unwrap_used)] // a test fails by a panic

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use http_body_util::BodyExt;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use redlock_tests::{Nodes, wait_until, within};
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinSet;

/// `axum-orders` as a process of its own, killed when the test is over.
struct Service {
    process: Child,
    url: String,
}

impl Service {
    fn start(nodes: &Nodes) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_axum-orders"))
            .env("REDLOCK_NODES", nodes.urls().join(","))
            .env("ADDR", "127.0.0.1:0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let url = lines
            .by_ref()
            .map(Result::unwrap)
            .find_map(|line| line.strip_prefix("listening on ").map(str::to_owned))
            .expect("it says where it listens");
        // Whatever else it says must have somewhere to go.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, url }
    }

    fn terminate(&self) {
        let id = Pid::from_raw(i32::try_from(self.process.id()).unwrap()).unwrap();
        kill_process(id, Signal::TERM).unwrap();
    }

    async fn ends_well(mut self) {
        wait_until("the process ends", async || self.process.try_wait().unwrap().is_some()).await;
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

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

fn locked(nodes: &Nodes, what: &str) -> bool {
    nodes.iter().all(|node| node.keys().iter().any(|key| key.contains(what)))
}

#[tokio::test]
async fn every_request_in_flight_is_answered_and_every_lock_goes() {
    let nodes = Nodes::start(3);
    let service = Service::start(&nodes);
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
    let service = Service::start(&nodes);
    wait_until("it runs", async || locked(&nodes, "reconciliation")).await;
    service.terminate();
    service.ends_well().await;
    assert!(nodes.are_empty(), "its lock stayed behind");
}
