//! What a simulation replaces, and what it looks at.
//!
//! - [`Clock`], [`Entropy`]: the time and the random numbers of a client.
//! - [`Connector`], [`Connection`]: the way to a node, over which [`Command`]s and [`Reply`]s go.
//! - [`Server`]: what a node does with commands.
//! - [`adopt_by`]: the tasks of a client.
//! - [`build`]: a client over all of these.
//! - [`believes`], [`claim`], [`numbers`]: what a holder relies on.

mod connection;
mod injected;
mod message;
mod server;

use std::sync::Arc;

pub use connection::{
    Answers, Connection, Connector, Identity, Opened, Pushes, node_error, passing_error,
};
pub use injected::{Clock, Entropy, Shown, wall_begins, wall_now};
pub use message::{Command, Kind, Outcome, Reply};
pub use server::{Lost, Push, Server};

pub use super::tasks::{Task, adopt_by};
use crate::{
    builder::Builder, error::LockError, guard::LockHandle, lease::Judgement, node::NodeSpec,
    redlock::Redlock,
};

/// Builds a client over nodes with these names and connectors. The nodes of the builder do not count.
///
/// # Errors
///
/// Those of [`Builder::build`].
pub fn build(
    builder: Builder,
    nodes: Vec<(Arc<str>, Arc<dyn Connector>)>,
    clock: &Arc<impl Clock>,
    entropy: impl Entropy,
) -> Result<Redlock, LockError> {
    let spec = |(name, connector): (Arc<str>, Arc<dyn Connector>)| NodeSpec {
        connector: Arc::new(connection::Adapter::new(Arc::clone(&name), connector)),
        name,
    };
    let specs = nodes.into_iter().map(spec).collect();
    let clock = Arc::new(injected::ClockAdapter::new(clock));
    builder.build_over(specs, Vec::new(), clock, Arc::new(injected::EntropyAdapter(entropy)))
}

/// What `is_valid()` would say now. Unlike `is_valid()`, this changes nothing.
#[must_use]
pub fn believes(handle: &LockHandle) -> bool {
    let reading = handle.leases.nodes.clock.peek();
    matches!(handle.hold.glance(reading), Judgement::Valid(_))
}

/// The first and the last number of the range that a hold has its token from. `None` once the range
/// has died.
#[must_use]
pub fn numbers(handle: &LockHandle) -> Option<(u64, u64)> {
    let token = handle.hold.token?;
    let mut range = handle.hold.lease().range?;
    let mut last = token;
    while let Some(next) = range.next() {
        last = next;
    }
    Some((last.get() + 1 - u64::from(range.size()), last.get()))
}

/// The number of the claim under a hold, as [`Command::claim`] shows it.
#[must_use]
pub fn claim(handle: &LockHandle) -> u64 {
    message::number(&handle.hold.lease().claim.value)
}
