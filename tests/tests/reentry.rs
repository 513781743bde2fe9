//! A layer around an annotated handler around two bodies, all for one lock, over real servers: it is one
//! hold, which the last of them releases.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::{Router, body::Body, extract::State, http::Request, routing::get};
use futures_util::future::join_all;
use redlock_core::{LockError, LockHandle, Redlock, redlock};
use redlock_tests::{Nodes, history::History, wait_until, within};
use redlock_tower::{RedlockLayer, extract, http::LockRejection};
use tokio::time::{sleep, timeout};
use tower::ServiceExt;

const WORK: Duration = Duration::from_millis(20);

#[derive(Clone)]
struct App {
    locks: Redlock,
    history: History,
    /// How many handlers have finished.
    served: Arc<AtomicU32>,
}

#[redlock(resource = "/order", client = app.locks, lock = lock)]
async fn handler(State(app): State<App>) -> Result<(), LockRejection> {
    let mut held = app.history.begin("order", "handler");
    let inside = async |inside: &LockHandle| {
        assert!(app.locks.lock("/order").await.unwrap_err().is_held());
        sleep(WORK).await;
        inside.is_valid()
    };
    let again = || app.locks.lock("/order").run(inside);
    let (one, other) = tokio::join!(again(), again());
    assert!(one? && other?);
    sleep(WORK).await;
    assert!(held.confirm(|| lock.is_valid()), "it is released by the layer");
    app.served.fetch_add(1, SeqCst);
    Ok(())
}

fn app(nodes: &Nodes, history: &History) -> (Router, App) {
    let locks = nodes.client().wait(Duration::from_secs(60)).build().unwrap();
    let app = App { locks, history: history.clone(), served: Arc::default() };
    let layer = RedlockLayer::http(app.locks.clone(), extract::uri_path());
    let router = Router::new().route("/order", get(handler)).layer(layer);
    (router.with_state(app.clone()), app)
}

fn request() -> Request<Body> {
    Request::get("/order").body(Body::empty()).unwrap()
}

async fn free(nodes: &Nodes) {
    wait_until("no key is left", async || {
        nodes.iter().all(|node| !node.keys().iter().any(|key| key == "redlock:/order"))
    })
    .await;
}

#[tokio::test]
async fn layers_annotations_and_bodies_of_one_lock_exclude_those_of_another_process() {
    let (nodes, history) = (Nodes::start(3), History::new());
    let [(first, one), (second, other)] = [app(&nodes, &history), app(&nodes, &history)];
    let requests = (0..20).map(|number| {
        let router = if number % 2 == 0 { &first } else { &second };
        router.clone().oneshot(request())
    });
    for response in within("the requests", join_all(requests)).await {
        assert!(response.unwrap().status().is_success());
    }
    assert_eq!(one.served.load(SeqCst) + other.served.load(SeqCst), 20);
    assert_eq!(history.holds().len(), 20);
    history.assert_exclusive();
    free(&nodes).await;
}

#[tokio::test]
async fn a_request_that_is_dropped_inside_of_all_of_them_frees_the_lock() {
    let (nodes, history) = (Nodes::start(3), History::new());
    let [(first, one), (second, other)] = [app(&nodes, &history), app(&nodes, &history)];
    for number in 0..30_u32 {
        let dropped = timeout(WORK * (number % 6) / 2, first.clone().oneshot(request())).await;
        let response = within("the next", second.clone().oneshot(request())).await.unwrap();
        assert!(response.status().is_success(), "{dropped:?}");
    }
    assert_eq!(other.served.load(SeqCst), 30);
    assert!(one.served.load(SeqCst) < 30);
    history.assert_exclusive();
    free(&nodes).await;
}

/// The nodes lose the lock under three bodies.
#[tokio::test]
async fn a_loss_reaches_every_body() {
    let nodes = Nodes::start(3);
    let locks = nodes.client().ttl(Duration::from_secs(6)).build().unwrap();
    let told = AtomicU32::new(0);
    let innermost = async |_: &LockHandle| {
        nodes.iter().for_each(|node| drop(node.command(&["FLUSHALL"])));
        sleep(Duration::from_secs(600)).await;
    };
    let lost = |outcome: Result<(), LockError>| {
        assert!(outcome.unwrap_err().is_lost());
        told.fetch_add(1, SeqCst);
    };
    let body = async |_: &LockHandle| {
        let inner = async |_: &LockHandle| lost(locks.lock("r").run(innermost).await);
        lost(locks.lock("r").run(inner).await);
    };
    lost(within("the loss", locks.lock("r").run(body)).await);
    // The bodies around the innermost are dropped before they can be told.
    assert_eq!(told.load(SeqCst), 1);
}
