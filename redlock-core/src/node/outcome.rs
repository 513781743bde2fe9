//! What comes of a batch that was answered, or was not.

use std::{cell::LazyCell, ops::Deref, time::Duration};

use super::{
    Job, Reply, debts, handle::Shared, mailbox::Item, redis, strikes::Strikes, under_way::Answered,
};
use crate::{
    clock::Moment,
    error::{NodeError, NodeErrorKind},
    telemetry,
};

/// Sees a batch through to its answers, and says whether the connection is over. What held the
/// items comes back empty, for the next.
pub(super) fn conclude(
    shared: &Shared,
    Answered { mut items, results }: Answered,
    connected: Moment,
    strikes: &mut Strikes,
) -> Result<Vec<Item>, NodeError> {
    let now = LazyCell::new(|| shared.context.clock.now());
    // Before the votes: whoever one of them wakes may look whether all is done.
    note_debts(shared, &items, &results, connected, &now);
    let mut over = None;
    for (item, result) in items.iter().zip(&results) {
        match result {
            Ok(reply) => {
                strikes.clear();
                hear(shared, &item.job, *reply, &now);
            }
            Err(error) if breaks(error, strikes, &now, shared.context.node_timeout) => {
                over = Some(error.clone());
            }
            Err(_) => {}
        }
    }
    for (item, result) in items.drain(..).zip(results) {
        if let Some(ballot) = item.ballot {
            ballot.cast(result);
        }
    }
    over.map_or(Ok(items), Err)
}

/// Makes room for others, and notes what is still owed.
fn note_debts(
    shared: &Shared,
    items: &[Item],
    results: &[Result<Reply, NodeError>],
    connected: Moment,
    now: &impl Deref<Target = Moment>,
) {
    let mut mailbox = shared.mailbox.lock();
    mailbox.answered(items.len());
    for (item, result) in items.iter().zip(results) {
        if item.job.clean_up.is_none() {
            continue;
        }
        match result {
            Ok(_) => mailbox.debts.repeat(&item.job, connected, now),
            Err(error) if error.kind == NodeErrorKind::Server => {
                mailbox.debts.owe_until_expiry(item.job.clone(), **now + debts::PAUSE);
            }
            Err(_) => mailbox.debts.owe(item.job.clone(), **now + debts::PAUSE),
        }
    }
}

/// What a reply says beside its vote: that a clock does not keep up, that a key of ours has gone.
fn hear(shared: &Shared, job: &Job, reply: Reply, now: &impl Deref<Target = Moment>) {
    let key = &job.claim.key;
    if let Some(anomaly) = job.expected.and_then(|it| it.anomaly(reply, **now)) {
        telemetry::odd_expiry(&shared.name, key, &anomaly);
    }
    // A node does not tell us what we did ourselves.
    if reply == Reply::Done && job.clean_up.is_some_and(|it| it.deletes(**now)) {
        shared.watchers.freed(key);
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
        _ if redis::is_replica(error) => true,
        // The node answered, if only with an error.
        _ => {
            strikes.clear();
            false
        }
    }
}
