//! The promises of the layers, one module each, over nodes in this process.

mod axum_app;
mod bodies;
mod cancellation;
mod grpc;
mod http_answers;
mod keys;
mod loss;
mod plain;
mod readiness;
mod support;
mod tonic_server;
mod types;
