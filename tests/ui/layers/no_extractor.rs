//! What is given in place of an extractor.

use axum::{Router, extract::Request, routing::post};
use redlock_core::Redlock;
use redlock_tower::{BoxError, RedlockLayer, extract};
use tower::{Layer, util::BoxCloneService};

#[derive(Clone)]
struct Job;

fn text_in_a_router(redlock: Redlock) -> Router {
    Router::new()
        .route("/orders/{id}", post(async || "done"))
        .route_layer(RedlockLayer::http(redlock, "order"))
}

fn no_option_in_a_router(redlock: Redlock) -> Router {
    let key = |request: &Request| request.uri().path().to_owned();
    Router::new()
        .route("/orders/{id}", post(async || "done"))
        .layer(RedlockLayer::http(redlock, key))
}

fn number_as_a_key(redlock: Redlock) -> Router {
    let key = |_: &Request| Some(42);
    Router::new().route("/", post(async || "done")).route_layer(RedlockLayer::http(redlock, key))
}

fn by_value(redlock: Redlock) -> Router {
    let key = |request: Request| Some(request.uri().path().to_owned());
    Router::new().route("/", post(async || "done")).route_layer(RedlockLayer::http(redlock, key))
}

fn head_of_a_request_that_has_none(redlock: Redlock) {
    let service = tower::service_fn(async |_: Job| Ok::<_, std::io::Error>(()));
    let layer = RedlockLayer::new(redlock, extract::uri_path());
    BoxCloneService::<Job, (), BoxError>::new(layer.layer(service));
}

fn another_request(redlock: Redlock) {
    let service = tower::service_fn(async |_: Job| Ok::<_, std::io::Error>(()));
    let layer = RedlockLayer::new(redlock, |_: &String| Some("job"));
    BoxCloneService::<Job, (), BoxError>::new(layer.layer(service));
}

fn main() {}
