//! A world in which time, chance, the network and the processes of clients belong to a test.
//!
//! Compiled with `--cfg redlock_sim` only, and no part of the public interface. Everything runs on
//! one thread and tokio's paused clock, so that a seed says all there is to say about a run.
//!
//! - [`Network`]: the nodes, and what lies between them and each client.
//! - [`Manners`]: what the nodes let a client do.
//! - [`Process`]: what stops, goes on and crashes with one client.
//! - [`SimClock`]: the clock of one client.
//! - [`Rng`]: where all chance comes from.
//! - [`Bug`]: the mistakes that can be switched on, to see that they are found.

mod clock;
mod connection;
mod event_queue;
mod network;
mod node;
mod process;
mod rng;
mod sight;
mod traffic;

use std::sync::Arc;

pub use clock::SimClock;
pub use network::{Cut, Manners, Network};
pub use process::Process;
pub use rng::Rng;
pub use sight::{Act, Kind, Outcome, Witness};
pub use traffic::LinkQuality;

pub use crate::bug::{Bug, plant};
use crate::{
    builder::Builder,
    guard::LockHandle,
    node::{Node, Source},
    redlock::Redlock,
};

/// How one client is tied into a [`Network`].
#[derive(Debug)]
pub struct Place {
    /// Which client it is, from zero.
    pub client: usize,
    /// What it tells the time by.
    pub clock: Arc<SimClock>,
    /// What its tokens and its jitter come from.
    pub seed: u64,
    /// The nodes, in the order in which it names them. A node that is there twice has two names.
    pub order: Vec<usize>,
    /// It knows all of them under other names.
    pub renamed: bool,
}

/// A builder for a client over all nodes of the network.
pub fn builder(network: &Network, place: Place) -> Builder {
    let nodes = place.order.iter().enumerate().map(|(at, node)| {
        let is_alias = place.renamed || place.order[..at].contains(node);
        Node::from(Source::Simulated(network.spec(place.client, *node, is_alias)))
    });
    Redlock::builder()
        .nodes(nodes)
        .client_name(format!("c{}", place.client))
        .injected(place.clock, Arc::new(rng::Seeded::new(place.seed)))
}

/// What `is_valid()` would say now, without what it does besides: asking changes nothing.
#[must_use]
pub fn believes(handle: &LockHandle) -> bool {
    handle.hold().glance(handle.leases().nodes.clock.read())
}

/// The first and the last number of the range that a hold has its token from. `None` once the range
/// has died.
#[must_use]
pub fn numbers(handle: &LockHandle) -> Option<(u64, u64)> {
    handle.hold().lease().range.as_ref().map(|range| range.bounds())
}

/// The number of the claim that is behind a hold, as an [`Act`] shows it.
#[must_use]
pub fn claim(handle: &LockHandle) -> u64 {
    sight::number(&handle.hold().lease().claim)
}
