//! Puts a question to nodes: which node is asked what, and whose answer counts.

use std::{fmt, sync::Arc};

use crate::{
    clock::Moment,
    error::{NodeError, NodeErrorKind},
    node::{Job, NodeHandle, Reply},
};

/// Receives the answers of the nodes: a [`Round`](super::Round) decides by them, a
/// [`FreeSignal`](super::FreeSignal) learns the state of the key from them.
pub(crate) trait ReplySink: Send + Sync + 'static {
    fn receive(self: Arc<Self>, node: usize, result: Result<Reply, NodeError>);

    /// Whether a question that has not been sent yet is still worth it. An unwanted question may be
    /// dropped under the lock of a mailbox, so counting it must take no lock of the client.
    fn is_wanted(&self) -> bool {
        true
    }
}

/// Where the reply of one node goes. One that is dropped reports a broken connection.
#[must_use = "a reply that is not delivered sink as a failure"]
pub(crate) struct ReplyTo {
    sink: Option<Arc<dyn ReplySink>>,
    node: usize,
    name: Arc<str>,
}

impl ReplyTo {
    pub(crate) fn new<C: ReplySink>(sink: &Arc<C>, node: usize, name: &Arc<str>) -> Self {
        let sink: Arc<dyn ReplySink> = Arc::<C>::clone(sink);
        Self { sink: Some(sink), node, name: Arc::clone(name) }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.sink.as_ref().is_none_or(|sink| sink.is_wanted())
    }

    pub(crate) fn deliver(mut self, result: Result<Reply, NodeError>) {
        if let Some(sink) = self.sink.take() {
            sink.receive(self.node, result);
        }
    }
}

impl Drop for ReplyTo {
    fn drop(&mut self) {
        if let Some(sink) = self.sink.take() {
            let reason = "the runtime that spoke to it ended";
            let error = NodeError::new(&self.name, NodeErrorKind::Disconnected, reason);
            sink.receive(self.node, Err(error));
        }
    }
}

impl fmt::Debug for ReplyTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyTo").field("node", &self.name).finish_non_exhaustive()
    }
}

/// A reply that is known at once. It is delivered later, because the asker may hold a lock
/// that what follows the round takes too.
pub(crate) type EarlyReply = (ReplyTo, Result<Reply, NodeError>);

/// Hands every node its job in one pass and does not wait: jobs that are handed over under one lock
/// reach every node in that order. A node without a job counts as [`Reply::Missing`].
#[must_use]
pub(crate) fn ask<C: ReplySink>(
    nodes: &[NodeHandle],
    sink: &Arc<C>,
    now: Moment,
    job: impl Fn(usize) -> Option<Job>,
) -> Vec<EarlyReply> {
    let mut early = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        match job(index) {
            Some(job) => early.extend(ask_at(now, nodes, sink, index, job)),
            None => early.push((ReplyTo::new(sink, index, node.name()), Ok(Reply::Missing))),
        }
    }
    early
}

/// Hands one node its job.
#[must_use]
pub(crate) fn ask_one<C: ReplySink>(
    nodes: &[NodeHandle],
    sink: &Arc<C>,
    index: usize,
    job: Job,
) -> Vec<EarlyReply> {
    let Some(node) = nodes.get(index) else { return Vec::new() };
    ask_at(node.now(), nodes, sink, index, job)
}

fn ask_at<C: ReplySink>(
    now: Moment,
    nodes: &[NodeHandle],
    sink: &Arc<C>,
    index: usize,
    job: Job,
) -> Vec<EarlyReply> {
    let Some(node) = nodes.get(index) else { return Vec::new() };
    let reply_to = ReplyTo::new(sink, index, node.name());
    // The answer to a clean-up is no vote.
    if job.clean_up.is_none()
        && let Some(error) = twin(nodes, index)
    {
        return vec![(reply_to, Err(error))];
    }
    node.submit(job, reply_to, now)
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

/// Delivers the replies that [`ask`] had at once, with no lock held.
pub(crate) fn deliver(early: Vec<EarlyReply>) {
    for (reply_to, result) in early {
        reply_to.deliver(result);
    }
}
