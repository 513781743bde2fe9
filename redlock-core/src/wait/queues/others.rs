//! What the queues of a client know of other clients, which want the same locks.

use std::sync::Arc;

use super::{super::queue::Occupant, Queues};
use crate::{
    clock::Moment,
    node::{Inspection, queue_keys},
};

impl Queues {
    /// Notes the report of a node that other clients wait for this lock. The client whose turn it
    /// is has until `until` to take it.
    pub(crate) fn others_wait(&self, key: &Arc<str>, now: Moment, until: Moment) {
        self.locked(key, |inner| {
            inner.contention.others_wait(key, now, until);
            if let Some(queue) = inner.by_key.get_mut(key) {
                queue.streak.contended();
            }
        });
    }

    /// Whether clients that a node has seen in the queue at `now` go first. One of them has until `until` to take the
    /// lock. They do not go first while the first of them leaves a free lock alone: such a client waits for the other
    /// keys of a set, or has crashed. A client that has its turn for one permit leaves the others to any client.
    pub(crate) fn yields_to(
        &self,
        key: &Arc<str>,
        seen: &Inspection,
        now: Moment,
        until: Moment,
    ) -> bool {
        // The queue of all permits says nothing of one of them.
        let is_for_permits = queue_keys::is_queue_of_permits(key);
        let is_free = seen.left.is_zero() && !is_for_permits;
        self.locked(key, |inner| match seen.waiting.first() {
            Some(first) => inner.contention.looked(key, is_free.then_some(first), now, until),
            None if seen.turn_is_out && is_for_permits => {
                inner.contention.others_wait(key, now, until);
                false
            }
            None if seen.turn_is_out => {
                inner.contention.turn_is_out(key, now, until);
                true
            }
            None => {
                inner.contention.no_turn_is_out(key, now);
                false
            }
        })
    }

    /// Notes the report of a node that no other client has its turn: it has used it, or has left.
    pub(crate) fn no_turn_is_out(&self, key: &str, now: Moment) {
        self.locked(key, |inner| inner.contention.no_turn_is_out(key, now));
    }

    /// Lets other clients go first after the next release, whether or not this client knows of any.
    /// The node that keeps their queue may tell of them long after a quorum has confirmed the
    /// release.
    pub(crate) fn expects_others(&self, key: &str) {
        self.with_queue(key, |queue| queue.streak.contended());
    }

    /// Notes the report of a node that no other client waits for this lock. The node answered a
    /// release that was sent at `then`.
    pub(crate) fn no_client_waits(&self, key: &str, then: Moment) {
        self.locked(key, |inner| inner.contention.no_client_waits(key, then));
    }

    /// Notes that the keys of the lock are deleted. If other clients wait, one of them has until
    /// `until` to take it.
    pub(crate) fn released(&self, key: &Arc<str>, now: Moment, until: impl FnOnce() -> Moment) {
        self.locked(key, |inner| {
            let queue = inner.by_key.get(key);
            let has_waited = queue.is_some_and(|queue| queue.streak.is_contended());
            if has_waited || inner.contention.is_contended(key, now) {
                inner.contention.released(key, now, until(), has_waited);
            }
        });
    }

    /// Whether tasks of this client have the lock, ask for it, or wait for it.
    pub(crate) fn is_wanted(&self, key: &str) -> bool {
        self.locked(key, |inner| inner.by_key.contains_key(key))
    }

    /// Whether a task of this client has the lock, and not as a reader.
    pub(crate) fn is_held(&self, key: &str) -> bool {
        self.with_queue(key, |queue| matches!(queue.occupant, Occupant::Held(..))).unwrap_or(false)
    }

    /// Whether other clients want this lock, as far as is known.
    pub(crate) fn is_contended(&self, key: &str, now: Moment) -> bool {
        self.locked(key, |inner| inner.contention.is_contended(key, now))
    }

    /// Whether a request that only tries leaves the lock to another client without a look.
    pub(crate) fn yields_unseen(&self, key: &str, now: Moment) -> bool {
        self.locked(key, |inner| inner.contention.yields_unseen(key, now))
    }

    /// Until when another client has its turn, if one has it now.
    pub(crate) fn turn_of_others(&self, key: &str, now: Moment) -> Option<Moment> {
        self.locked(key, |inner| inner.contention.turn_of_others(key, now))
    }
}
