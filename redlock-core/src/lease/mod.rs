//! A lease on the nodes, and the hold over it.
//!
//! The two are apart so that a lease can pass from one hold to the next: the [`LeaseState`] is what
//! the nodes know, the [`Hold`] is what a guard, its handles and a body share.

#[cfg(test)]
mod clock_faults;
#[cfg(test)]
mod crowds;
mod hold;
mod in_transit;
mod judging;
mod lease_state;
mod leases;
mod listener;
mod phase;
mod registry;
mod renewal;
mod scheduler;
mod state;
#[cfg(test)]
mod tests;
mod until;
mod validity;

pub(crate) use hold::{Hold, HoldId};
pub(crate) use in_transit::LeaseInTransit;
pub(crate) use lease_state::LeaseState;
pub(crate) use leases::{InFlightGuard, Leases};
pub(crate) use listener::LeaseListener;
pub(crate) use phase::{End, Judgement};
pub(crate) use registry::{Registry, Room};
pub(crate) use until::until;
