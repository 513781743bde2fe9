//! A closure that does not name its argument's type.

use axum::{Router, routing::post};
use redlock_core::Redlock;
use redlock_tower::RedlockLayer;

fn in_a_router(redlock: Redlock) -> Router {
    Router::new()
        .route("/orders/{id}", post(async || "done"))
        .route_layer(RedlockLayer::http(redlock, |request| Some(request.uri().to_string())))
}

fn main() {}
