//! Which nodes have a vote on an adoption.
//!
//! A node has no vote if it had not answered for the lock when that was handed over. The `SET` of the giver may still
//! be on its way there, and may run after another client has had the lock. On all other nodes the old value has been
//! there since. A client that held the lock in between had a quorum, and shares a node with a quorum of these (rule 7).

use std::sync::Arc;

use super::missed::Missed;
use crate::{
    error::{NodeError, NodeErrorKind},
    lease::LeaseState,
    node::{NodeHandle, Reply, ReplySink},
    quorum::{Effect, Nodes, OneVote},
};

/// The servers that have not confirmed a lease in its last confirmed round.
#[derive(Default)]
pub(super) struct Unconfirmed {
    /// Their fingerprints.
    pub(super) servers: Vec<u64>,
    /// Those of their nodes where the `SET` may be on its way. It may run after the adoption (rule 5).
    pub(super) late: Vec<usize>,
}

impl Unconfirmed {
    pub(super) fn of(nodes: &Nodes, lease: &LeaseState) -> Self {
        // One look: a name that connects meanwhile shows its server.
        let fingerprints: Vec<_> = nodes.iter().map(NodeHandle::fingerprint).collect();
        let confirmed = |index: &usize| lease.confirmed_round.has_yes(*index);
        let (with, without): (Vec<_>, Vec<_>) = (0..fingerprints.len()).partition(confirmed);
        // A server under two names is asked under one of them.
        let is_confirmed =
            |it: usize| with.iter().any(|other| fingerprints[*other] == fingerprints[it]);
        let effects = lease.set_round.effects();
        let mut unconfirmed = Self::default();
        for index in without.into_iter().filter(|it| !is_confirmed(*it)) {
            unconfirmed.servers.push(fingerprints[index]);
            if effects.get(index) == Some(&Effect::Possible) {
                unconfirmed.late.push(index);
            }
        }
        unconfirmed
    }
}

/// Leaves out the votes on an adoption that do not count, and notes which nodes miss it.
pub(super) struct Votes {
    pub(super) round: Arc<OneVote>,
    pub(super) unconfirmed: Vec<u64>,
    pub(super) missed: Arc<Missed>,
}

impl Votes {
    fn has_vote(&self, node: usize) -> bool {
        // As late as possible: the process that has answered may be new.
        self.round.fingerprint_of(node).is_none_or(|it| !self.unconfirmed.contains(&it))
    }
}

impl ReplySink for Votes {
    fn receive(self: Arc<Self>, node: usize, result: Result<Reply, NodeError>) {
        let result = match result {
            Ok(Reply::Done) if !self.has_vote(node) => {
                let reason = "the client that handed the lock over had no answer from it: it may have \
                              set the key after another client held the lock";
                let error = NodeError::new(&self.name_of(node), NodeErrorKind::SitsOut, reason);
                // The value there is ours all the same (rule 5).
                Err(NodeError { may_have_run: true, ..error })
            }
            result => result.inspect_err(|error| self.missed.failed(node, error.kind)),
        };
        Arc::clone(&self.round).receive(node, result);
    }

    fn names(&self) -> &[Arc<str>] {
        self.round.names()
    }
}
