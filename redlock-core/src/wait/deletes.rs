//! Deleting the keys of a lease, and waking the next client that waits for the lock. Every node
//! that may have the key gets a compare-and-delete, until a delete is confirmed or the key has
//! expired (rules 5, 11 and 12).

use std::sync::Arc;

use super::{keeper::queue_node, pace::grace, queues::Queues};
use crate::{
    clock::Moment,
    error::NodeError,
    lease::LeaseState,
    node::{Action, CleanUp, Job, Reply, ReplySink, ReplyTo, deliver},
    quorum::{Round, Tally},
};

/// A quorum has answered, or so many failed that none will.
pub(crate) fn settles(tally: &Tally) -> bool {
    tally.answered() || tally.impossible_by_failures()
}

/// Gives back a lease that is not held, or the keys that an attempt has left. The deletes follow
/// the `SET`s of the attempt, and the caller does not wait for them (rule 5).
pub(super) fn give_back(queues: &Arc<Queues>, lease: &LeaseState) {
    queues.leases.ensure_running();
    delete(queues, lease, None, queues.nodes().clock.now(), settles);
}

/// Asks every node that may have the key to delete it, and returns the number of these nodes. The
/// node that keeps the queue also gives the next waiter its turn.
pub(crate) fn delete(
    queues: &Arc<Queues>,
    lease: &LeaseState,
    keep_until: Option<Moment>,
    now: Moment,
    settles: fn(&Tally) -> bool,
) -> (Arc<Round>, usize) {
    let nodes = queues.nodes();
    let round = Round::new(nodes.len(), settles);
    let key = &lease.claim.key;
    // A lease that no quorum granted kept no other client from the lock.
    let was_held = lease.confirmed_round.yes() >= nodes.quorum();
    let queue_node = if was_held { queue_node(nodes, key) } else { None };
    let mut early = Vec::new();
    let mut asked = 0;
    // The node of the queue is asked last. A waiter that it wakes asks all nodes, and would find
    // the key on a node that has not heard of the release.
    let others = (0..nodes.len()).filter(|index| Some(*index) != queue_node);
    for index in others.chain(queue_node) {
        let Some(node) = nodes.get(index) else { continue };
        let wakes = queue_node == Some(index);
        let is_there = lease.set_round.may_have_happened(index);
        if !is_there && !wakes {
            early.push((ReplyTo::new(&round, index, node.name()), Ok(Reply::Missing)));
            continue;
        }
        asked += usize::from(is_there);
        let clean_up = CleanUp {
            since: lease.since,
            until: lease.expired_by,
            keep_until,
            repeated: false,
            may_be_unsent: is_there && !lease.set_round.has_yes(index),
        };
        let action = Action::Release { wakes };
        let job = Job { clean_up: Some(clean_up), ..Job::new(&lease.claim, action) };
        let reply_to = if wakes {
            queues.released(key, now, || now + grace(nodes.round_trip()));
            let (round, queues) = (Arc::clone(&round), Arc::clone(queues));
            let telling = Telling { round, queues, key: Arc::clone(key), now };
            ReplyTo::new(&Arc::new(telling), index, node.name())
        } else {
            ReplyTo::new(&round, index, node.name())
        };
        early.extend(node.submit(job, reply_to, now));
    }
    deliver(early);
    (round, asked)
}

/// Learns from the node that keeps the queue whether other clients wait.
struct Telling {
    round: Arc<Round>,
    queues: Arc<Queues>,
    key: Arc<str>,
    /// When the lock was released.
    now: Moment,
}

impl ReplySink for Telling {
    fn receive(self: Arc<Self>, node: usize, result: Result<Reply, NodeError>) {
        let Self { round, queues, key, now } = &*self;
        match result {
            // The waiter that was woken has this long to take the lock.
            Ok(Reply::Woke { .. }) => {
                queues.others_wait(key, *now, *now + grace(queues.nodes().round_trip()));
            }
            Ok(Reply::Done | Reply::Missing) => queues.no_client_waits(key, *now),
            _ => {}
        }
        Arc::clone(round).receive(node, result);
    }
}
