//! A lease on the nodes, and the hold over it.
//!
//! The two are apart so that a lease can pass from one hold to the next: the [`LeaseState`] is what
//! the nodes know, the [`Hold`] is what a guard, its handles and a body share.
//!
//! | file | what it does |
//! |---|---|
//! | [`validity`], [`phase`], [`state`] | arithmetic, the phases of a hold, and what the clock says of it (pure) |
//! | [`lease_state`], [`hold`], [`leases`] | what is on the nodes; what a guard and its handles share; what all leases of a client share |
//! | [`renewal`], [`judging`], [`until`] | renews a hold, acts on a judgement, waits for one |
//! | [`registry`], [`scheduler`] | all holds, and the one task that renews them |
//! | [`in_transit`] | a lease between holders |
//! | [`listener`] | the trait through which a lease tells the queues |

#[cfg(test)]
mod clock_faults_tests;
#[cfg(test)]
mod crowds_tests;
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
