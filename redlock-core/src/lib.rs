//! Redlock for async Rust.
#![allow(dead_code, unused_variables, clippy::todo)]
mod annotation;
#[cfg(feature = "axum")]
mod axum;
mod body;
mod builder;
mod error;
mod extension;
mod guard;
pub mod memory;
mod node;
mod options;
pub mod pools;
mod redlock;
mod request;

pub use builder::Builder;
pub use error::{LockError, LostReason, NodeError, NodeErrorKind};
pub use guard::{LockGuard, LockHandle, Released};
pub use node::Node;
pub use options::LockOptions;
pub use redlock::{NodeHealth, Redlock};
// #[cfg(feature = "macros")]
// pub use redlock_macros::redlock;
pub use request::{LockFuture, LockRequest};

/// What the macro and the layer are built on. Not for use by hand: it changes without notice.
#[doc(hidden)]
pub mod __private {
    pub use crate::{
        annotation::*,
        body::{BodyGuard, OnLost},
        extension::*,
    };
}
