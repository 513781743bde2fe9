//! The promises of the layers, one module each, over nodes in this process.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "these are tests, if not all of them are #[test]"
)]

mod axum_app;
mod axum_keys;
mod bodies;
mod cancellation;
mod fenced;
mod grpc;
mod http_answers;
mod keys;
mod loss;
mod pauses;
mod plain;
mod readiness;
mod reentry;
mod servers;
mod shared;
mod support;
mod tasks;
mod tonic_server;
mod types;
mod upgrades;
