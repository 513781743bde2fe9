//! Keeps one node connected and sees its jobs through (rules 14 and 15).
//!
//! The connection is in one of three states ([`Link`]). Opening: jobs wait for it, each for
//! `node_timeout`. Up: whatever waits goes out in one batch, and several batches may be under
//! way. Down: jobs are answered in no time, and a new connection is tried with backoff.

use std::{
    cell::LazyCell,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{
    FutureExt, StreamExt,
    future::{BoxFuture, Fuse, FusedFuture},
    stream::FuturesUnordered,
};

use super::{
    Connection, Identity, Opened,
    backoff::Backoff,
    handle::Shared,
    mailbox::{Item, Link},
    outcome::conclude,
    redis,
    strikes::Strikes,
    under_way::UnderWay,
};
use crate::{
    clock::{Moment, sleep_until},
    error::{NodeError, NodeErrorKind},
    telemetry, token,
};

/// Where so many jobs go out at once, more are about to come.
const CROWD: usize = 4;

pub(super) async fn supervise(shared: Arc<Shared>) {
    // The end of the task before may not have got round to it.
    shared.relink(&mut shared.mailbox.lock(), Link::Opening);
    let mut backoff = Backoff::new();
    let mut announced_down = false;
    loop {
        let ended = match open(&shared).await {
            Ok((connection, identity)) => {
                let since = shared.context.clock.now();
                admit(&shared, &identity, since);
                announced_down = false;
                let ended = serve(&shared, connection, since).await;
                // A server that takes connections and breaks them is not asked without a pause.
                if shared.context.clock.now().since(since) >= Backoff::LONGEST {
                    backoff = Backoff::new();
                }
                match ended {
                    Some(error) => error,
                    None => return,
                }
            }
            Err(error) => error,
        };
        if !announced_down {
            telemetry::node_down(&ended);
            announced_down = true;
        }
        go_down(&shared, ended);
        let pause = backoff.pause();
        let jitter = token::up_to(&*shared.context.entropy, Backoff::jitter(pause));
        if wait_closed(&shared, pause + jitter).await {
            return;
        }
    }
}

/// Opens a connection, while jobs that waited too long for it fail.
async fn open(shared: &Shared) -> Result<Opened, NodeError> {
    let limit = shared.context.connect_timeout;
    let mut connecting =
        std::pin::pin!(tokio::time::timeout(limit, shared.connector.connect(&shared.watchers)));
    loop {
        let oldest = shared.mailbox.lock().oldest();
        let overdue = oldest.map_or(Moment::NEVER, |oldest| oldest + shared.context.node_timeout);
        tokio::select! {
            biased;
            connected = &mut connecting => return connected.unwrap_or_else(|_| {
                let reason = format!("no connection within {limit:?}");
                Err(NodeError::new(&shared.name, NodeErrorKind::Down, reason))
            }),
            () = sleep_until(&*shared.context.clock, overdue), if overdue != Moment::NEVER => {
                let now = shared.context.clock.now();
                let late = shared.mailbox.lock().take_overdue(now, shared.context.node_timeout);
                let reason = "still connecting";
                fail(shared, late, &NodeError::new(&shared.name, NodeErrorKind::Down, reason));
            }
            () = shared.mail.notified() => {}
        }
    }
}

/// Marks the node as up, and lets it vote or sit out (rule 16): before its first vote.
fn admit(shared: &Shared, identity: &Identity, now: Moment) {
    shared.recognise(identity);
    let in_service = shared.in_service.load(Ordering::Acquire);
    let (suspicion, barred) = {
        let mut mailbox = shared.mailbox.lock();
        let suspicion = mailbox.quarantine.admit(identity, in_service, now);
        shared.relink(&mut mailbox, Link::Up);
        (suspicion, mailbox.take_barred(&shared.name, now))
    };
    telemetry::node_up(&shared.name);
    // What this node could have told meanwhile, it told nobody.
    shared.watchers.all_changed();
    if let Some(suspicion) = suspicion {
        telemetry::node_sits_out(&shared.name, suspicion.describe(), shared.context.sits_out);
    }
    if identity.run_id.is_none() {
        telemetry::node_without_name(&shared.name);
    }
    if let Some(policy) = &identity.evicts {
        telemetry::node_evicts(&shared.name, policy);
    }
    for (item, refusal) in barred {
        fail(shared, [item], &refusal);
    }
}

/// Marks the node as down and fails what waits for it.
fn go_down(shared: &Shared, error: NodeError) {
    let error = NodeError::new(&error.node, NodeErrorKind::Down, error.reason);
    let (waiting, pings) = {
        let mut mailbox = shared.mailbox.lock();
        if redis::is_replica(&error) {
            mailbox.quarantine.was_replica();
        }
        shared.relink(&mut mailbox, Link::Down(error.clone()));
        mailbox.quarantine.went_down();
        (mailbox.take_all(), std::mem::take(&mut mailbox.pings))
    };
    for ping in pings {
        // Whoever asked may have gone.
        let _ = ping.send(Err(error.clone()));
    }
    fail(shared, waiting, &error);
}

/// Fails jobs that were never sent; clean-up stays owed.
fn fail(shared: &Shared, items: impl IntoIterator<Item = Item>, error: &NodeError) {
    let now = shared.context.clock.now();
    for item in items {
        shared.mailbox.lock().debts.owe(item.job, now);
        if let Some(ballot) = item.ballot {
            ballot.cast(Err(error.clone()));
        }
    }
}

/// Waits. True when there is no client any more, and nothing is owed or it has had its time.
async fn wait_closed(shared: &Shared, pause: Duration) -> bool {
    let until = shared.context.clock.now() + pause;
    loop {
        let (last, nothing_owed) = {
            let mailbox = shared.mailbox.lock();
            (mailbox.ends_at, mailbox.debts.is_empty())
        };
        let over = |last| nothing_owed || last <= shared.context.clock.now();
        if last.is_some_and(over) {
            return true;
        }
        tokio::select! {
            biased;
            () = shared.mail.notified() => {}
            () = sleep_until(&*shared.context.clock, until) => return false,
        }
    }
}

/// Serves one connection until it breaks, with the reason, or until nobody needs it.
async fn serve(
    shared: &Arc<Shared>,
    mut connection: Box<dyn Connection>,
    connected: Moment,
) -> Option<NodeError> {
    let mut under_way = UnderWay::new(shared);
    let mut closed = connection.closed().fuse();
    let ended = exchange(shared, &mut *connection, connected, &mut under_way, &mut closed).await;
    // What is under way may have run or not. A broken connection answers each batch at once, and
    // the timeout of each bounds what does not.
    while let Some(deadline) = under_way.deadline() {
        let answered = tokio::select! {
            biased;
            _ = &mut closed, if !closed.is_terminated() => continue,
            answered = under_way.next() => answered,
            () = tokio::time::sleep_until(deadline) => under_way.expire(),
        };
        if let Some(answered) = answered {
            // It is over already.
            let _ = conclude(shared, answered, connected, &mut Strikes::default());
        }
    }
    ended
}

async fn exchange(
    shared: &Arc<Shared>,
    connection: &mut dyn Connection,
    connected: Moment,
    under_way: &mut UnderWay,
    closed: &mut Fuse<BoxFuture<'static, NodeError>>,
) -> Option<NodeError> {
    let clock = &*shared.context.clock;
    let mut pings: FuturesUnordered<BoxFuture<'static, bool>> = FuturesUnordered::new();
    let mut strikes = Strikes::default();
    // One timer for all batches. It is left to ring when what it was set for has been answered:
    // setting and stopping one a batch costs more than the batch.
    let mut alarm = pin!(tokio::time::sleep(Duration::ZERO));
    let mut alarmed = false;
    let mut spare = Vec::new();
    // As many as a crowd went out last time.
    let mut crowded = false;
    loop {
        // Not looked at when nothing is due.
        let now = LazyCell::new(|| clock.now());
        let (items, asked, closing, settled) = {
            let mut mailbox = shared.mailbox.lock();
            let items = mailbox.take(&now, std::mem::take(&mut spare));
            let asked = std::mem::take(&mut mailbox.pings);
            (items, asked, mailbox.ends_at, mailbox.is_idle())
        };
        if closing.is_some_and(|until| settled || *now >= until) {
            return None;
        }
        if items.is_empty() {
            spare = items;
        } else {
            crowded = items.len() >= CROWD;
            dispatch(shared, connection, items, *now, under_way);
        }
        for ping in asked {
            pings.push(answer_ping(shared, connection, ping));
        }
        if let Some(deadline) = under_way.deadline().filter(|_| !alarmed) {
            alarm.as_mut().reset(deadline);
            alarmed = true;
        }
        // Asked only now: what could not be sent above is owed at once, or waits.
        let next = shared.mailbox.lock().next(&now);
        let wake = next.into_iter().chain(closing).min().unwrap_or(Moment::NEVER);
        let answered = tokio::select! {
            biased;
            // First, because it is what brings the answers.
            error = &mut *closed => return Some(error),
            answered = under_way.next() => answered,
            () = shared.mail.notified() => {
                if crowded {
                    // Whoever else is about to ask may come along: one write for all of them.
                    tokio::task::yield_now().await;
                }
                None
            }
            Some(timed_out) = pings.next() => {
                // It is a command like any other (rule 15).
                if !timed_out {
                    strikes.clear();
                } else if strikes.add(clock.now(), shared.context.node_timeout) {
                    let reason = format!("no answer within {:?}", shared.context.node_timeout);
                    return Some(NodeError::new(&shared.name, NodeErrorKind::Timeout, reason));
                }
                None
            }
            () = &mut alarm, if alarmed => {
                alarmed = false;
                under_way.expire()
            }
            () = sleep_until(clock, wake), if wake != Moment::NEVER => None,
        };
        if let Some(answered) = answered {
            match conclude(shared, answered, connected, &mut strikes) {
                Ok(emptied) => spare = emptied,
                Err(error) => return Some(error),
            }
        }
    }
}

/// Puts a batch on the wire, which was taken at `now`.
fn dispatch(
    shared: &Arc<Shared>,
    connection: &mut dyn Connection,
    mut items: Vec<Item>,
    now: Moment,
    under_way: &mut UnderWay,
) {
    let limit = shared.context.node_timeout;
    // A job that waited too long for its turn has been given up on: sent now, its SET would be a
    // key without an owner.
    let is_stale = |item: &Item| now.since(item.queued) >= limit && item.ballot.is_some();
    if items.iter().any(is_stale) {
        let (stale, fresh): (Vec<_>, Vec<_>) = items.into_iter().partition(is_stale);
        items = fresh;
        shared.mailbox.lock().answered(stale.len());
        let reason = format!("not sent within {limit:?}");
        fail(shared, stale, &NodeError::new(&shared.name, NodeErrorKind::Overloaded, reason));
    }
    if !items.is_empty() {
        let answers = connection.send(items.iter().map(|item| item.job.command(now)).collect());
        under_way.push(items, answers);
    }
}

/// Whether its time ran out.
fn answer_ping(
    shared: &Shared,
    connection: &mut dyn Connection,
    ping: tokio::sync::oneshot::Sender<Result<(), NodeError>>,
) -> BoxFuture<'static, bool> {
    let limit = shared.context.node_timeout;
    let name = Arc::clone(&shared.name);
    let pong = connection.ping();
    async move {
        let answered = tokio::time::timeout(limit, pong).await;
        let timed_out = answered.is_err();
        let answer = answered.unwrap_or_else(|_| {
            let reason = format!("no answer within {limit:?}");
            Err(NodeError::new(&name, NodeErrorKind::Timeout, reason))
        });
        // Whoever asked may have gone.
        let _ = ping.send(answer);
        timed_out
    }
    .boxed()
}
