//! Which nodes have a vote on an adoption.
//!
//! A node has no vote if it had not answered for the lock when that was handed over. The `SET` of the giver may still
//! be on its way there, and may run after another client has had the lock. On all other nodes the old value has been
//! there since. A client that held the lock in between had a quorum, and shares a node with a quorum of these (rule 7).

use std::sync::Arc;

use crate::{
    error::{NodeError, NodeErrorKind},
    lease::LeaseState,
    node::{Reply, ReplySink},
    quorum::{Effect, Nodes, OneVote},
};

/// The fingerprints of the servers that did not say yes in the last confirmed round of this lease.
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

/// The nodes where the `SET` of this lease may be on its way, among the servers that have not confirmed it.
pub(super) fn late(
    nodes: &Nodes,
    lease: &LeaseState,
    unconfirmed: &[u64],
) -> impl Iterator<Item = usize> {
    let effects = lease.set_round.effects();
    let of_effect = nodes.iter().zip(effects).enumerate();
    of_effect
        .filter(|(_, (node, effect))| {
            *effect == Effect::Possible && unconfirmed.contains(&node.fingerprint())
        })
        .map(|(index, _)| index)
}

/// Leaves out the votes on an adoption that do not count.
pub(super) struct Votes {
    pub(super) round: Arc<OneVote>,
    pub(super) unconfirmed: Vec<u64>,
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
            result => result,
        };
        Arc::clone(&self.round).receive(node, result);
    }

    fn names(&self) -> &[Arc<str>] {
        self.round.names()
    }
}
