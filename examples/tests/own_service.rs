//! How a service tests its own use of locks: the snippets of `docs/manual/testing.md`.

#![allow(clippy::unwrap_used, reason = "these are tests, if not all of them are #[test]")]

use std::time::Duration;

use axum::{
    Router,
    body::Body,
    http::{Request, StatusCode},
    routing::post,
};
use redlock_core::{LockError, MemoryNode, Redlock, pools, redlock};
use redlock_tower::{RedlockLayer, extract};
use tokio::time::{Instant, sleep};
use tower::ServiceExt;

struct Payments {
    locks: Redlock,
}

impl Payments {
    #[redlock(resource = "order:{order}", wait = "2s", client = self.locks)]
    async fn pay(&self, order: u64) -> Result<String, LockError> {
        sleep(Duration::from_secs(1)).await; // the bank
        Ok(format!("order {order} is paid"))
    }
}

#[tokio::test(start_paused = true)]
async fn two_payments_of_one_order_do_not_overlap() {
    let payments = Payments { locks: Redlock::in_memory(3) };
    let begun = Instant::now();
    let (first, second) = tokio::join!(payments.pay(7), payments.pay(7));
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(begun.elapsed().as_secs(), 2, "one after the other");
}

/// Another client of the same nodes, as another process has it.
fn elsewhere(locks: &Redlock) -> Redlock {
    Redlock::builder().nodes(locks.memory_nodes()).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_order_that_is_locked_elsewhere_is_refused_after_two_seconds() {
    let payments = Payments { locks: Redlock::in_memory(3) };
    let _guard = elsewhere(&payments.locks).lock("order:7").await.unwrap();
    let begun = Instant::now();
    let refused = payments.pay(7).await.unwrap_err();
    assert!(refused.is_held(), "{refused}");
    assert!(begun.elapsed() >= Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_paid_without_a_quorum() {
    let payments = Payments { locks: Redlock::in_memory(3) };
    let nodes = payments.locks.memory_nodes();
    nodes[0].stop();
    assert!(payments.pay(7).await.is_ok(), "two of three are enough");
    nodes[1].hang();
    assert!(payments.pay(7).await.unwrap_err().is_unavailable());
    nodes[1].resume();
    assert!(payments.pay(7).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn work_stops_when_its_lock_is_lost() {
    let locks = Redlock::in_memory(3);
    let nodes = locks.memory_nodes();
    let report = locks.lock("report").run(async |_lock| sleep(Duration::from_secs(3600)).await);
    let accident = async {
        sleep(Duration::from_secs(60)).await;
        nodes.iter().for_each(MemoryNode::clear);
    };
    let (report, ()) = tokio::join!(report, accident);
    assert!(report.unwrap_err().is_lost());
}

fn routes(locks: Redlock) -> Router {
    let by_order = RedlockLayer::http(locks, extract::path_param("id").prefix("order:"))
        .wait(Duration::from_secs(1));
    Router::new().route("/orders/{id}", post(async || "paid")).route_layer(by_order)
}

#[tokio::test(start_paused = true)]
async fn a_request_for_an_order_that_is_locked_elsewhere_gets_423() {
    let locks = Redlock::in_memory(3);
    let app = routes(locks.clone());
    let request = || Request::post("/orders/7").body(Body::empty()).unwrap();
    let guard = elsewhere(&locks).lock("order:7").await.unwrap();
    assert_eq!(app.clone().oneshot(request()).await.unwrap().status(), StatusCode::LOCKED);
    guard.release().await.unwrap();
    assert_eq!(app.oneshot(request()).await.unwrap().status(), StatusCode::OK);
}

#[redlock(resource = "report:{day}", pool = "reports", skip_if_held)]
async fn report(day: u32) -> Result<String, LockError> {
    Ok(format!("the report of day {day}"))
}

#[tokio::test(start_paused = true)]
async fn a_report_that_another_process_writes_is_skipped() {
    let locks = Redlock::in_memory(3);
    drop(pools::replace("reports", locks.clone()));
    let _guard = elsewhere(&locks).lock("report:1").await.unwrap();
    assert_eq!(report(1).await.unwrap(), "", "skipped");
    assert_eq!(report(2).await.unwrap(), "the report of day 2");
}
