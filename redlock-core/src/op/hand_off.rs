//! Handing a lock to another process: the hold ends and its keys stay, and another client takes them
//! over.
//!
//! The client that adopts replaces the value of the keys by a fresh one, on each node where the keys
//! still have the old value, or this fresh one already. With a quorum of such nodes it holds the lock.
//! Two clients cannot both have a quorum, and no renewal of the old holder finds its value any more. A
//! node that had not confirmed the lock when it was handed over does not count ([`votes`]).
//!
//! The old value is deleted where it would stay: by the giver, on nodes that have yet to set it, and by the adopter, on
//! nodes that miss the adoption ([`missed`]).

mod adopt;
mod lease;
mod missed;
#[cfg(feature = "serde")]
mod serial;
#[cfg(test)]
mod tests;
mod votes;

use std::sync::Arc;

pub(crate) use adopt::adopt;
pub use lease::Lease;
use votes::Unconfirmed;

use crate::{
    client::Client,
    lease::{End, Hold, Judgement},
    node::Claim,
    op::release,
    quorum::{Round, Tally},
    wait::{delete, delete_left_behind},
};

/// Ends a hold here, and leaves its keys to the client that adopts them. Two things are deleted, which would block the lock
/// or the vote of a node: a lock that no client can adopt, and what may be set on a node after the adoption.
pub(crate) fn hand_off(client: &Arc<Client>, hold: &Arc<Hold>) -> Lease {
    let Client { leases, queues, nodes, .. } = &**client;
    // The process may stand still in between. The lease counts as valid from the first reading on, and its keys as there
    // from the second reading on.
    let first = nodes.clock.wall();
    let (judged, reading) = leases.judge_now(hold);
    leases.end(hold, End::Released);
    let begun = hold.begin_release();
    // A lock that is lost, in doubt, or released before, cannot be adopted.
    let left = match (judged, &begun) {
        (Judgement::Valid(left), Some(lease)) if is_alone(&lease.claim) => Some(left),
        _ => None,
    };
    if left.is_some() {
        hold.metered.given();
    }
    let Unconfirmed { servers, late } =
        begun.as_ref().map_or_else(Unconfirmed::default, |lease| Unconfirmed::of(nodes, lease));
    if let Some(lease) = &begun {
        client.ensure_running();
        if left.is_some() {
            let times = (lease.since, lease.expired_by);
            delete_left_behind(nodes, &late, &lease.claim, times);
        } else {
            let round = Round::new(&nodes.names, Tally::is_answered_or_failed);
            delete(queues, lease, hold.earliest, reading.now, &round);
        }
    }
    release::make_way(client, hold, reading.now);
    let expired_by = begun.map_or(reading.now, |lease| lease.expired_by);
    let wall = (first, nodes.clock.wall());
    Lease::of(hold, reading.now, wall, left, expired_by, servers)
}

/// Whether no other holder can have the keys of a claim, or another key for the same purpose.
fn is_alone(claim: &Claim) -> bool {
    !claim.shared && !claim.permit
}
