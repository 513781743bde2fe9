//! The harness of the suites: real redis-servers on free ports, a proxy that disturbs the way to
//! them, and a checker of the history of a lock.
//!
//! - [`Server`]: one redis-server, which ends with the test, however the test ends.
//! - [`Nodes`]: the servers of one client.
//! - [`Proxy`]: what lies between a client and a server, made worse at will.
//! - [`Monitor`]: the commands that a server sees.
//! - [`history`]: who believed to hold what and when, and whether two did at once.
//! - [`wait_until`]: how every suite waits: for a condition, within a generous limit.

pub mod history;
mod monitor;
mod nodes;
mod port;
mod process;
mod proxy;
mod server;
#[cfg(redlock_sim)]
pub mod sim;
mod wait;

pub use monitor::{Command, Monitor};
pub use nodes::Nodes;
pub use proxy::{Flow, Proxy};
pub use server::{Server, ServerBuilder};
pub use wait::{LIMIT, wait_until, within};

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
