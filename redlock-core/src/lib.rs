//! Redlock for async Rust: a distributed lock over independent Redis masters.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use redlock_core::Redlock;
//!
//! let redlock = Redlock::in_memory(5); // or Redlock::connect(["redis://..", ..]).await?
//! let guard = redlock.lock("invoice:42").await?;
//! assert!(guard.is_valid()); // renews itself until it is released or dropped
//! guard.release().await?;
//!
//! let total = redlock.lock("invoice:42").run(async |_lock| 7).await?;
//! assert_eq!(total, 7);
//! # Ok::<(), redlock_core::LockError>(()) }).unwrap();
//! ```
//!
//! # The guarantee, and its limits
//!
//! While a majority of the nodes behave and clocks run at nearly the same rate, no two holders
//! overlap inside their validity. That is Redlock's promise and no more. A process that is paused
//! between a check and a write can act after its lease. Clocks that are set forward, or `FLUSHALL`,
//! on a majority of nodes let another client take the lock. A node that restarted may have
//! forgotten what it granted: it gives no votes until that has run out ([`Restarts`]). Where an
//! overlap must be impossible, do not rely on a lease alone.
//!
//! # What it tells
//!
//! Through `tracing`: events for locks refused and lost, for nodes down, up, sitting out, evicting
//! keys or with a clock that was set; the spans `redlock.acquire` around a request and
//! `redlock.body` around what runs under a lock, both with the `resource`. [`Redlock::health`] and
//! [`Redlock::held`] answer at any time.
//!
//! # One lock, one key
//!
//! A task that asks for a lock it holds waits for itself, in vain. The [`LockError::Held`] that it
//! gets says that the holder is this same client. A layer and an annotation around the same handler
//! need different keys.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod annotation;
#[cfg(feature = "axum")]
mod axum;
mod background;
mod body;
mod bug;
mod builder;
mod client;
mod clock;
#[cfg(feature = "serde")]
mod config;
mod error;
mod extension;
pub mod fence;
mod guard;
mod lead;
mod lease;
mod lock_future;
mod node;
mod op;
mod options;
pub mod pools;
mod quorum;
mod redlock;
mod request;
mod runtime;
mod shutdown;
#[cfg(redlock_sim)]
#[doc(hidden)]
pub mod simulation;
mod telemetry;
mod timer;
mod token;
mod wait;

pub use builder::Builder;
#[cfg(feature = "serde")]
pub use config::Config;
pub use error::{LockError, LostReason, NodeError, NodeErrorKind};
pub use fence::FencingToken;
pub use guard::{LockGuard, LockHandle};
pub use lead::LeadRequest;
pub use lock_future::LockFuture;
pub use node::{Node, NodeHealth, NodeState, Restarts, memory::MemoryNode};
pub use op::release::Released;
pub use options::LockOptions;
pub use redlock::Redlock;
#[cfg(feature = "macros")]
pub use redlock_macros::redlock;
pub use request::LockRequest;

/// What the macro and the layer are built on. Not for use by hand: it changes without notice.
#[doc(hidden)]
pub mod __private {
    pub use crate::{
        annotation::*,
        body::{BodyGuard, OnLost, into_body},
        extension::*,
    };
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
