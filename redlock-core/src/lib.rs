//! Redlock for async Rust: a distributed lock over independent Redis masters.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use redlock_core::Redlock;
//!
//! let redlock = Redlock::in_memory(5); // in a service: Redlock::builder().nodes([..]).build()?
//! let guard = redlock.lock("invoice:42").await?;
//! assert!(guard.is_valid()); // renews itself until it is released or dropped
//! guard.release().await?;
//!
//! let total = redlock.lock("invoice:42").run(async |_lock| 7).await?;
//! assert_eq!(total, 7);
//! # Ok::<(), redlock_core::LockError>(()) }).unwrap();
//! ```
//!
//! The crate needs a tokio runtime with timers and IO (`enable_all`), and Rust 1.88 or newer.
//!
//! # The guarantee, and its limits
//!
//! No two holders overlap inside their validity, under two conditions. Clocks run at nearly the same rate. And fewer
//! nodes than a quorum lack the lock of the holder, because they lost it early or never had it. This is the promise of
//! Redlock, and no more:
//!
//! - A process that is paused between a check and a write can write after its lease has ended.
//! - Another client can take the lock when enough nodes lose it early: a clock is set forward, `FLUSHALL`, eviction.
//!   While one of three nodes is down, a lock is on the other two only. If either loses it before the third has it
//!   again, another client can take it.
//! - A node that restarted may have forgotten the locks that it granted. It gives no votes until these have expired
//!   ([`Restarts`]).
//!
//! If an overlap would do harm, do not rely on a lease alone. Ask for a fencing token ([`LockRequest::fenced`]), and
//! let the store check it ([`fence`]).
//!
//! # Kinds of locks
//!
//! - [`Redlock::lock_all`]: several locks, all or none.
//! - [`LockRequest::shared`]: many readers, or one writer.
//! - [`LockRequest::permits`]: up to so many holders at once.
//! - [`LockRequest::fenced`]: a number that a store can check.
//! - [`Redlock::lead`]: one leader among many clients.
//! - [`LockGuard::into_lease`] and [`Redlock::adopt`]: a lock that moves to another process.
//!
//! # How to use a client
//!
//! - **Build one client for each process, and clone it.** All clones are one client. A client for each request opens
//!   its own connection to each node, cannot pass a lock from task to task, and has not seen earlier restarts of nodes.
//! - **Choose between `connect` and `build`.** [`Redlock::connect`] uses the defaults, and fails if no quorum of the
//!   nodes answers. [`Builder::build`] takes settings and opens no connection. While the nodes are down, the requests
//!   of such a client fail with [`NoQuorum`](LockError::NoQuorum). They can succeed once a quorum is back.
//! - **Bind the guard to a name.** `let _ = redlock.lock("a").await?` releases the lock at once.
//!   `let _guard = redlock.lock("a").await?` keeps it until the end of the scope.
//! - **Do not block the runtime.** Renewals run on the runtime that used the client first. If all its threads are
//!   blocked, the lock is lost when its validity ends. Run such code in `spawn_blocking`, pass it a
//!   [`LockHandle`], and let it check [`is_valid`](LockHandle::is_valid).
//! - **From a thread outside the runtime, use `Handle::block_on`.** There is no blocking interface. The runtime must keep
//!   running: a current-thread runtime renews locks only while a thread is in its `Runtime::block_on`.
//! - **End with [`Redlock::shutdown`]**, so that the next holder need not wait for the ttl.
//! - **In tests, use [`Redlock::in_memory`].** A [`MemoryNode`] can be stopped, slowed and restarted.
//!
//! # Events, spans and metrics
//!
//! Events go to `tracing`. They report locks that are refused or lost, and nodes that are down, up or sitting out, that
//! evict keys, or have a clock that was set. At debug level they also report the votes on each attempt, and why a
//! waiting request asks again. The span `redlock.acquire` is around a request, and `redlock.body` around what runs
//! under a lock. Both have the fields `resource` and `label`. [`Redlock::health`] and [`Redlock::held`] answer at any
//! time.
//!
//! With the feature `metrics`, metrics go to the facade crate of that name:
//!
//! | name | type | labels | what |
//! |---|---|---|---|
//! | `redlock_acquires_total` | counter | `label`, `outcome` | requests that ended: `acquired`, `joined` (re-entry), `adopted`, `held`, `no_quorum`, `shutting_down`, `lost` (a lease that could not be adopted), `misused` (a resource that cannot be locked, or a body that needs something that the hold it joins does not have, such as a token), `cancelled` (dropped, or its runtime has ended). Settings that are refused before a request begins do not count, and neither do requests outside a runtime |
//! | `redlock_acquire_duration_seconds` | histogram | `label`, `outcome` | from a request to its answer |
//! | `redlock_wait_duration_seconds` | histogram | `label` | from a request to the attempt that got the lock |
//! | `redlock_hold_duration_seconds` | histogram | `label` | from getting a lock to its release or loss |
//! | `redlock_renewals_total` | counter | `label`, `outcome` | `renewed`; `refused` loses the lock; `unknown` and `late` keep the old deadline |
//! | `redlock_losses_total` | counter | `label`, `reason` | `expired`, `refused`, `max_hold`, `shutdown` |
//! | `redlock_held` | gauge | `label`, `mode` | locks held now: `exclusive`, `shared` (readers), `permit`; a set counts as one |
//! | `redlock_leases_given_total` | counter | `label` | locks given away by [`LockGuard::into_lease`] that another client can adopt; those taken up are `redlock_acquires_total` with `adopted` |
//! | `redlock_waiting` | gauge | `label` | requests that wait now, for their turn or for another attempt |
//! | `redlock_wakeups_total` | counter | `label`, `cause` | how often a waiting request was woken, by the [cause](#the-causes-of-wake-ups) |
//! | `redlock_queue_places` | gauge | | places in the queues between processes now |
//! | `redlock_queue_ahead` | histogram | `label` | clients ahead when such a queue is joined |
//! | `redlock_node_up` | gauge | `node` | 1 while the node is connected, for every client that uses it |
//! | `redlock_node_sits_out_until_seconds` | gauge | `node` | the Unix time until which the node gives no votes after a restart, or 0: the latest that any client has |
//! | `redlock_node_round_trip_seconds` | histogram | `node` | from sending commands to the node's answer |
//! | `redlock_node_failures_total` | counter | `node`, `kind` | commands that were sent and failed, by [`NodeErrorKind`]: `timeout`, `disconnected` and `server`; of a member of a cluster `down` and `sits_out`, too. A command that is not sent, because the node is down or sits out, does not count |
//! | `redlock_node_odd_expiries_total` | counter | `node` | keys of held locks that were gone, or had an unexpected remaining time, when the node was asked: the key was deleted or evicted, or a clock was set |
//! | `redlock_node_pending_cleanups` | gauge | `node` | deletes of all clients that the node has not confirmed yet |
//!
//! `label` is the value of [`LockRequest::label`]. Without one it is the template in annotations, and empty for other
//! requests and for adopted locks. A resource is never a label. `node` is `host:port` or the path of a socket. For
//! sentinels it is `MASTER@host:port` of the first of them, and for a cluster its first server. Clients of one process
//! that share a node also share its gauges. A client counts there from its first request until it is dropped, and its
//! deletes count until they are confirmed or given up. `redlock_node_up` is 1 for a node that no client uses, or that
//! none has used since its runtime ended.
//!
//! A lock with its release over five nodes in memory took 14.5 µs without the feature, 15.1 µs with it and
//! no recorder, and 17.9 µs with a Prometheus recorder (one core, one task, 20,000 locks in a row, measured once).
//!
//! ## The causes of wake-ups
//!
//! | `cause` | why a request stops waiting |
//! |---|---|
//! | `handed_over` | the previous holder in this process passed its lock on |
//! | `front` | the request became the first of its process |
//! | `turn` | a release gave this client the turn in the queue between clients |
//! | `free` | this client is the first in that queue, and the lock looks free |
//! | `stands_still` | the lock looks free, and the clients before this one do not take it |
//! | `notified` | the lock became free on a quorum of nodes |
//! | `due` | no node pushes, and it is time for the next attempt; or the last attempt is due |
//! | `again` | it is time for an extra attempt before the next retry: the last attempt had no quorum, or the request is for a permit or as a reader, and nodes do not push every chance to get those |
//! | `hurried` | a request behind it in this process would have asked by now |
//! | `behind` | its time is up while other clients are before it: it gives up |
//!
//! # A lock inside the same lock
//!
//! The body of [`run`](LockRequest::run), an annotated function and a layered handler hold a lock while they run.
//! Inside one of them, another `run`, annotated function or layer for the same lock joins the hold. The outermost one
//! releases the lock. A bare `lock(..).await` inside a body fails with [`Held`](LockError::Held) at once, with
//! `by_this_client`, since it could only wait for itself. A spawned task does not join: it waits.
//!
//! # Features
//!
//! | feature | default | what |
//! |---|---|---|
//! | `macros` | yes | the `#[redlock]` attribute |
//! | `axum` | no | [`LockHandle`] as an axum extractor |
//! | `metrics` | no | counters, gauges and histograms through the facade crate `metrics` |
//! | `serde` | no | `Config`: settings from a file or from the environment; a `Lease` can be serialized |
//! | `sentinel` | no | `Node::sentinel`: the master that sentinels agree on |
//! | `cluster` | no | `Node::cluster`: a Redis Cluster as one node |
//! | `tls-rustls` | no | `rediss://`; the application installs a rustls `CryptoProvider` (see [`Node`]) |
//!
//! # Guide
//!
//! The manual is in the repository, in `docs/manual`:
//!
//! | file | what it is about |
//! |---|---|
//! | `choosing.md` | how many nodes, which ttl and `wait`, and why the defaults are what they are |
//! | `guarantee.md` | what each failure means for waiters and for holders, and which errors to try again |
//! | `waiting.md` | the order of waiters, and what waiting costs |
//! | `testing.md` | tests of a service without a server |
//! | `jobs.md`, `leading.md` | jobs that run once on many machines; leader election |
//! | `shutdown.md` | how to stop a service without leaving locks behind |
//! | `operations.md`, `incidents.md` | for operators: events, metrics, the console, and what to do when something is wrong |
//! | `migration.md` | names of other lock libraries, and what they are called here |
//!
//! In `docs`, `servers.md` has the permissions that a user of the nodes needs, TLS, Sentinel and cluster.
//! `one-redis.md` is about a single node, `fencing.md` about stores that check tokens, and `reliability.md` has the
//! exact guarantee and its tests.

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
mod drift;
mod durations;
mod error;
mod extension;
pub mod fence;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod gate;
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
        durations::duration_in_words,
        extension::*,
    };
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
