//! One connection to a node, from its opening to its end. It sends the waiting commands and
//! processes the answers (rules 5 and 15).

use std::{
    cell::LazyCell,
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use futures_util::{
    FutureExt, StreamExt,
    future::{BoxFuture, FusedFuture},
    stream::FuturesUnordered,
};
use tokio::{
    sync::futures::Notified,
    time::{Instant, Sleep},
};

use super::{
    Connection, Remaining, gathering,
    outbox::Outbox,
    outcome::conclude,
    pipe::{Answered, CROWD, CROWD_LASTS, OpenConnection},
    shared::Shared,
    strikes::Strikes,
    task::Task,
};
use crate::{
    clock::{Moment, sleep_until},
    error::{NodeError, NodeErrorKind},
    telemetry,
};

/// Commands wait for the answers of nodes that are this near.
const NEAR: Duration = Duration::from_micros(500);

/// One connection, from its opening to its end.
pub(super) struct Session<'a> {
    task: Task<'a>,
    shared: &'a Arc<Shared>,
    /// The number of the pipe's connection.
    number: u64,
    open: OpenConnection,
    pings: FuturesUnordered<BoxFuture<'static, Pong>>,
    strikes: Strikes,
    /// The node has answered a command, if only with an error.
    answered: bool,
    /// The connection before this one answered nothing: the first answer is reported.
    was_silent: bool,
    /// How often other tasks run at most before the commands of a crowd are sent.
    max_yields: usize,
}

/// How a connection ended.
pub(super) struct Ended {
    pub(super) error: NodeError,
    /// The node has answered a command on it.
    pub(super) answered: bool,
    /// The node closed it while nothing waited or was in flight.
    pub(super) at_rest: bool,
}

/// The end of a ping.
enum Pong {
    /// If only with an error.
    Answered,
    /// No answer: the connection has ended, which is an event of its own, or a member of a cluster is away.
    Failed,
    TimedOut,
}

/// The events that a session waits for.
enum Event {
    /// The connection has ended.
    Closed(NodeError),
    Answered(Answered),
    /// Something was put into the outbox, or sent by its caller.
    Mail,
    Ponged(Pong),
    /// The first batch in flight may have run out of time.
    Alarm,
    /// Something is due to be sent again, or the last client has gone.
    Due,
}

impl<'a> Session<'a> {
    /// `None` when the task was taken over. The connection before this one `was_silent` if it answered nothing.
    pub(super) fn open(
        task: Task<'a>,
        mut connection: Box<dyn Connection>,
        was_silent: bool,
    ) -> Option<Self> {
        let shared = task.shared;
        let number = {
            let mut pipe = shared.pipe.lock();
            task.pulse.is_current().then(|| pipe.connect(connection.sender()))?
        };
        let closed = connection.closed().fuse();
        Some(Self {
            task,
            shared,
            number,
            open: OpenConnection { connection: Some(connection), closed },
            pings: FuturesUnordered::new(),
            strikes: Strikes::default(),
            answered: false,
            was_silent,
            max_yields: gathering::max_yields(),
        })
    }

    /// Serves the connection until it breaks, or until it is not needed any more.
    pub(super) async fn serve(mut self) -> Option<Ended> {
        // One timer for all batches. It is left to ring when the batch that it was set for has been
        // answered: a timer set and stopped for each batch costs more than the batch.
        let mut alarm = pin!(tokio::time::sleep(Duration::ZERO));
        // One wait for mail, as well. A wait for each event would enter and leave the list of the `Notify`
        // each time.
        let mut mail = pin!(self.task.mail.notified());
        let ended = loop {
            let Some(mut wake) = self.look() else { break None };
            if wake != Moment::NEVER && wake <= self.shared.context.clock.now() {
                wake = self.gathers_until().unwrap_or_else(|| self.send_waiting());
            }
            let event = self.next_event(&mut alarm, &mut mail, wake).await;
            if let Event::Mail = event {
                mail.set(self.task.mail.notified());
            }
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

    /// Whether nothing waits for the node or for its answer.
    fn is_at_rest(&self) -> bool {
        self.pings.is_empty() && {
            let outbox = self.shared.outbox.lock();
            outbox.lanes.is_quiet() && outbox.pings.is_empty()
        }
    }

    /// Sends the pings that were asked for. Returns when there is something to do next. `None` when
    /// the session is over: another runtime has taken the node over, or the last client has gone
    /// and the time for clean-up has ended.
    fn look(&mut self) -> Option<Moment> {
        if !self.task.pulse.is_current() {
            return None;
        }
        let (ends_at, settled, wake, pings) = {
            let mut outbox = self.shared.outbox.lock();
            let pings = std::mem::take(&mut outbox.pings);
            (outbox.ends_at, outbox.is_idle(), self.wake(&outbox), pings)
        };
        if let Some(connection) = &mut self.open.connection {
            let pongs =
                pings.into_iter().map(|ping| answer_ping(self.shared, &mut **connection, ping));
            self.pings.extend(pongs);
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

    /// Until when the waiting commands of a crowd wait for more. `None` when they leave now.
    ///
    /// The answers to the batches in flight wake callers that are about to ask again, and all of them
    /// cost one write. A node that is far away answers too late for that. Renewals and deletes do not
    /// wait: the next client may have been given the turn already.
    fn gathers_until(&self) -> Option<Moment> {
        if self.shared.round_trip.get() > NEAR {
            return None;
        }
        let now = LazyCell::new(|| self.shared.context.clock.now());
        let mut pipe = self.shared.pipe.lock();
        if pipe.is_empty() || !pipe.is_crowded(&now) {
            return None;
        }
        let outbox = self.shared.outbox.lock();
        let until = outbox.lanes.oldest().filter(|_| outbox.lanes.may_gather())? + CROWD_LASTS;
        (until > *now).then_some(until)
    }

    /// Sends the waiting commands. Returns when there is something to do next.
    fn send_waiting(&mut self) -> Moment {
        let now = LazyCell::new(|| self.shared.context.clock.now());
        self.shared.pipe.lock().send_waiting(&self.shared.outbox, &now);
        self.wake(&self.shared.outbox.lock())
    }

    /// Waits for something to do, at `wake` at the latest. Sets the timer for the first batch in
    /// flight, unless it is set already.
    async fn next_event(
        &mut self,
        alarm: &mut Pin<&mut Sleep>,
        mail: &mut Pin<&mut Notified<'_>>,
        wake: Moment,
    ) -> Event {
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
            // Polled first, because it carries the answers.
            error = &mut self.open.closed => Event::Closed(error),
            answered = poll_fn(|cx| self.shared.pipe.lock().poll_first(number, cx)) => {
                Event::Answered(answered)
            }
            () = mail.as_mut() => Event::Mail,
            Some(pong) = self.pings.next(), if !self.pings.is_empty() => Event::Ponged(pong),
            () = alarm.as_mut(), if timed => Event::Alarm,
            () = sleep_until(clock, wake), if wake != Moment::NEVER => Event::Due,
        }
    }

    /// Err when the connection is over.
    async fn handle(&mut self, event: Event) -> Result<(), NodeError> {
        match event {
            Event::Closed(error) => return Err(error),
            Event::Answered(answered) => {
                self.conclude(answered)?;
                self.let_a_crowd_ask().await;
            }
            Event::Mail => self.let_a_crowd_ask().await,
            Event::Ponged(Pong::Answered) => {
                self.strikes.clear();
                self.note_answered();
            }
            Event::Ponged(Pong::Failed) => {}
            // A ping is a command like any other (rule 15).
            Event::Ponged(Pong::TimedOut) => {
                let limit = self.shared.context.node_timeout;
                if self.strikes.add(self.shared.context.clock.now(), limit) {
                    return Err(NodeError::no_answer(&self.shared.name, limit));
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

    /// Lets other tasks run after a crowd. Callers that are about to ask may join: one write for all
    /// of them. A delete waits until they stop joining, and a renewal until the other tasks have run once.
    async fn let_a_crowd_ask(&mut self) {
        let now = LazyCell::new(|| self.shared.context.clock.now());
        let is_crowded = self.shared.pipe.lock().is_crowded(&now);
        if is_crowded {
            // It stands still for other tasks, which may take long.
            self.task.sleeps_until(self.shared.context.clock.now());
            gathering::gather(self.max_yields, || self.shared.outbox.lock().lanes.gathered()).await;
        }
    }

    fn note_answered(&mut self) {
        self.answered = true;
        if std::mem::take(&mut self.was_silent) {
            telemetry::node_up(&self.shared.name);
        }
    }

    fn conclude(&mut self, answered: Answered) -> Result<(), NodeError> {
        if answered.results.iter().any(is_answer) {
            self.note_answered();
        }
        if answered.items.len() >= CROWD {
            // Before the answers wake the callers.
            self.shared.pipe.lock().note_crowd(self.shared.context.clock.now());
        }
        let spare = conclude(self.shared, answered, &mut self.strikes)?;
        self.shared.pipe.lock().reuse(spare);
        Ok(())
    }

    /// Waits for the commands in flight, which may have run or not. A broken connection answers
    /// each batch at once, and the time limit of each batch bounds the others.
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
                _ = &mut self.open.closed, if !self.open.closed.is_terminated() => continue,
                answered = poll_fn(|cx| self.shared.pipe.lock().poll_first(number, cx)) => Some(answered),
                () = tokio::time::sleep_until(deadline) => {
                    self.shared.pipe.lock().expire(&self.shared.name, self.shared.context.node_timeout)
                }
            };
            if let Some(answered) = answered {
                // The connection has ended already.
                let _ = conclude(self.shared, answered, &mut Strikes::default());
            }
        }
    }
}

/// A runtime that ends drops its jobs without an answer. The next runtime does the clean-up that
/// they leave (rules 5 and 13).
impl Drop for Session<'_> {
    fn drop(&mut self) {
        let now = self.shared.context.clock.now();
        let over = {
            let mut pipe = self.shared.pipe.lock();
            // A connection that was given up sends nothing any more: the deletes wait for the end of it,
            // which fails them with its reason.
            let open = pipe.part(self.number, self.open.take());
            let mut outbox = self.shared.outbox.lock();
            // Guards may have been dropped as the last act of `main`: no other task runs after
            // this.
            let deletes = pipe.send_last(&mut outbox, now);
            let unanswered = pipe.abandon(self.number);
            outbox.abandon(&unanswered, now);
            (open, deletes, unanswered)
        };
        // Each `ReplyTo` answers as it is dropped, with no lock held.
        drop(over);
        // The process may end next, and with it the connection.
        self.shared.carry_last(Remaining::Nothing);
    }
}

/// Whether the node has answered, if only with an error.
fn is_answer<T>(result: &Result<T, NodeError>) -> bool {
    match result {
        Ok(_) => true,
        Err(error) => error.kind == NodeErrorKind::Server,
    }
}

/// Asks the node for a sign of life and tells the asker.
fn answer_ping(
    shared: &Shared,
    connection: &mut dyn Connection,
    ping: tokio::sync::oneshot::Sender<Result<(), NodeError>>,
) -> BoxFuture<'static, Pong> {
    let limit = shared.context.node_timeout;
    let name = Arc::clone(&shared.name);
    let pong = connection.ping();
    async move {
        let answered = tokio::time::timeout(limit, pong).await;
        let outcome = match &answered {
            Ok(pong) if is_answer(pong) => Pong::Answered,
            Ok(_) => Pong::Failed,
            Err(_) => Pong::TimedOut,
        };
        let answer = answered.unwrap_or_else(|_| Err(NodeError::no_answer(&name, limit)));
        // The caller may have gone.
        let _ = ping.send(answer);
        outcome
    }
    .boxed()
}
