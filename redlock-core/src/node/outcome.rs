//! The outcome of a batch, answered or not.

use std::{cell::LazyCell, ops::Deref, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    Action, Job, Reply, deliver, outbox, pipe::Answered, queued::Queued, shared::Shared,
    strikes::Strikes,
};
use crate::{
    clock::Moment,
    error::{Cause, NodeError, NodeErrorKind},
    metrics, telemetry,
};

/// Sees a batch through to its answers. Err when the connection is over; otherwise what held the
/// items comes back empty, for the next batch.
pub(super) fn conclude(
    shared: &Shared,
    answered: Answered,
    strikes: &mut Strikes,
) -> Result<Vec<Queued>, NodeError> {
    let Answered { mut items, results, sent, in_time } = answered;
    let now = LazyCell::new(|| shared.context.clock.now());
    let is_late = |it: &Result<_, NodeError>| it.as_ref().is_err_and(is_timeout);
    if in_time && !results.iter().any(is_late) {
        // Answers that waited while this process stood still say nothing about the distance.
        let took = sent.elapsed().min(shared.context.node_timeout);
        shared.round_trip.note(took);
        metrics::node_round_trip(&shared.name, took);
    }
    // Before the votes: a vote may wake a caller that checks whether all is done.
    note_owed(shared, &items, &results, sent, in_time, &now);
    shared.show_cleanups();
    let mut over = None;
    for (item, result) in items.iter().zip(&results) {
        if let Err(error) = result {
            metrics::node_failure(&shared.name, error.kind);
        }
        shared.refusals.note(&item.job, result, || *now);
        match result {
            Ok(reply) => {
                strikes.clear();
                note_findings(shared, &item.job, reply, &now);
            }
            // Only a member of a cluster was late. It is given up by itself, and the others go on.
            Err(error) if in_time && is_timeout(error) => {}
            Err(error) if breaks(error, strikes, &now, shared.context.node_timeout) => {
                over = Some(error.clone());
            }
            Err(_) => {}
        }
    }
    for (item, result) in items.drain(..).zip(results) {
        match again_at(shared, &item, &result, &now) {
            Some(due) => shared.outbox.lock().ask_again(item, due),
            None => {
                if let Some(reply_to) = item.reply_to {
                    reply_to.deliver(result);
                }
            }
        }
    }
    over.map_or(Ok(items), Err)
}

fn is_timeout(error: &NodeError) -> bool {
    error.kind == NodeErrorKind::Timeout
}

/// When to ask a watch again instead of answering it. A request that failed has armed nothing. A
/// node that sits out may have forgotten the key: it reads as free, and is not.
fn again_at(
    shared: &Shared,
    item: &Queued,
    result: &Result<Reply, NodeError>,
    now: &impl Deref<Target = Moment>,
) -> Option<Moment> {
    if item.job.action != Action::Watch || !item.is_wanted() {
        return None;
    }
    match result {
        // The next connection asks for all listeners.
        Err(error) if error.kind == NodeErrorKind::Disconnected => None,
        Err(_) => Some(**now + outbox::PAUSE),
        Ok(_) => shared.outbox.lock().quarantine.sits_out(**now).map(|(_, left)| **now + left),
    }
}

/// Makes room for others, and notes what is still owed.
fn note_owed(
    shared: &Shared,
    items: &[Queued],
    results: &[Result<Reply, NodeError>],
    sent: Instant,
    in_time: bool,
    now: &impl Deref<Target = Moment>,
) {
    // A member of the cluster is away or late, and the connections to the others go on.
    let is_of_member =
        |error: &NodeError| error.kind == NodeErrorKind::Down || in_time && is_timeout(error);
    let mut outbox = shared.outbox.lock();
    outbox.lanes.paced(items.len(), sent, shared.context.node_timeout);
    outbox.lanes.answered(items);
    if results.iter().any(Result::is_ok) {
        outbox.heard();
    }
    let unheard = |it: &Result<Reply, NodeError>| {
        it.as_ref().is_err_and(|error| is_of_member(error) && error.may_have_run)
    };
    if results.iter().any(unheard) {
        outbox.member_unheard(**now);
    }
    for (item, result) in items.iter().zip(results) {
        if !item.job.is_owed() {
            continue;
        }
        let is_key = item.job.clean_up().is_some();
        match result {
            Ok(_) => outbox.repeat(&item.job, **now),
            // Nothing is left to clean up, and a node that cannot run it may be away for long (rule 18).
            Err(_) if item.job.clean_up().is_some_and(|it| !it.may_be_there) => {}
            Err(error) if is_of_member(error) && item.job.leaves_late(**now) => {}
            Err(error) if is_of_member(error) => {
                outbox.owe(Arc::clone(&item.job), **now + outbox::PAUSE);
            }
            // On this connection, the node runs the leave after the join of the same waiter, even if it runs both late.
            Err(error) if !is_key && is_timeout(error) => {
                outbox.leave_unheard(Arc::clone(&item.job));
            }
            // A server that cannot run it has no queue.
            Err(error) if !is_key && error.kind == NodeErrorKind::Server => {}
            Err(error) if error.kind == NodeErrorKind::Server => {
                outbox.owe_until_expiry(Arc::clone(&item.job), **now + outbox::PAUSE);
            }
            Err(_) => outbox.owe(Arc::clone(&item.job), **now + outbox::PAUSE),
        }
    }
}

/// Acts on what a reply shows beside its vote: a clock that does not keep up, a key of ours that has gone, or what a
/// waiter of this client was told.
fn note_findings(shared: &Shared, job: &Job, reply: &Reply, now: &impl Deref<Target = Moment>) {
    let key = &job.claim.key;
    if let Some(anomaly) = job.expected().and_then(|it| it.anomaly(reply, **now)) {
        metrics::node_odd_expiry(&shared.name);
        telemetry::odd_expiry(&shared.name, key, &anomaly);
    }
    // A node does not push our own changes to us: neither what was told to our own waiters nor that our key has gone.
    if let Some(told) = reply.told()
        && !job.is_silent()
    {
        told.keys(&job.claim).for_each(|key| shared.watchers.changed(&key));
    }
    let is_done = matches!(reply.of_key(), Reply::Done);
    let is_kept = job.clean_up().is_some_and(|it| !it.deletes(**now));
    let is_set = job.claim.is_set();
    if matches!(reply, Reply::HasReaders { .. }) || (is_done || is_set) && is_kept {
        let asks_again = job.claim.keys().flat_map(|key| shared.watchers.changed_here(key));
        for (job, reply_to) in asks_again {
            let early = shared.outbox.lock().put(&shared.name, job, reply_to, **now);
            deliver(early);
        }
        return;
    }
    let clears = matches!(job.action, Action::Clear { .. });
    // Some keys of a set may be gone where others were not there: to look in vain does no harm.
    if (is_done || is_set) && (clears || job.clean_up().is_some_and(|it| it.deletes(**now))) {
        job.claim.keys().for_each(|key| shared.watchers.freed(key));
    }
}

/// Whether this is the end of the connection.
fn breaks(
    error: &NodeError,
    strikes: &mut Strikes,
    now: &impl Deref<Target = Moment>,
    node_timeout: Duration,
) -> bool {
    match error.kind {
        NodeErrorKind::Disconnected => true,
        NodeErrorKind::Timeout => strikes.add(**now, node_timeout),
        // A new connection asks for its role, and is refused until it is a master again.
        _ if error.cause == Cause::Replica => true,
        // A new connection logs in with the credentials of now.
        _ if error.cause == Cause::Login => true,
        // The node answered, if only with an error.
        _ => {
            strikes.clear();
            false
        }
    }
}
