//! Puts a question to nodes: which node is asked what, and whose answer counts.

use std::sync::Arc;

use crate::{
    clock::Moment,
    error::{NodeError, NodeErrorKind},
    node::{EarlyReply, Job, NodeHandle, Reply, ReplySink, ReplyTo},
};

/// Hands every node its job in one pass and does not wait: jobs that are handed over under one lock
/// reach every node in that order. A node without a job counts as [`Reply::Missing`].
#[must_use]
pub(crate) fn ask<C: ReplySink>(
    nodes: &[NodeHandle],
    sink: &Arc<C>,
    now: Moment,
    job: impl Fn(usize) -> Option<Arc<Job>>,
) -> Vec<EarlyReply> {
    let mut early = Vec::new();
    for index in 0..nodes.len() {
        match job(index) {
            Some(job) => early.extend(ask_at(now, nodes, sink, index, job)),
            None => early.push((ReplyTo::new(sink, index), Ok(Reply::Missing))),
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
    job: Arc<Job>,
) -> Vec<EarlyReply> {
    let Some(node) = nodes.get(index) else { return Vec::new() };
    ask_at(node.now(), nodes, sink, index, job)
}

fn ask_at<C: ReplySink>(
    now: Moment,
    nodes: &[NodeHandle],
    sink: &Arc<C>,
    index: usize,
    job: Arc<Job>,
) -> Vec<EarlyReply> {
    let Some(node) = nodes.get(index) else { return Vec::new() };
    let reply_to = ReplyTo::new(sink, index);
    // The answer to a clean-up is no vote.
    if job.clean_up().is_none()
        && let Some(error) = twin(nodes, index)
    {
        return vec![(reply_to, Err(error))];
    }
    node.submit(job, reply_to, now)
}

/// Why this node has no vote when it is the same server as an earlier node: a server with two names
/// would have two votes (rule 16).
pub(crate) fn twin(nodes: &[NodeHandle], index: usize) -> Option<NodeError> {
    let node = nodes.get(index)?;
    let first = nodes.iter().take(index).find(|first| node.is_twin_of(first))?;
    let reason =
        format!("it is the same server as {}: give every node a server of its own", first.name());
    Some(NodeError::new(node.name(), NodeErrorKind::Twin, reason))
}
