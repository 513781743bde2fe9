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
//! between a check and a write can act after its lease. Keys that vanish early from enough nodes (a
//! clock set forward, `FLUSHALL`, eviction) let another client take the lock. With three nodes of which one is
//! down, a single one is enough. A node that restarted may have
//! forgotten what it granted: it gives no votes until that has run out ([`Restarts`]). Where an
//! overlap must do no harm, do not rely on a lease alone: ask for a token
//! ([`LockRequest::fenced`]), and let the store check it ([`fence`]).
//!
//! # What it tells
//!
//! Through `tracing`: events for locks refused and lost, for nodes down, up, sitting out, evicting
//! keys or with a clock that was set; the spans `redlock.acquire` around a request and
//! `redlock.body` around what runs under a lock, both with the `resource` and the `label`. At debug
//! level also the votes on each attempt, and why a waiting request asks again. [`Redlock::health`] and
//! [`Redlock::held`] answer at any time.
//!
//! With the feature `metrics`, through the facade crate of that name:
//!
//! | name | type | labels | what |
//! |---|---|---|---|
//! | `redlock_acquires_total` | counter | `label`, `outcome` | requests that ended: `acquired`, `joined` (re-entry), `adopted`, `held`, `no_quorum`, `shutting_down`, `lost` (a lease that could not be adopted), `misused` (a resource that cannot be locked, or a body that asks for more than the hold has which it joins), `cancelled` (dropped, or its runtime has ended). Settings that are refused before a request begins do not count, nor do requests outside a runtime |
//! | `redlock_acquire_duration_seconds` | histogram | `label`, `outcome` | from a request to its answer |
//! | `redlock_wait_duration_seconds` | histogram | `label` | from a request to the attempt that got the lock |
//! | `redlock_hold_duration_seconds` | histogram | `label` | from getting a lock to its release or loss |
//! | `redlock_renewals_total` | counter | `label`, `outcome` | `renewed`; `refused` loses the lock; `unknown` and `late` keep the old deadline |
//! | `redlock_losses_total` | counter | `label`, `reason` | `expired`, `refused`, `max_hold`, `shutdown` |
//! | `redlock_held` | gauge | `label`, `mode` | locks held now: `exclusive`, `shared` (readers), `permit`; a set counts as one |
//! | `redlock_leases_given_total` | counter | `label` | locks given away by [`LockGuard::into_lease`] that another client can adopt; those taken up are `redlock_acquires_total` with `adopted` |
//! | `redlock_waiting` | gauge | `label` | requests that wait now, for their turn or for another attempt |
//! | `redlock_wakeups_total` | counter | `label`, `cause` | waiting requests that go on: with a lease of this process (`handed_over`), as its next to ask (`front`), with a turn in the queue between clients (`turn`), because the lock looks free (`free`, `notified`) or the clients before do not take it (`stands_still`), because it is time (`due`, `hurried`), or to give up (`behind`) |
//! | `redlock_queue_places` | gauge | | places in the queues between processes now |
//! | `redlock_queue_ahead` | histogram | `label` | clients ahead when such a queue is joined |
//! | `redlock_node_up` | gauge | `node` | 1 while the node is connected |
//! | `redlock_node_sits_out_until_seconds` | gauge | `node` | the Unix time until which the node gives no votes after a restart, or 0 |
//! | `redlock_node_round_trip_seconds` | histogram | `node` | from sending commands to the node's answer |
//! | `redlock_node_failures_total` | counter | `node`, `kind` | commands that were sent and failed, by [`NodeErrorKind`]: `timeout`, `disconnected` and `server`; of a member of a cluster `down` and `sits_out`, too. A command that is not sent, because the node is down or sits out, does not count |
//! | `redlock_node_odd_expiries_total` | counter | `node` | keys of held locks that were gone, or had another remaining time than they were given, when the node was asked: deleted or evicted keys, or a clock that was set |
//! | `redlock_node_pending_cleanups` | gauge | `node` | deletes that the node has not confirmed yet |
//!
//! `label` is what [`LockRequest::label`] says, in annotations the template unless they say otherwise,
//! and empty for other requests and for adopted locks. A resource is never a label. `node` is `host:port` or the path of a socket, behind sentinels `MASTER@host:port` of the first of them, and for a cluster its first server; clients of one
//! process that share a node also share its gauges.
//!
//! A lock with its release over five nodes in memory took 14.5 µs without the feature, 15.1 µs with it and
//! no recorder, and 17.9 µs with a Prometheus recorder (one core, one task, 20,000 locks in a row, measured once).
//!
//! # A lock inside of the same lock
//!
//! A body of [`run`](LockRequest::run), an annotated function or a layered handler that asks for its
//! own lock in one of these ways joins the hold that is there. The outermost releases it. A bare
//! `lock(..).await` there is answered [`Held`](LockError::Held) at once, with `by_this_client`, since it
//! could only wait for itself. Spawned tasks are tasks of their own, and wait.
//!
//! # Features
//!
//! | feature | default | what |
//! |---|---|---|
//! | `macros` | yes | the `#[redlock]` attribute |
//! | `axum` | no | [`LockHandle`] as an axum extractor |
//! | `metrics` | no | counters, gauges and histograms through the facade crate `metrics` |
//! | `serde` | no | `Config`: settings from a file or from the environment; a `Lease` can be sent |
//! | `sentinel` | no | `Node::sentinel`: the master that sentinels agree on |
//! | `cluster` | no | `Node::cluster`: a Redis Cluster as one node |
//! | `tls-rustls` | no | `rediss://`; the application installs a rustls `CryptoProvider` |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod annotation;
#[cfg(feature = "axum")]
mod axum;
mod background;
mod body;
mod builder;
mod client;
mod clock;
#[cfg(feature = "serde")]
mod config;
mod error;
mod extension;
pub mod fence;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod guard;
mod lead;
mod lease;
mod lock_future;
mod metrics;
mod node;
mod op;
mod options;
pub mod pools;
mod quorum;
mod redlock;
mod request;
mod resources;
mod runtime;
#[doc(hidden)]
pub mod seam;
mod settings;
mod shutdown;
mod status;
#[doc(hidden)]
pub mod sync;
mod telemetry;
#[cfg(test)]
mod testing;
mod timer;
mod token;
mod wait;
mod waiting;
mod words;

pub use builder::Builder;
#[cfg(feature = "serde")]
pub use config::Config;
pub use error::{LockError, LostReason, NodeError, NodeErrorKind};
pub use fence::FencingToken;
pub use guard::{LockGuard, LockHandle};
pub use lead::LeadRequest;
pub use lock_future::LockFuture;
pub use node::{Credentials, Node, NodeHealth, NodeState, Restarts, memory::MemoryNode};
pub use op::{hand_off::Lease, release::Released};
pub use options::LockOptions;
pub use redlock::Redlock;
#[cfg(feature = "macros")]
pub use redlock_macros::redlock;
pub use request::LockRequest;
pub use status::{LockState, LockStatus, NodeStatus, Waiter};
pub use waiting::Waiting;

/// The base of the macro and the layer. Not for use by hand: it changes without notice.
#[doc(hidden)]
pub mod __private {
    pub use crate::{
        annotation::*,
        body::{BodyFuture, BodyGuard, OnLost},
        extension::*,
        words::duration_in_words,
    };
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
