//! Keeps one node connected and sees its jobs through (rules 14 and 15).
//!
//! The connection is in one of three states ([`Link`]). Opening: jobs wait for it, each for
//! `node_timeout`. Up: whatever waits goes out in one batch, and several batches may be in flight.
//! Down: jobs are answered in no time, and a new connection is tried with backoff.

use std::{
    cell::LazyCell,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{
    FutureExt, StreamExt,
    future::{BoxFuture, Fuse, FusedFuture},
    stream::FuturesUnordered,
};
use tokio::{
    sync::Notify,
    time::{Instant, Sleep},
};

use super::{
    Connection, Identity, Opened,
    backoff::Backoff,
    deliver,
    outbox::{Link, Outbox, Queued},
    outcome::conclude,
    pipe::{Answered, CROWD},
    redis,
    shared::Shared,
    strikes::Strikes,
};
use crate::{
    background::Pulse,
    bug::{Bug, planted},
    clock::{Moment, sleep_until},
    error::{NodeError, NodeErrorKind},
    metrics, telemetry, token,
};

pub(super) async fn supervise(shared: Arc<Shared>, mail: Arc<Notify>, pulse: Pulse) {
    begin(&shared);
    let task = Task { shared: &shared, mail: &mail, pulse: &pulse };
    let mut backoff = Backoff::new();
    let mut announced_down = false;
    // The connection before was closed at rest, which is not worth a word if the next one opens.
    let mut closed_at_rest = false;
    loop {
        let opened = open(task).await;
        if !pulse.is_current() {
            return;
        }
        let ended = match opened {
            Ok((connection, identity)) => {
                let since = shared.context.clock.now();
                shared.tells.store(connection.tells(), Ordering::Release);
                // Before callers can send: what the node must not be asked is taken back.
                admit(&shared, &identity, closed_at_rest, since);
                announced_down = false;
                let session = Session::open(task, connection);
                let ended = session.serve().await;
                if !pulse.is_current() {
                    return;
                }
                let Some(Ended { error, answered, at_rest }) = ended else { return };
                // A server that takes connections and breaks them is not asked without a pause.
                let lasted = shared.context.clock.now().since(since) >= Backoff::MAX;
                if answered || lasted {
                    backoff = Backoff::new();
                }
                closed_at_rest = at_rest && (answered || lasted);
                error
            }
            Err(error) => {
                closed_at_rest = false;
                error
            }
        };
        if closed_at_rest {
            telemetry::closed_at_rest(&ended);
        } else if !announced_down {
            telemetry::node_down(&ended);
            announced_down = true;
        }
        go_down(&shared, ended);
        let pause = backoff.pause();
        let jitter = token::up_to(&*shared.context.entropy, Backoff::jitter(pause));
        if wait_closed(task, pause + jitter).await || !pulse.is_current() {
            return;
        }
    }
}

/// What the task before has left: its end may not have got round to it, or it stands still on another
/// runtime and was taken over.
fn begin(shared: &Shared) {
    let now = shared.context.clock.now();
    let unanswered = shared.pipe.lock().abandon_any();
    let mut outbox = shared.outbox.lock();
    outbox.begin_anew(now, &unanswered);
    shared.relink(&mut outbox, Link::Opening);
    drop(outbox);
    shared.announce();
    // Each `ReplyTo` answers as it is dropped, with no lock held.
    drop(unanswered);
}

/// The task that serves a node.
#[derive(Clone, Copy)]
struct Task<'a> {
    shared: &'a Arc<Shared>,
    /// Something was put into the outbox, or sent by its caller.
    mail: &'a Notify,
    pulse: &'a Pulse,
}

impl Task<'_> {
    /// The task will run again at `moment`, unless it is told to before.
    fn sleeps_until(&self, moment: Moment) {
        self.pulse.sleeps_until(moment);
    }
}

/// Opens a connection, while jobs that waited too long for it fail.
async fn open(task: Task<'_>) -> Result<Opened, NodeError> {
    let Task { shared, mail, .. } = task;
    let limit = shared.context.connect_timeout;
    let mut connecting =
        pin!(tokio::time::timeout(limit, shared.connector.connect(&shared.watchers)));
    loop {
        let oldest = shared.outbox.lock().oldest();
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
                let late = shared.outbox.lock().take_overdue(now, shared.context.node_timeout);
                let reason = "still connecting";
                fail(shared, late, &NodeError::new(&shared.name, NodeErrorKind::Down, reason));
            }
            () = mail.notified() => {}
        }
    }
}

/// Marks the node as up, and lets it vote or sit out (rule 16): before its first vote. `replaced` when
/// nothing was told of the connection before.
fn admit(shared: &Shared, identity: &Identity, replaced: bool, now: Moment) {
    shared.recognise(identity);
    let quorum_seen = shared.quorum_seen.load(Ordering::Acquire);
    let (suspicion, barred) = {
        let mut outbox = shared.outbox.lock();
        let suspicion = outbox.quarantine.admit(identity, quorum_seen, now);
        let sits_out = outbox.quarantine.sits_out(now);
        shared.is_suspect.store(sits_out.is_some(), Ordering::Release);
        metrics::node_sits_out(&shared.name, sits_out.map(|(_, left)| left));
        shared.relink(&mut outbox, Link::Up);
        (suspicion, outbox.take_barred(&shared.name, now))
    };
    shared.announce();
    if replaced {
        telemetry::connected_again(&shared.name);
    } else {
        telemetry::node_up(&shared.name);
    }
    // What this node could have told meanwhile was lost: the listeners ask it anew.
    for (job, reply_to) in shared.watchers.reconnected(&shared.name) {
        let early = shared.outbox.lock().put(&shared.name, job, reply_to, now);
        deliver(early);
    }
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
    let error = NodeError { kind: NodeErrorKind::Down, may_have_run: false, ..error };
    let now = shared.context.clock.now();
    let (waiting, pings) = {
        let mut outbox = shared.outbox.lock();
        if redis::is_replica(&error) {
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
        if !planted(Bug::UnsentDeleteForgotten) {
            shared.outbox.lock().add_cleanup(item.job, now);
        }
        if let Some(reply_to) = item.reply_to {
            reply_to.deliver(Err(error.clone()));
        }
    }
}

/// Waits. True when there is no client any more, and nothing is owed or it has had its time.
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

/// One connection, from its opening to its end.
struct Session<'a> {
    task: Task<'a>,
    shared: &'a Arc<Shared>,
    /// Of the pipe's connection.
    number: u64,
    connection: Box<dyn Connection>,
    closed: Fuse<BoxFuture<'static, NodeError>>,
    pings: FuturesUnordered<BoxFuture<'static, bool>>,
    strikes: Strikes,
    /// As many as a crowd went out last time.
    crowded: bool,
    /// The node has answered a command, if only with an error.
    answered: bool,
}

/// How a connection ended.
struct Ended {
    error: NodeError,
    /// The node has answered a command on it.
    answered: bool,
    /// The node closed it when nothing waited or was under way.
    at_rest: bool,
}

/// What a session waits for.
enum Event {
    /// The connection has ended.
    Closed(NodeError),
    Answered(Answered),
    /// Something was put into the outbox, or sent by its caller.
    Mail,
    Ponged {
        timed_out: bool,
    },
    /// The first batch in flight may have run out of time.
    Alarm,
    /// Something is due to be sent again, or the last client has gone.
    Due,
}

impl<'a> Session<'a> {
    fn open(task: Task<'a>, mut connection: Box<dyn Connection>) -> Self {
        let shared = task.shared;
        let number = shared.pipe.lock().connect(connection.sender());
        let closed = connection.closed().fuse();
        Self {
            task,
            shared,
            number,
            connection,
            closed,
            pings: FuturesUnordered::new(),
            strikes: Strikes::default(),
            crowded: false,
            answered: false,
        }
    }

    /// Serves the connection until it breaks, or until it is not needed any more.
    async fn serve(mut self) -> Option<Ended> {
        // One timer for all batches. It is left to ring when what it was set for has been answered:
        // setting and stopping one a batch costs more than the batch.
        let mut alarm = pin!(tokio::time::sleep(Duration::ZERO));
        let ended = loop {
            let Some(mut wake) = self.look() else { break None };
            if wake != Moment::NEVER && wake <= self.shared.context.clock.now() {
                wake = self.send_waiting();
            }
            let event = self.next_event(&mut alarm, wake).await;
            if let Err(error) = self.handle(event).await {
                break Some(Ended {
                    at_rest: error.kind == NodeErrorKind::Disconnected && self.is_at_rest(),
                    answered: self.answered,
                    error,
                });
            }
        };
        self.drain().await;
        ended
    }

    /// Nothing waits for the node or for its answer.
    fn is_at_rest(&self) -> bool {
        self.pings.is_empty() && {
            let outbox = self.shared.outbox.lock();
            outbox.is_quiet() && outbox.pings.is_empty()
        }
    }

    /// Sends the pings that were asked for. Returns when there is something to do next, or None when
    /// the session is over: the last client has gone, and nothing is owed or it has had its time; or
    /// another runtime has taken the node over.
    fn look(&mut self) -> Option<Moment> {
        if !self.task.pulse.is_current() {
            return None;
        }
        let (ends_at, settled, wake, pings) = {
            let mut outbox = self.shared.outbox.lock();
            let pings = std::mem::take(&mut outbox.pings);
            (outbox.ends_at, outbox.is_idle(), self.wake(&outbox), pings)
        };
        for ping in pings {
            let pong = answer_ping(self.shared, &mut *self.connection, ping);
            self.pings.push(pong);
        }
        let is_over =
            ends_at.is_some_and(|until| settled || self.shared.context.clock.now() >= until);
        (!is_over).then_some(wake)
    }

    /// When the outbox has something for the node, or never.
    fn wake(&self, outbox: &Outbox) -> Moment {
        let next = outbox.next(&LazyCell::new(|| self.shared.context.clock.now()));
        next.into_iter().chain(outbox.ends_at).min().unwrap_or(Moment::NEVER)
    }

    /// Sends what waits. Returns when there is something to do next.
    fn send_waiting(&mut self) -> Moment {
        let now = LazyCell::new(|| self.shared.context.clock.now());
        let sent = self.shared.pipe.lock().send_waiting(&self.shared.outbox, &now);
        if sent.largest > 0 {
            self.crowded = sent.largest >= CROWD;
        }
        self.wake(&self.shared.outbox.lock())
    }

    /// Waits for something to do, at `wake` at the latest. Sets the timer for the first batch in
    /// flight, unless it is set already.
    async fn next_event(&mut self, alarm: &mut Pin<&mut Sleep>, wake: Moment) -> Event {
        let clock = &*self.shared.context.clock;
        let number = self.number;
        let (timed, deadline) = {
            let mut pipe = self.shared.pipe.lock();
            let deadline = pipe.deadline(self.shared.context.node_timeout);
            if let Some(deadline) = deadline.filter(|_| !pipe.is_timed) {
                alarm.as_mut().reset(deadline);
                pipe.is_timed = true;
            }
            (pipe.is_timed, deadline)
        };
        let expires = deadline.map(|at| clock.now() + at.saturating_duration_since(Instant::now()));
        self.task.sleeps_until(expires.map_or(wake, |expires| expires.min(wake)));
        tokio::select! {
            biased;
            // First, because it is what brings the answers.
            error = &mut self.closed => Event::Closed(error),
            answered = poll_fn(|cx| self.shared.pipe.lock().poll_first(number, cx)) => {
                Event::Answered(answered)
            }
            () = self.task.mail.notified() => Event::Mail,
            Some(timed_out) = self.pings.next() => Event::Ponged { timed_out },
            () = alarm.as_mut(), if timed => Event::Alarm,
            () = sleep_until(clock, wake), if wake != Moment::NEVER => Event::Due,
        }
    }

    /// Err when the connection is over.
    async fn handle(&mut self, event: Event) -> Result<(), NodeError> {
        match event {
            Event::Closed(error) => return Err(error),
            Event::Answered(answered) => return self.conclude(answered),
            Event::Mail => {
                if self.crowded {
                    // Callers that are about to ask may come along: one write for all of them.
                    tokio::task::yield_now().await;
                }
            }
            Event::Ponged { timed_out: false } => self.strikes.clear(),
            // It is a command like any other (rule 15).
            Event::Ponged { timed_out: true } => {
                let limit = self.shared.context.node_timeout;
                if self.strikes.add(self.shared.context.clock.now(), limit) {
                    let reason = format!("no answer within {limit:?}");
                    return Err(NodeError::new(&self.shared.name, NodeErrorKind::Timeout, reason));
                }
            }
            Event::Alarm => {
                let expired = {
                    let mut pipe = self.shared.pipe.lock();
                    pipe.is_timed = false;
                    pipe.expire(&self.shared.name, self.shared.context.node_timeout)
                };
                if let Some(expired) = expired {
                    return self.conclude(expired);
                }
            }
            Event::Due => {}
        }
        Ok(())
    }

    fn conclude(&mut self, answered: Answered) -> Result<(), NodeError> {
        self.answered |= answered.results.iter().any(|result| match result {
            Ok(_) => true,
            Err(error) => error.kind == NodeErrorKind::Server,
        });
        let spare = conclude(self.shared, answered, &mut self.strikes)?;
        self.shared.pipe.lock().reuse(spare);
        Ok(())
    }

    /// What is in flight may have run or not. A broken connection answers each batch at once, and the
    /// timeout of each bounds what does not.
    async fn drain(&mut self) {
        let number = self.number;
        self.shared.pipe.lock().disconnect(number);
        while let Some(deadline) = {
            let pipe = self.shared.pipe.lock();
            let is_ours = self.task.pulse.is_current() && !pipe.is_empty();
            is_ours.then(|| pipe.deadline(self.shared.context.node_timeout)).flatten()
        } {
            let answered = tokio::select! {
                biased;
                _ = &mut self.closed, if !self.closed.is_terminated() => continue,
                answered = poll_fn(|cx| self.shared.pipe.lock().poll_first(number, cx)) => Some(answered),
                () = tokio::time::sleep_until(deadline) => {
                    self.shared.pipe.lock().expire(&self.shared.name, self.shared.context.node_timeout)
                }
            };
            if let Some(answered) = answered {
                // It is over already.
                let _ = conclude(self.shared, answered, &mut Strikes::default());
            }
        }
    }
}

/// Jobs that are dropped without an answer, which is what a runtime does at its end, leave what
/// they had to clean up to the next one (rules 5 and 13).
impl Drop for Session<'_> {
    fn drop(&mut self) {
        let now = self.shared.context.clock.now();
        let (deletes, unanswered) = {
            let mut pipe = self.shared.pipe.lock();
            let is_ours = pipe.is_connection(self.number);
            let mut outbox = self.shared.outbox.lock();
            let deletes = if is_ours { outbox.take_deletes(now) } else { Vec::new() };
            // Guards may have been dropped as the last act of `main`: no other task comes after this.
            pipe.send_last(deletes.iter().map(|item| item.job.command(now)).collect());
            let unanswered = pipe.abandon(self.number);
            outbox.abandon(&unanswered, now);
            (deletes, unanswered)
        };
        // Each `ReplyTo` answers as it is dropped, with no lock held.
        drop((deletes, unanswered));
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
        // The caller may have gone.
        let _ = ping.send(answer);
        timed_out
    }
    .boxed()
}
