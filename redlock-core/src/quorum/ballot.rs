//! Puts a question to nodes: which node is asked what, and whose answer counts.

use std::{fmt, sync::Arc};

use crate::{
    clock::Moment,
    error::{NodeError, NodeErrorKind},
    node::{Job, NodeHandle, Reply},
};

/// Receives the answers of the nodes: a [`Round`](super::Round) decides by them, a
/// [`Bell`](super::Bell) learns the state of the key from them.
pub(crate) trait Counts: Send + Sync + 'static {
    fn count(self: Arc<Self>, node: usize, result: Result<Reply, NodeError>);

    /// Whether a question that has not been sent yet is still worth it. An unwanted question may be
    /// dropped under the lock of a mailbox, so counting it must take no lock of the client.
    fn is_wanted(&self) -> bool {
        true
    }
}

/// One node's vote. It must be cast: a dropped ballot counts as a broken connection.
#[must_use = "a ballot that is not cast counts as a failure"]
pub(crate) struct Ballot {
    counts: Option<Arc<dyn Counts>>,
    node: usize,
    name: Arc<str>,
}

impl Ballot {
    pub(crate) fn new<C: Counts>(counts: &Arc<C>, node: usize, name: &Arc<str>) -> Self {
        let counts: Arc<dyn Counts> = Arc::<C>::clone(counts);
        Self { counts: Some(counts), node, name: Arc::clone(name) }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.counts.as_ref().is_none_or(|counts| counts.is_wanted())
    }

    pub(crate) fn cast(mut self, result: Result<Reply, NodeError>) {
        if let Some(counts) = self.counts.take() {
            counts.count(self.node, result);
        }
    }
}

impl Drop for Ballot {
    fn drop(&mut self) {
        if let Some(counts) = self.counts.take() {
            let reason = "the runtime that spoke to it ended";
            let error = NodeError::new(&self.name, NodeErrorKind::Disconnected, reason);
            counts.count(self.node, Err(error));
        }
    }
}

impl fmt::Debug for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ballot").field("node", &self.name).finish_non_exhaustive()
    }
}

/// A ballot whose result was known at once. It is cast later, because the asker may hold a lock
/// that the round's sequel takes too.
pub(crate) type Uncast = (Ballot, Result<Reply, NodeError>);

/// Hands every node its job in one pass and does not wait: jobs that are handed over under one lock
/// reach every node in that order. A node without a job counts as [`Reply::Missing`].
#[must_use]
pub(crate) fn ask<C: Counts>(
    nodes: &[NodeHandle],
    counts: &Arc<C>,
    job: impl Fn(usize) -> Option<Job>,
) -> Vec<Uncast> {
    let mut uncast = Vec::new();
    let Some(now) = nodes.first().map(NodeHandle::now) else { return uncast };
    for (index, node) in nodes.iter().enumerate() {
        match job(index) {
            Some(job) => uncast.extend(ask_at(now, nodes, counts, index, job)),
            None => uncast.push((Ballot::new(counts, index, node.name()), Ok(Reply::Missing))),
        }
    }
    uncast
}

/// Hands one node its job.
#[must_use]
pub(crate) fn ask_one<C: Counts>(
    nodes: &[NodeHandle],
    counts: &Arc<C>,
    index: usize,
    job: Job,
) -> Vec<Uncast> {
    let Some(node) = nodes.get(index) else { return Vec::new() };
    ask_at(node.now(), nodes, counts, index, job)
}

fn ask_at<C: Counts>(
    now: Moment,
    nodes: &[NodeHandle],
    counts: &Arc<C>,
    index: usize,
    job: Job,
) -> Vec<Uncast> {
    let Some(node) = nodes.get(index) else { return Vec::new() };
    let ballot = Ballot::new(counts, index, node.name());
    // The answer to a clean-up is no vote.
    if job.clean_up.is_none()
        && let Some(error) = twin(nodes, index)
    {
        return vec![(ballot, Err(error))];
    }
    node.submit(job, ballot, now)
}

/// Why this node has no vote when it is the same server as an earlier node: a server with two names
/// would be counted twice (rule 16).
pub(crate) fn twin(nodes: &[NodeHandle], index: usize) -> Option<NodeError> {
    let node = nodes.get(index)?;
    let first = nodes.iter().take(index).find(|first| node.is_twin_of(first))?;
    let reason =
        format!("it is the same server as {}: give every node a server of its own", first.name());
    Some(NodeError::new(node.name(), NodeErrorKind::Twin, reason))
}

/// Casts what [`ask`] left, with no lock held.
pub(crate) fn cast_all(uncast: Vec<Uncast>) {
    for (ballot, result) in uncast {
        ballot.cast(result);
    }
}
