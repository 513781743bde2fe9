//! Keeps one node connected and sees its jobs through (rules 14 and 15).
//!
//! The connection is in one of three states ([`Link`]). Opening: jobs wait for it, each for
//! `node_timeout`. Up: whatever waits goes out in one batch, and several batches may be under
//! way. Down: jobs are answered in no time, and a new connection is tried with backoff.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};

use super::{
    Connection, Identity, Opened, Reply,
    backoff::Backoff,
    debts,
    handle::Shared,
    mailbox::{Item, Link},
    redis,
};
use crate::{
    clock::{Moment, sleep_until},
    error::{NodeError, NodeErrorKind},
    telemetry, token,
};

/// This many timeouts in a row, each a `node_timeout` apart, and the connection is dropped:
/// redis-rs never does so by itself, and a paused server would run the backlog later (rule 15).
const STRIKES: u32 = 3;

/// How many batches may wait for an answer at once; past that, jobs gather in the mailbox.
const MOST_BATCHES: usize = 256;

pub(super) async fn supervise(shared: Arc<Shared>) {
    let mut backoff = Backoff::new();
    let mut announced_down = false;
    loop {
        let ended = match open(&shared).await {
            Ok((connection, identity)) => {
                let since = shared.context.clock.now();
                admit(&shared, &identity, since);
                (backoff, announced_down) = (Backoff::new(), false);
                match serve(&shared, connection, since).await {
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
    let mut connecting = std::pin::pin!(tokio::time::timeout(limit, shared.connector.connect()));
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
                let late = shared.mailbox.lock().take_overdue(oldest.unwrap_or(overdue));
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
        fail(shared, vec![item], &refusal);
    }
}

/// Marks the node as down and fails what waits for it.
fn go_down(shared: &Shared, error: NodeError) {
    let error = NodeError { kind: NodeErrorKind::Down, ..error };
    let (waiting, pings) = {
        let mut mailbox = shared.mailbox.lock();
        if redis::is_replica(&error) {
            mailbox.quarantine.was_replica();
        }
        shared.relink(&mut mailbox, Link::Down(error.clone()));
        mailbox.quarantine.went_down();
        (mailbox.take_overdue(Moment::NEVER), std::mem::take(&mut mailbox.pings))
    };
    for ping in pings {
        // Whoever asked may have gone.
        let _ = ping.send(Err(error.clone()));
    }
    fail(shared, waiting, &error);
}

/// Fails jobs that were never sent; clean-up stays owed.
fn fail(shared: &Shared, items: Vec<Item>, error: &NodeError) {
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
            (mailbox.closed, mailbox.debts.is_empty())
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

/// A batch under way: its items and what came of each.
type Answered = (Vec<Item>, Vec<Result<Reply, NodeError>>);
type Batches = FuturesUnordered<BoxFuture<'static, Answered>>;

/// Serves one connection until it breaks, with the reason, or until nobody needs it.
async fn serve(
    shared: &Arc<Shared>,
    mut connection: Box<dyn Connection>,
    connected: Moment,
) -> Option<NodeError> {
    let mut batches = Batches::new();
    let ended = exchange(shared, &mut *connection, connected, &mut batches).await;
    // What is under way may have run or not. A broken connection answers each batch at once, and
    // the timeout in each bounds what does not.
    while let Some(answered) = batches.next().await {
        settle(shared, answered, connected, &mut Strikes::default());
    }
    ended
}

async fn exchange(
    shared: &Arc<Shared>,
    connection: &mut dyn Connection,
    connected: Moment,
    batches: &mut Batches,
) -> Option<NodeError> {
    let clock = &*shared.context.clock;
    let mut pings: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
    let mut closed = connection.closed();
    let mut strikes = Strikes::default();
    loop {
        let now = clock.now();
        let (items, asked, closing, settled) = {
            let mut mailbox = shared.mailbox.lock();
            let items = if batches.len() < MOST_BATCHES { mailbox.take(now) } else { Vec::new() };
            let asked = std::mem::take(&mut mailbox.pings);
            (items, asked, mailbox.closed, mailbox.is_settled())
        };
        if closing.is_some_and(|until| settled || now >= until) {
            return None;
        }
        if !items.is_empty()
            && let Some(answered) = dispatch(shared, connection, items, batches)
            && let Some(error) = settle(shared, answered, connected, &mut strikes)
        {
            return Some(error);
        }
        for ping in asked {
            pings.push(answer_ping(shared, connection, ping));
        }
        // Asked only now: what could not be sent above is owed at once.
        let next_debt = shared.mailbox.lock().debts.next_due();
        let wake = next_debt.into_iter().chain(closing).min().unwrap_or(Moment::NEVER);
        tokio::select! {
            biased;
            Some(answered) = batches.next() => {
                if let Some(error) = settle(shared, answered, connected, &mut strikes) {
                    return Some(error);
                }
            }
            () = shared.mail.notified(), if batches.len() < MOST_BATCHES => {}
            Some(()) = pings.next() => {}
            error = &mut closed => return Some(error),
            () = sleep_until(clock, wake), if wake != Moment::NEVER => {}
        }
    }
}

/// Puts a batch on the wire. Its first poll happens here, so that batches leave in order; the
/// answer comes back when it is there already.
fn dispatch(
    shared: &Arc<Shared>,
    connection: &mut dyn Connection,
    items: Vec<Item>,
    batches: &mut Batches,
) -> Option<Answered> {
    let now = shared.context.clock.now();
    let limit = shared.context.node_timeout;
    // A job that waited too long for its turn has been given up on: sent now, its SET would be a
    // key without an owner.
    let (items, stale): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|item| now.since(item.queued) < limit || item.ballot.is_none());
    if !stale.is_empty() {
        shared.mailbox.lock().answered(stale.len());
        let reason = format!("not sent within {limit:?}");
        fail(shared, stale, &NodeError::new(&shared.name, NodeErrorKind::Overloaded, reason));
    }
    if items.is_empty() {
        return None;
    }
    let sent = connection.send(items.iter().map(|item| item.job.command(now)).collect());
    let under_way = UnderWay { shared: Arc::clone(shared), items };
    let mut batch = async move {
        let UnderWay { shared, items } = &under_way;
        let results = match tokio::time::timeout(limit, sent).await {
            Ok(results) => results,
            Err(_) => {
                let reason = format!("no answer within {limit:?}");
                vec![Err(NodeError::new(&shared.name, NodeErrorKind::Timeout, reason)); items.len()]
            }
        };
        (under_way.end(), results)
    }
    .boxed();
    match (&mut batch).now_or_never() {
        Some(answered) => Some(answered),
        None => {
            batches.push(batch);
            None
        }
    }
}

/// Jobs that were sent. Dropped without an answer, which is what a runtime does at its end, they
/// leave what they had to clean up to the next one (rules 5 and 13).
struct UnderWay {
    shared: Arc<Shared>,
    items: Vec<Item>,
}

impl UnderWay {
    /// There is an answer.
    fn end(mut self) -> Vec<Item> {
        std::mem::take(&mut self.items)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.items.is_empty() {
            return;
        }
        let now = self.shared.context.clock.now();
        let mut mailbox = self.shared.mailbox.lock();
        mailbox.answered(self.items.len());
        for item in &self.items {
            mailbox.debts.owe(item.job.clone(), now);
        }
    }
}

/// Casts the votes of a batch, notes what is still owed, and says whether the connection is over.
fn settle(
    shared: &Shared,
    (items, results): Answered,
    connected: Moment,
    strikes: &mut Strikes,
) -> Option<NodeError> {
    let now = shared.context.clock.now();
    let mut over = None;
    {
        let mut mailbox = shared.mailbox.lock();
        mailbox.answered(items.len());
        for (item, result) in items.iter().zip(&results) {
            match result {
                Ok(_) => mailbox.debts.repeat(item.job.clone(), connected, now),
                Err(error) if error.kind == NodeErrorKind::Server => {
                    mailbox.debts.owe_until_expiry(item.job.clone(), now + debts::PAUSE);
                }
                Err(_) => mailbox.debts.owe(item.job.clone(), now + debts::PAUSE),
            }
        }
    }
    for (item, result) in items.iter().zip(&results) {
        if let (Some(expected), Ok(reply)) = (&item.job.expected, result)
            && let Some(anomaly) = expected.anomaly(*reply, now)
        {
            telemetry::odd_expiry(&shared.name, &item.job.claim.key, &anomaly);
        }
    }
    for result in &results {
        match result {
            Ok(_) => strikes.clear(),
            Err(error) if error.kind == NodeErrorKind::Disconnected => over = Some(error.clone()),
            // A new connection asks for its role, and is refused until it is a master again.
            Err(error) if redis::is_replica(error) => over = Some(error.clone()),
            Err(error) if error.kind == NodeErrorKind::Timeout => {
                if strikes.add(now, shared.context.node_timeout) {
                    over = Some(error.clone());
                }
            }
            // The node answered, if only with an error.
            Err(_) => strikes.clear(),
        }
    }
    for (item, result) in items.into_iter().zip(results) {
        if let Some(ballot) = item.ballot {
            ballot.cast(result);
        }
    }
    over
}

fn answer_ping(
    shared: &Shared,
    connection: &mut dyn Connection,
    ping: tokio::sync::oneshot::Sender<Result<(), NodeError>>,
) -> BoxFuture<'static, ()> {
    let limit = shared.context.node_timeout;
    let name = Arc::clone(&shared.name);
    let pong = connection.ping();
    async move {
        let answer = tokio::time::timeout(limit, pong).await.unwrap_or_else(|_| {
            let reason = format!("no answer within {limit:?}");
            Err(NodeError::new(&name, NodeErrorKind::Timeout, reason))
        });
        // Whoever asked may have gone.
        let _ = ping.send(answer);
    }
    .boxed()
}

/// Consecutive timeouts. Those of batches sent together are one.
#[derive(Debug, Default)]
struct Strikes {
    count: u32,
    last: Option<Moment>,
}

impl Strikes {
    fn clear(&mut self) {
        *self = Self::default();
    }

    /// Counts a timeout; true when the connection has had its chances.
    fn add(&mut self, now: Moment, apart: Duration) -> bool {
        if self.last.is_none_or(|last| now.since(last) >= apart) {
            self.count += 1;
            self.last = Some(now);
        }
        self.count >= STRIKES
    }
}
