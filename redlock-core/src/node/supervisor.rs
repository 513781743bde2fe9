//! Keeps one node connected and sees its jobs through (rules 14 and 15).
//!
//! The connection is in one of three states ([`Link`]). Opening: jobs wait for it, each for
//! `node_timeout`. Up: whatever waits goes out in one batch, and several batches may be in flight.
//! Down: jobs are answered in no time, and a new connection is tried with backoff.

use std::{
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    Identity, Opened,
    advice::advice,
    backoff::Backoff,
    deliver,
    outbox::Link,
    queued::Queued,
    session::{Ended, Session},
    shared::Shared,
    task::Task,
};
use crate::{
    background::Pulse,
    clock::{Moment, sleep_until},
    error::{Cause, NodeError, NodeErrorKind},
    sync::Notify,
    telemetry, token,
};

pub(super) async fn supervise(shared: Arc<Shared>, mail: Arc<Notify>, pulse: Pulse) {
    begin(&shared, &pulse);
    if !pulse.is_current() {
        return;
    }
    let task = Task { shared: &shared, mail: &mail, pulse: &pulse };
    let mut backoff = Backoff::new();
    let mut announced_down = false;
    // The previous connection was closed at rest. That is not reported if the next connection
    // opens.
    let mut closed_at_rest = false;
    // It was opened, and answered nothing. A node that is too slow for its timeout is reported once, and not
    // with each connection.
    let mut was_silent = false;
    loop {
        let opened = open(task).await;
        if !pulse.is_current() {
            return;
        }
        let ended = match opened {
            Ok((connection, identity)) => {
                let since = shared.context.clock.now();
                // This comes before callers can send. Jobs that the node must not be asked are taken back.
                admit(
                    task,
                    &identity,
                    connection.has_pushes(),
                    closed_at_rest || was_silent,
                    since,
                );
                announced_down &= was_silent;
                let Some(session) = Session::open(task, connection, was_silent) else { return };
                let ended = session.serve().await;
                if !pulse.is_current() {
                    return;
                }
                let Some(Ended { error, answered, at_rest }) = ended else { return };
                // A server that accepts connections and breaks them is asked again with pauses.
                let lasted = shared.context.clock.now().since(since) >= Backoff::MAX;
                if answered || lasted {
                    backoff = Backoff::new();
                }
                closed_at_rest = at_rest && (answered || lasted);
                was_silent =
                    !answered && (was_silent || !lasted || error.kind == NodeErrorKind::Timeout);
                announced_down &= was_silent;
                error
            }
            Err(error) => {
                (closed_at_rest, was_silent) = (false, false);
                error
            }
        };
        if closed_at_rest {
            telemetry::closed_at_rest(&ended);
        } else if !announced_down {
            telemetry::node_down(&ended);
            announced_down = true;
        }
        go_down(task, ended);
        let pause = backoff.pause();
        let jitter = token::up_to(&*shared.context.entropy, Backoff::jitter(pause));
        if wait_closed(task, pause + jitter).await || !pulse.is_current() {
            return;
        }
    }
}

/// Takes over the jobs that the previous task has left. It may not have got round to its end, or it
/// stands still on another runtime and was taken over.
///
/// A task may be taken over before it is first polled. It must not touch what its successor has begun, here or later:
/// it looks whether it is current under the lock that the successor needs to begin.
pub(super) fn begin(shared: &Shared, pulse: &Pulse) {
    let (sender, over) = {
        let mut pipe = shared.pipe.lock();
        if !pulse.is_current() {
            return;
        }
        // Under the lock: a `SET` that left before it must not look as if it had left on the next connection.
        let now = shared.context.clock.now();
        let (sender, parting) = (pipe.take_sender(), pipe.take_parting());
        let unanswered = pipe.abandon_any();
        let mut outbox = shared.outbox.lock();
        outbox.begin_anew(now, &unanswered);
        shared.relink(&mut outbox, Link::Opening);
        (sender, (parting, unanswered))
    };
    if let Some(sender) = sender {
        // The runtime of the previous task may go on. What that task has yet to send, or would send again, would
        // arrive after the deletes of this task.
        sender.close();
    }
    shared.announce();
    // Each `ReplyTo` answers as it is dropped, with no lock held.
    drop(over);
}

/// Opens a connection, while jobs that waited too long for it fail.
async fn open(task: Task<'_>) -> Result<Opened, NodeError> {
    let Task { shared, mail, .. } = task;
    let limit = shared.context.connect_timeout;
    let mut connecting =
        pin!(tokio::time::timeout(limit, shared.connector.connect(&shared.watchers)));
    loop {
        let oldest = shared.outbox.lock().lanes.oldest();
        let overdue = oldest.map_or(Moment::NEVER, |oldest| oldest + shared.context.node_timeout);
        task.sleeps_until(overdue);
        tokio::select! {
            biased;
            connected = &mut connecting => return connected.unwrap_or_else(|_| {
                let reason = format!("no connection within {limit:?}");
                Err(NodeError::new(&shared.name, NodeErrorKind::Down, reason))
            }),
            () = sleep_until(&*shared.context.clock, overdue), if overdue != Moment::NEVER => {
                let now = shared.context.clock.now();
                let late = shared.outbox.lock().lanes.take_overdue(now, shared.context.node_timeout);
                let reason = "still connecting";
                fail(shared, late, &NodeError::new(&shared.name, NodeErrorKind::Down, reason));
            }
            () = mail.notified() => {}
        }
    }
}

/// Marks the node as up. Before its first vote, decides whether it sits out (rule 16). `has_pushes` when it pushes
/// changes of keys, and `replaced` when the end of the previous connection was not reported, or the node has yet to answer.
fn admit(task: Task<'_>, identity: &Identity, has_pushes: bool, replaced: bool, now: Moment) {
    let shared = task.shared;
    let quorum_seen = shared.quorum_seen.load(Ordering::Acquire);
    let (suspicion, sits_out, barred) = {
        let mut outbox = shared.outbox.lock();
        if !task.pulse.is_current() {
            return;
        }
        shared.has_pushes.store(has_pushes, Ordering::Release);
        shared.refusals.forget();
        let suspicion = outbox.quarantine.admit(identity, quorum_seen, now);
        shared.recognise(identity, suspicion, now);
        let sits_out = outbox.quarantine.sits_out(now);
        shared.is_suspect.store(sits_out.is_some(), Ordering::Release);
        shared.relink(&mut outbox, Link::Up);
        (suspicion, sits_out, outbox.take_barred(&shared.name, now))
    };
    shared.announce();
    if replaced {
        telemetry::connected_again(&shared.name);
    } else {
        telemetry::node_up(&shared.name);
    }
    // Changes that this node could have reported meanwhile were lost: the listeners ask again.
    for (job, reply_to) in shared.watchers.reconnected() {
        let early = shared.outbox.lock().put(&shared.name, job, reply_to, now);
        deliver(early);
    }
    if let (Some(suspicion), Some((_, span))) = (suspicion, sits_out) {
        telemetry::node_sits_out(&shared.name, suspicion.describe(), span);
    }
    let advice = advice(identity);
    let before = std::mem::replace(&mut *shared.advice.lock(), advice.clone());
    // Once, and not at each connection.
    for line in advice.iter().filter(|line| !before.contains(line)) {
        telemetry::node_needs(&shared.name, line);
    }
    for (item, refusal) in barred {
        fail(shared, [item], &refusal);
    }
}

/// Marks the node as down and fails the jobs that wait for it.
fn go_down(task: Task<'_>, error: NodeError) {
    let shared = task.shared;
    let error = NodeError { kind: NodeErrorKind::Down, may_have_run: false, ..error };
    let now = shared.context.clock.now();
    let (waiting, pings) = {
        let mut outbox = shared.outbox.lock();
        if !task.pulse.is_current() {
            return;
        }
        if error.cause == Cause::Replica {
            outbox.quarantine.was_replica();
        }
        shared.relink(&mut outbox, Link::Down(error.clone()));
        outbox.quarantine.went_down();
        (outbox.disconnect(now), std::mem::take(&mut outbox.pings))
    };
    shared.announce();
    for ping in pings {
        // The caller may have gone.
        let _ = ping.send(Err(error.clone()));
    }
    fail(shared, waiting, &error);
    shared.watchers.disconnected();
}

/// Fails jobs that were never sent; deletes stay owed.
fn fail(shared: &Shared, items: impl IntoIterator<Item = Queued>, error: &NodeError) {
    let now = shared.context.clock.now();
    for item in items {
        shared.outbox.lock().owe(item.job, now);
        if let Some(reply_to) = item.reply_to {
            reply_to.deliver(Err(error.clone()));
        }
    }
}

/// Waits. True when there is no client any more, and the clean-up is done or has had its time.
async fn wait_closed(task: Task<'_>, pause: Duration) -> bool {
    let Task { shared, mail, .. } = task;
    let until = shared.context.clock.now() + pause;
    loop {
        let (last, nothing_owed) = {
            let outbox = shared.outbox.lock();
            (outbox.ends_at, outbox.has_no_cleanups())
        };
        let over = |last| nothing_owed || last <= shared.context.clock.now();
        if last.is_some_and(over) {
            return true;
        }
        task.sleeps_until(until);
        tokio::select! {
            biased;
            () = mail.notified() => {}
            () = sleep_until(&*shared.context.clock, until) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;
    use crate::{Redlock, background::Background, node::fingerprint::fnv1a};

    /// The thread of the task before it was suspended in between.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_was_opened_before_a_take_over_says_nothing_of_the_next_one() {
        let redlock = Redlock::in_memory(1);
        drop(redlock.lock("warm").await.unwrap());
        let shared = redlock.client().nodes[0].shared();
        let identity = Identity { run_id: Some("other".into()), ..Identity::default() };
        let known = || (shared.process(), shared.has_pushes.load(Ordering::Acquire));
        let before = known();
        let admitted = (fnv1a(b"other"), !before.1);
        for is_current in [false, true] {
            let (tell, told) = std::sync::mpsc::channel();
            let task = Background::default();
            let lasts = async move { if is_current { pending().await } else { ready(()).await } };
            task.ensure(|pulse| tell.send(pulse).map(|()| lasts).unwrap(), || || ());
            tokio::task::yield_now().await;
            let (mail, pulse) = (Notify::new(), told.recv().unwrap());
            assert_eq!(pulse.is_current(), is_current);
            let task = Task { shared, mail: &mail, pulse: &pulse };
            admit(task, &identity, admitted.1, false, shared.context.clock.now());
            assert_eq!(known(), if is_current { admitted } else { before });
        }
    }
}
