//! The way to one node: batches from the outbox go onto the connection here, and are kept until
//! they are answered.
//!
//! Callers and the supervisor both send. The pipe's lock is held from taking a batch out of the
//! outbox until it is on the wire, so that batches leave in the order in which they were taken. A
//! caller that finds the node idle sends at once: its command does not wait for a task to be
//! scheduled, and a guard that is dropped as the last act of `main` still deletes its key.
//!
//! A node answers in order, and the time limit is the same for all batches. So it is enough to look
//! at the first batch: its limit runs out first (rule 15).

use std::{
    collections::VecDeque,
    ops::Deref,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Fuse},
};
use tokio::time::Instant;

use super::{Connection, Remaining, Reply, Sender, outbox::Outbox, queued::Queued};
use crate::{clock::Moment, error::NodeError, sync::Mutex};

/// A batch, and the result of each of its items.
pub(super) struct Answered {
    pub(super) items: Vec<Queued>,
    pub(super) results: Vec<Result<Reply, NodeError>>,
    /// When it was sent.
    pub(super) sent: Instant,
    /// Whether the node answered, as opposed to its time running out.
    pub(super) in_time: bool,
}

#[derive(Default)]
pub(super) struct Pipe {
    /// The number of the connection. A task that was taken over must not touch the connection of
    /// the next task.
    number: u64,
    /// Puts commands onto the connection; `None` without one.
    sender: Option<Arc<dyn Sender>>,
    /// The connection whose task was dropped with its runtime.
    parting: Option<Parting>,
    batches: VecDeque<Batch>,
    /// The supervisor wakes up in time to see the first batch expire.
    pub(super) is_timed: bool,
    /// Room for the next batch.
    spare: Vec<Queued>,
    /// When the last crowd left, or had its answers. `None` once that is long ago.
    crowd_at: Option<Moment>,
}

/// If this many jobs leave at once, more jobs are about to come.
pub(super) const CROWD: usize = 4;

/// For this long after a crowd was sent or answered, callers do not send their jobs themselves: together the
/// jobs cost one write. No job waits longer than this for others, apart from the time that `gathering`
/// gives to other tasks.
pub(super) const CROWD_LASTS: Duration = Duration::from_millis(1);

/// A connection, and what resolves at its end.
pub(super) struct OpenConnection {
    pub(super) connection: Option<Box<dyn Connection>>,
    pub(super) closed: Fuse<BoxFuture<'static, NodeError>>,
}

impl OpenConnection {
    pub(super) fn take(&mut self) -> Self {
        let closed = std::mem::replace(&mut self.closed, Fuse::terminated());
        Self { connection: self.connection.take(), closed }
    }
}

/// A connection that outlives its task. Tasks that end with their runtime are dropped one after the other: a guard
/// in a later one still deletes its key.
pub(super) struct Parting {
    sender: Arc<dyn Sender>,
    /// When the time for the last answers is over; unset before they are waited for.
    answers_by: Option<std::time::Instant>,
    /// Its node has let the time for the last bytes pass.
    is_given_up: bool,
    /// Dropping it closes the connection.
    _open: OpenConnection,
}

struct Batch {
    items: Vec<Queued>,
    answers: BatchReplies,
    sent: Instant,
}

enum BatchReplies {
    Awaited(BoxFuture<'static, Vec<Result<Reply, NodeError>>>),
    /// These commands were queued while earlier commands were awaited.
    There(Vec<Result<Reply, NodeError>>),
}

/// The outcome of an attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent {
    /// How many commands left in the largest batch.
    pub(super) largest: usize,
    /// The supervisor has to look. Otherwise it would not hear of the answers, or of their absence.
    pub(super) tell_supervisor: bool,
}

impl Pipe {
    /// The number of the connection.
    pub(super) fn connect(&mut self, sender: Arc<dyn Sender>) -> u64 {
        self.sender = Some(sender);
        self.is_timed = false;
        self.number += 1;
        self.number
    }

    /// Sends nothing any more. Commands that were sent may still be answered.
    pub(super) fn disconnect(&mut self, number: u64) {
        if self.number == number {
            self.sender = None;
        }
    }

    /// Sends the waiting jobs, batch by batch, as far as there is room.
    pub(super) fn send_waiting(
        &mut self,
        outbox: &Mutex<Outbox>,
        now: &impl Deref<Target = Moment>,
    ) -> Sent {
        let mut sent = Sent { largest: 0, tell_supervisor: false };
        let Some(sender) = &self.sender else { return sent };
        let mut more = true;
        while more {
            let items;
            (items, more) = outbox.lock().take(now, std::mem::take(&mut self.spare));
            if items.is_empty() {
                self.spare = items;
                break;
            }
            sent.largest = sent.largest.max(items.len());
            let now = **now;
            if items.len() >= CROWD {
                self.crowd_at = Some(now);
            }
            sent.tell_supervisor |= !self.is_timed || !sender.wakes_reader();
            let mut answers = sender.send(items.iter().map(|item| item.job.command(now)).collect());
            // The first poll sends, so that batches leave in order.
            let answers = match (&mut answers).now_or_never() {
                Some(there) => {
                    sent.tell_supervisor = true;
                    BatchReplies::There(there)
                }
                None => BatchReplies::Awaited(answers),
            };
            self.batches.push_back(Batch { items, answers, sent: Instant::now() });
        }
        sent
    }

    /// Keeps the connection of a task that its runtime drops, if commands are sent over it. Returns it otherwise: it
    /// is closed with no lock held.
    pub(super) fn part(&mut self, number: u64, open: OpenConnection) -> Option<OpenConnection> {
        if self.number == number
            && let Some(sender) = self.sender.take()
        {
            self.parting =
                Some(Parting { sender, answers_by: None, is_given_up: false, _open: open });
            return None;
        }
        Some(open)
    }

    /// Sends the deletes that wait, if the task of this connection was dropped with its runtime. No task will hear
    /// the answers: the next one sends them again. Returns them: each `ReplyTo` answers as it is dropped.
    pub(super) fn send_last(&self, outbox: &mut Outbox, now: Moment) -> Vec<Queued> {
        let Some(Parting { sender, .. }) = &self.parting else { return Vec::new() };
        let deletes = outbox.take_deletes(now);
        sender.send_last(deletes.iter().map(|item| item.job.command(now)).collect());
        deletes
    }

    /// The sender of the connection of a task that was dropped with its runtime, and until when to wait there. The wait
    /// is over earlier when no more than `rest` is left to do.
    pub(super) fn parting(
        &mut self,
        rest: Remaining,
        limit: Duration,
    ) -> Option<(Arc<dyn Sender>, std::time::Instant)> {
        let parting = self.parting.as_mut()?;
        let now = std::time::Instant::now();
        let until = match rest {
            _ if parting.is_given_up => now,
            Remaining::Nothing => *parting.answers_by.get_or_insert(now + limit),
            Remaining::Answers | Remaining::Commands => now + limit,
        };
        Some((Arc::clone(&parting.sender), until))
    }

    /// Waits no more for what is left to do on that connection.
    pub(super) fn give_up(&mut self, parting: &Arc<dyn Sender>) {
        if let Some(it) = self.parting.as_mut().filter(|it| Arc::ptr_eq(&it.sender, parting)) {
            it.is_given_up = true;
        }
    }

    /// The connection of a task that has ended, for the next task to close.
    pub(super) fn take_parting(&mut self) -> Option<Parting> {
        self.parting.take()
    }

    /// Many callers ask, or are about to.
    pub(super) fn note_crowd(&mut self, now: Moment) {
        self.crowd_at = Some(now);
    }

    /// Whether many callers have just asked or had their answers, and are about to ask again.
    pub(super) fn is_crowded(&mut self, now: &impl Deref<Target = Moment>) -> bool {
        let is_crowded = self.crowd_at.is_some_and(|at| now.since(at) < CROWD_LASTS);
        if !is_crowded {
            // The clock is not read again.
            self.crowd_at = None;
        }
        is_crowded
    }

    /// By when the first batch must be answered.
    pub(super) fn deadline(&self, node_timeout: Duration) -> Option<Instant> {
        let first = self.batches.front()?;
        first.sent.checked_add(node_timeout)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// The answers of the first batch, once they are there.
    pub(super) fn poll_first(&mut self, number: u64, cx: &mut Context<'_>) -> Poll<Answered> {
        if self.number != number {
            return Poll::Pending;
        }
        let results = match self.batches.front_mut().map(|batch| &mut batch.answers) {
            Some(BatchReplies::Awaited(answers)) => std::task::ready!(answers.as_mut().poll(cx)),
            Some(BatchReplies::There(answers)) => std::mem::take(answers),
            None => return Poll::Pending,
        };
        match self.batches.pop_front() {
            Some(batch) => Poll::Ready(batch.answered(results, true)),
            None => Poll::Pending,
        }
    }

    /// Gives the first batch up, if its time has run out.
    pub(super) fn expire(&mut self, name: &Arc<str>, node_timeout: Duration) -> Option<Answered> {
        self.deadline(node_timeout).filter(|deadline| *deadline <= Instant::now())?;
        let batch = self.batches.pop_front()?;
        let error = NodeError::no_answer(name, node_timeout);
        let results = vec![Err(error); batch.items.len()];
        Some(batch.answered(results, false))
    }

    /// Keeps the vector of a batch that is done, for the next batch.
    pub(super) fn reuse(&mut self, spare: Vec<Queued>) {
        if spare.capacity() > self.spare.capacity() {
            self.spare = spare;
        }
    }

    /// Everything that was sent and has no answer. A runtime that ends leaves it behind.
    pub(super) fn abandon(&mut self, number: u64) -> Vec<Queued> {
        if self.number != number {
            return Vec::new();
        }
        self.abandon_any()
    }

    /// The sender of the present connection, if there is one, for the next task to close.
    pub(super) fn take_sender(&mut self) -> Option<Arc<dyn Sender>> {
        self.sender.take()
    }

    /// Everything that was sent over any connection and has no answer.
    pub(super) fn abandon_any(&mut self) -> Vec<Queued> {
        self.sender = None;
        std::mem::take(&mut self.batches).into_iter().flat_map(|batch| batch.items).collect()
    }
}

impl Batch {
    fn answered(self, results: Vec<Result<Reply, NodeError>>, in_time: bool) -> Answered {
        Answered { items: self.items, results, sent: self.sent, in_time }
    }
}
