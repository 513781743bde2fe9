//! Which nodes have a vote on an adoption.
//!
//! A node has no vote if it had not answered for the lock when that was handed over. The `SET` of the giver may still
//! be on its way there, and may run after another client has had the lock. On all other nodes the old value has been
//! there since. A client that held the lock in between had a quorum, and shares a node with a quorum of these (rule 7).
//!
//! A server with two names has one vote (rule 16). It answers under both where its names show as late as it is asked: an
//! adoption may be asked again, so a lock that has our value already is ours.

use std::sync::Arc;

use crate::{
    error::{NodeError, NodeErrorKind},
    lease::LeaseState,
    node::{Reply, ReplySink},
    quorum::{Nodes, Round},
    sync::Mutex,
};

/// The servers that said no yes in the last confirmed round of this lease, by their fingerprints.
pub(super) fn unconfirmed(nodes: &Nodes, lease: &LeaseState) -> Vec<u64> {
    let confirmed = |index: &usize| lease.confirmed_round.has_yes(*index);
    let (with, without): (Vec<_>, Vec<_>) = (0..nodes.len()).partition(confirmed);
    let of = |indices: Vec<usize>| -> Vec<u64> {
        indices.into_iter().filter_map(|it| Some(nodes.get(it)?.fingerprint())).collect()
    };
    let (with, mut without) = (of(with), of(without));
    // A server under two names is asked under one of them.
    without.retain(|it| !with.contains(it));
    without
}

/// Counts the votes on an adoption in its round.
pub(super) struct Votes {
    pub(super) round: Arc<Round>,
    pub(super) nodes: Arc<Nodes>,
    pub(super) unconfirmed: Vec<u64>,
    /// The servers that have voted, by their fingerprints.
    pub(super) voted: Mutex<Vec<u64>>,
}

impl Votes {
    /// Why this node has no vote, although its lock is ours. Notes its vote if it has one.
    fn refusal(&self, node: usize) -> Option<(NodeErrorKind, &'static str)> {
        // As late as possible: the process that has answered may be new.
        let server = self.nodes.get(node)?.fingerprint();
        if self.unconfirmed.contains(&server) {
            let reason = "the client that handed the lock over had no answer from it: it may have \
                          set the key after another client held the lock";
            return Some((NodeErrorKind::SitsOut, reason));
        }
        let mut voted = self.voted.lock();
        if voted.contains(&server) {
            let reason =
                "its server has voted under another name: give every node a server of its own";
            return Some((NodeErrorKind::Twin, reason));
        }
        voted.push(server);
        None
    }
}

impl ReplySink for Votes {
    fn receive(self: Arc<Self>, node: usize, result: Result<Reply, NodeError>) {
        let refusal = result.as_ref().ok().filter(|reply| **reply == Reply::Done);
        let result = match refusal.and_then(|_| self.refusal(node)) {
            Some((kind, reason)) => {
                let error = NodeError::new(&self.name_of(node), kind, reason);
                // The value there is ours all the same (rule 5).
                Err(NodeError { may_have_run: true, ..error })
            }
            None => result,
        };
        Arc::clone(&self.round).receive(node, result);
    }

    fn names(&self) -> &[Arc<str>] {
        self.round.names()
    }
}
