//! Turns beside that of the front: for a request that asks without waiting for others, for a reader while another one
//! has the lock, and for a task that is given a permit.

use std::{
    collections::hash_map::Entry::{Occupied, Vacant},
    sync::Arc,
};

use super::{Joined, Queue, Queues};
use crate::{
    clock::Moment,
    wait::{
        failed_attempt::FailedAttempt,
        queued_task::QueuedTask,
        readers::{lock_of, queue_of_one},
        turn::{Front, PendingTurn, Standing},
        wants::{NoTurn, Wants},
    },
};

impl Queues {
    /// The turn of a request that asks without waiting for others, in a queue of its own. `None` when no turns are
    /// given any more.
    pub(crate) fn alone(self: &Arc<Self>, own: &Arc<str>, now: Moment) -> Option<Front> {
        self.locked(own, |inner| {
            if inner.closed {
                return None;
            }
            if let Vacant(entry) = inner.by_key.entry(Arc::clone(own)) {
                entry.insert(Queue::new(false, now));
            }
            Some(Front::new(self, own))
        })
    }

    /// The outcome of the last attempt of the front of this queue, however old it is.
    pub(crate) fn last_failure(&self, queue_name: &str) -> Option<Arc<FailedAttempt>> {
        self.with_queue(queue_name, |queue| queue.last_failure()).flatten()
    }

    /// Notes that a request of this queue has a permit.
    pub(in crate::wait) fn attempt_succeeded(&self, queue_name: &str) {
        self.with_queue(queue_name, Queue::attempt_succeeded);
    }

    /// Takes a request into a queue again that had joined it at `since`, and had a turn beside that of the front. It has
    /// its place and its room there.
    pub(crate) fn rejoin(
        self: &Arc<Self>,
        queue_name: &Arc<str>,
        wants: Wants,
        since: Moment,
    ) -> Joined {
        self.locked(queue_name, |inner| {
            if inner.closed {
                return Joined::Refused(NoTurn::Closed);
            }
            let queue = match inner.by_key.entry(Arc::clone(queue_name)) {
                Vacant(entry) => {
                    entry.insert(Queue::new(false, since));
                    return Joined::First(Front::new(self, queue_name));
                }
                Occupied(entry) => entry.into_mut(),
            };
            let waiter = QueuedTask::new(wants, since);
            let place = queue.waiting.partition_point(|it| it.since <= since);
            queue.take_in(&waiter, place);
            Joined::Waiting(PendingTurn::new(self, queue_name, waiter))
        })
    }

    /// Has so many of the next readers in this queue ask at once, because a reader of this client has the lock:
    /// those that have waited for as long as the client has had its place among others, or all where no other
    /// client waits.
    pub(crate) fn let_readers_in(
        self: &Arc<Self>,
        queue_name: &Arc<str>,
        count: usize,
        standing: Option<Standing>,
    ) {
        // A lock may have the name of this queue, and writers that wait for it.
        let suits = |next: &QueuedTask<Front>| {
            next.wants.shared && standing.is_none_or(|it| next.since <= it.joined)
        };
        for _ in 0..count {
            let now = self.nodes().clock.now();
            let Some(turn) = self.alone(&queue_of_one(lock_of(queue_name)), now) else { return };
            if self.give(queue_name, turn.beside(queue_name, standing), suits).is_some() {
                return;
            }
        }
    }

    /// How many of the next tasks in this queue, of so many at most, are content with a permit as this request gets it.
    pub(crate) fn served_with(&self, queue_name: &str, wants: Wants, most: usize) -> usize {
        let suits = |next: &&Arc<QueuedTask<Front>>| next.wants.shares_permits_with(&wants);
        let count = |it: &mut Queue<_>| it.waiting.iter().take(most).take_while(suits).count();
        self.with_queue(queue_name, count).unwrap_or_default()
    }

    /// Gives the next task in this queue a turn with a permit, as this request got it. The permit is given back if
    /// it does not suit that task.
    pub(crate) fn give_permit(&self, queue_name: &str, wants: Wants, turn: Front) {
        drop(self.give(queue_name, turn, |next| next.wants.shares_permits_with(&wants)));
    }

    /// Gives this turn to the next task in a queue, if it suits. Returns it otherwise, to be dropped with nothing
    /// locked.
    #[must_use]
    fn give(
        &self,
        queue_name: &str,
        turn: Front,
        suits: impl FnOnce(&QueuedTask<Front>) -> bool,
    ) -> Option<Front> {
        self.locked(queue_name, |inner| {
            let Some(queue) = inner.by_key.get_mut(queue_name) else { return Some(turn) };
            if !queue.waiting.front().is_some_and(|next| suits(next)) {
                return Some(turn);
            }
            let next = queue.waiting.pop_front();
            inner.wakes.extend(next.and_then(|next| next.give(Ok(turn))));
            None
        })
    }
}
