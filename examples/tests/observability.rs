//! The service that shows metrics and traces, scraped and collected as in production, and the
//! dashboard beside it: every query asks for metrics and labels that are exported.

#![allow(clippy::expect_used, clippy::unwrap_used)] // a test fails by a panic

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
    net::TcpListener,
    sync::{Arc, Mutex},
};

use common::Service;
use http_body_util::BodyExt;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use redlock_tests::{Nodes, wait_until};

const OBSERVABILITY: &str = env!("CARGO_BIN_EXE_observability");

/// Each metric without the endings of its series, with its labels.
type Metrics = BTreeMap<String, BTreeSet<String>>;

/// What the library says that it exports: a test of redlock-core compares this table with its code.
fn documented() -> Metrics {
    let lines = include_str!("../../redlock-core/src/lib.rs").lines();
    let rows = lines.filter_map(|line| line.strip_prefix("//! | `redlock_"));
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let labels = cells[2].split(", ").map(|label| label.trim_matches('`').to_owned());
        let name = format!("redlock_{}", cells[0].trim_end_matches('`'));
        (name, labels.filter(|label| !label.is_empty()).collect())
    })
    .collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The name of the metric that a series belongs to.
fn metric(series: &str) -> &str {
    ["_bucket", "_sum", "_count"].iter().find_map(|end| series.strip_suffix(end)).unwrap_or(series)
}

fn client() -> Client<HttpConnector, String> {
    Client::builder(TokioExecutor::new()).build_http()
}

async fn get(url: String) -> String {
    let request = http::Request::get(url).body(String::new()).unwrap();
    let response = client().request(request).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

#[test]
fn every_query_of_the_dashboard_asks_for_what_is_exported_and_every_metric_is_shown() {
    let documented = documented();
    assert!(documented.len() > 10, "{documented:?}");
    let dashboard: serde_json::Value =
        serde_json::from_str(include_str!("../grafana/redlock.json")).unwrap();
    let mut shown = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let names: Vec<_> = words(query).filter(|word| word.starts_with("redlock_")).collect();
            assert!(!names.is_empty(), "{query}");
            let mut labels = BTreeSet::from(["le".to_owned()]);
            for series in names {
                let name = metric(series);
                assert_eq!(name != series, query.contains("histogram_quantile"), "{query}");
                let known = documented.get(name).unwrap_or_else(|| panic!("{name}: {query}"));
                labels.extend(known.iter().cloned());
                shown.insert(name.to_owned());
            }
            // What is grouped by, selected and written in the legend.
            let by = query.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
            let selected =
                query.split('{').skip(1).filter_map(|rest| rest.split(['!', '=']).next());
            let legend = target["legendFormat"].as_str().unwrap();
            let legend = legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
            for label in by.flat_map(words).chain(selected).chain(legend) {
                assert!(labels.contains(label), "there is no label {label}: {query}");
            }
        }
    }
    assert_eq!(shown, documented.into_keys().collect());
}

#[tokio::test]
async fn a_busy_service_exports_its_metrics_and_its_traces() {
    // Takes what is sent, as a collector would. Names are text in the protocol.
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let collected = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&collected);
    std::thread::spawn(move || {
        for connection in collector.incoming() {
            let received = Arc::clone(&received);
            std::thread::spawn(move || {
                let mut connection = connection.unwrap();
                let mut part = [0; 4096];
                while let Ok(read @ 1..) = connection.read(&mut part) {
                    received.lock().unwrap().extend_from_slice(&part[..read]);
                }
            });
        }
    });

    let nodes = Nodes::start(3);
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    let service = Service::start_with(OBSERVABILITY, &nodes, &variables);
    let post = |order: &str, work: &str| {
        let url = format!("{}/orders/{order}", service.url);
        tokio::spawn(client().request(http::Request::post(url).body(work.to_owned()).unwrap()))
    };
    let orders: Vec<_> = (0..8).map(|_| post("lamp", "20")).collect();
    for order in orders {
        assert!(order.await.unwrap().unwrap().status().is_success());
    }

    let mut scraped = String::new();
    wait_until("the job is counted", async || {
        scraped = get(format!("{}/metrics", service.url)).await;
        scraped.contains("label=\"report:{tick}\"")
    })
    .await;
    assert!(!scraped.contains("lamp"), "a resource is a label:\n{scraped}");
    let documented = documented();
    let mut exported = BTreeSet::new();
    for line in scraped.lines().filter(|line| line.starts_with("redlock_")) {
        let (series, labels) = line.split_once(['{', ' ']).unwrap();
        let name = metric(series);
        let known = documented.get(name).unwrap_or_else(|| panic!("not documented: {line}"));
        for label in labels.split("=\"").filter_map(|part| words(part).last()) {
            let is_value = !labels.contains(&format!("{label}=\""));
            assert!(is_value || label == "le" || known.contains(label), "{label}: {line}");
        }
        exported.insert(name);
    }
    for name in [
        "redlock_acquires_total",
        "redlock_acquire_duration_seconds",
        "redlock_wait_duration_seconds",
        "redlock_hold_duration_seconds",
        "redlock_held",
        "redlock_waiting",
        "redlock_wakeups_total",
        "redlock_node_up",
        "redlock_node_round_trip_seconds",
        "redlock_node_pending_cleanups",
        "redlock_node_sits_out_until_seconds",
    ] {
        assert!(exported.contains(name), "{name} is not in\n{scraped}");
    }
    let of_orders = "redlock_acquires_total{label=\"order\",outcome=\"acquired\"} 8";
    assert!(scraped.lines().any(|line| line == of_orders), "{scraped}");

    let has = |what: &str| {
        let collected = collected.lock().unwrap();
        collected.windows(what.len()).any(|part| part == what.as_bytes())
    };
    wait_until("the spans arrive", async || {
        has("redlock.acquire") && has("redlock.body") && has("attempt answered")
    })
    .await;
    drop(service);
}
