//! Puts a question to nodes: which node is asked what, and whose answer counts.

use std::sync::Arc;

use super::Twins;
use crate::{
    clock::Moment,
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
    let twins = Twins::of(nodes);
    let mut early = Vec::new();
    for index in 0..nodes.len() {
        match job(index) {
            Some(job) => early.extend(ask_at(now, nodes, &twins, sink, index, job)),
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
    ask_at(node.now(), nodes, &Twins::of(nodes), sink, index, job)
}

fn ask_at<C: ReplySink>(
    now: Moment,
    nodes: &[NodeHandle],
    twins: &Twins,
    sink: &Arc<C>,
    index: usize,
    job: Arc<Job>,
) -> Vec<EarlyReply> {
    let Some(node) = nodes.get(index) else { return Vec::new() };
    let reply_to = ReplyTo::new(sink, index);
    // The answer to a clean-up is no vote.
    if job.clean_up().is_none()
        && let Some(error) = twins.refusal(nodes, index)
    {
        return vec![(reply_to, Err(error))];
    }
    node.submit(job, reply_to, now)
}
