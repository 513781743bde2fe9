//! The harness of the suites: real redis-servers on free ports, a proxy that disturbs the way to
//! them, and a checker of the history of a lock.
//!
//! - [`Server`]: one redis-server, which ends with the test, however the test ends.
//! - [`Nodes`]: the servers of one client.
//! - [`Proxy`]: what lies between a client and a server, made worse at will.
//! - [`Authority`]: certificates for servers and clients.
//! - [`Cluster`]: a cluster of three masters.
//! - [`Haproxy`]: one in front of a server.
//! - [`Sentinels`]: a master with replicas, and the sentinels that watch over them.
//! - [`Translator`]: plays a server that no package has.
//! - [`packages`]: servers and libraries of other package managers.
//! - [`Postgres`]: a store that checks fencing tokens.
//! - [`Monitor`]: the commands that a server sees.
//! - [`ClockShim`]: sets the clocks of servers.
//! - [`Peer`]: a process of its own, to be stopped and killed.
//! - [`Events`]: what the library tells an operator.
//! - [`inside_namespace`]: a network of the test's own.
//! - [`history`]: which owner believed to hold which lock and when, and whether two did at once.
//! - [`rivals`]: tasks that take one lock again and again while nodes fail.
//! - [`soak`] and [`lost_updates`]: programs of their own, which `cargo xtask` runs.
//! - [`drop_after_every_poll`]: drops a future at each of its awaits.
//! - [`wait_until`]: how every suite waits: for a condition, within a generous limit.

mod authority;
mod chance;
mod clock;
mod cluster;
mod events;
mod haproxy;
pub mod history;
#[cfg(feature = "lost-updates")]
pub mod lost_updates;
#[cfg(doctest)]
mod manual;
mod monitor;
mod namespace;
mod nodes;
pub mod packages;
mod peer;
mod polls;
mod port;
mod postgres;
mod process;
mod proxy;
pub mod rivals;
mod sentinels;
mod server;
pub mod soak;
pub mod sockets;
pub mod translator;
mod wait;

pub use authority::{Authority, Certificate};
pub use clock::ClockShim;
pub use cluster::Cluster;
pub use events::Events;
pub use haproxy::Haproxy;
pub use monitor::{Command, Monitor};
pub use namespace::{before_moving_in_time, inside_namespace, skipped};
pub use nodes::{Nodes, patient};
pub use peer::Peer;
pub use polls::{drop_after_every_poll, poll_times};
pub use postgres::Postgres;
pub use proxy::{Flow, Proxy};
pub use sentinels::{MASTER, Sentinels};
pub use server::{Busy, Server, ServerBuilder};
pub use translator::Translator;
pub use wait::{LIMIT, wait_until, wait_until_renewed, within};

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../docs/fencing.md")]
struct Fencing;

#[cfg(doctest)]
#[doc = include_str!("../../docs/one-redis.md")]
struct OneRedis;

#[cfg(doctest)]
#[doc = include_str!("../../docs/servers.md")]
struct Servers;

/// The examples of the attribute use redlock-core, on which the package of redlock-macros cannot
/// depend: they run here.
#[cfg(doctest)]
#[doc = include_str!("../../redlock-macros/src/redlock.md")]
#[doc = include_str!("../../redlock-macros/README.md")]
struct Attribute;
