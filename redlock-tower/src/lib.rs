//! Locks around tower services.
#[cfg(feature = "http")]
pub mod body;
pub mod extract;
pub mod future;
#[cfg(feature = "tonic")]
pub mod grpc;
#[cfg(feature = "http")]
pub mod http;
mod layer;
#[cfg(feature = "http")]
mod problem;
mod reject;
mod service;

pub use layer::RedlockLayer;
pub use reject::{BoxError, Plain, Protocol};
pub use service::RedlockService;
