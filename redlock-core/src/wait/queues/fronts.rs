//! What the front of a queue tells the requests behind it. Those that try only once are answered at once.

use std::sync::Arc;

use super::{Inner, Queue, Queues};
use crate::{
    clock::Moment,
    lease::Hold,
    wait::{failed_attempt::FailedAttempt, turn::Front, wants::Wants},
};

impl Queues {
    /// Changes the queue and answers the waiters that try only once. False when nothing changed.
    fn answer(
        &self,
        key: &str,
        now: Moment,
        change: impl FnOnce(&mut Queue<Front>) -> bool,
    ) -> bool {
        self.locked(key, |inner| {
            let Inner { by_key, wakes, .. } = inner;
            let Some(queue) = by_key.get_mut(key) else { return false };
            let changed = change(queue);
            if changed {
                queue.answer_single_tries(now, wakes);
            }
            changed
        })
    }

    /// Notes that the front waits for its chance before it asks any node. It must not hold up the requests that
    /// try only once.
    pub(in crate::wait) fn front_defers(&self, key: &str) {
        self.answer(key, self.nodes().clock.now(), |queue| {
            queue.defers = true;
            true
        });
    }

    /// Notes the same where no attempt for this key is known. What an attempt was told is an answer to these requests.
    pub(in crate::wait) fn front_defers_unasked(&self, key: &str) {
        self.answer(key, self.nodes().clock.now(), |queue| {
            queue.defers |= !queue.has_asked();
            queue.defers
        });
    }

    /// Tells the waiters that try only once what is known.
    pub(in crate::wait) fn refuse_single_tries(&self, key: &str) {
        self.answer(key, self.nodes().clock.now(), |_| true);
    }

    pub(in crate::wait) fn front_asks(&self, key: &str) {
        self.with_queue(key, |queue| queue.defers = false);
    }

    /// Notes that the attempt of the front has failed, and tells the waiters that try only once.
    pub(in crate::wait) fn attempt_failed(&self, key: &str, failure: &Arc<FailedAttempt>) {
        let now = self.nodes().clock.now();
        self.answer(key, now, |queue| queue.attempt_failed(failure, now));
    }

    /// Notes that the front has the lock: its queue is held until the hold ends. False for a hold
    /// that has ended already, which could not tell a queue that did not know it yet.
    pub(in crate::wait) fn acquired(
        &self,
        key: &str,
        hold: &Arc<Hold>,
        unchallenged: bool,
        now: Moment,
    ) -> bool {
        self.answer(key, now, |queue| queue.acquired(hold, unchallenged, now))
    }

    /// The outcome of the last attempt for this key. The nodes need not be asked again, unless it is
    /// too old for a request that tries only once.
    pub(in crate::wait) fn known(&self, key: &str, wants: Wants) -> Option<Arc<FailedAttempt>> {
        self.with_queue(key, |queue| queue.known(wants, || self.nodes().clock.now())).flatten()
    }
}
