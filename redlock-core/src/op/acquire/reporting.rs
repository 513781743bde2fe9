//! What a request that waits says to the queue between clients, and what it makes of the answers.

use std::{sync::Arc, time::Duration};

use super::{
    request::Request,
    retries::Chance,
    wait_terms::{Pause, WaitTerms},
    waiting::{Conclusion, QueueAnswer, WaitPlan},
};
use crate::{
    clock::Moment,
    error::LockError,
    metrics, telemetry,
    timer::timeout,
    wait::{Entry, FailedAttempt, Front, Report, Signal, grace},
};

impl Request<'_> {
    /// Takes or gives up the place in the queue between clients, as the last attempt shows.
    pub(super) fn queue_up(
        &mut self,
        front: &mut Front,
        key: &Arc<str>,
        given: &WaitTerms,
        failure: Option<&FailedAttempt>,
    ) -> Result<(), LockError> {
        if let Some(failure) = failure.filter(|it| it.no_quorum) {
            self.leave_without_quorum(front, failure);
            // It must not hold up readers either: a node that gives it no vote would still raise its barrier.
            self.barriers = None;
        } else if front.entry.is_none() && self.may_queue(given.begun, given.end) {
            front.entry = Some(Box::new(self.entry(key)?));
        }
        Ok(())
    }

    /// Gives up the place in the queue between clients. A client without a quorum must not hold up the other clients,
    /// unless it has one again in a moment.
    pub(super) fn leave_without_quorum(&self, front: &mut Front, failure: &FailedAttempt) {
        let is_cut_off = failure.is_cut_off(self.client.nodes.len());
        if let Some(entry) = front.entry.take_if(|entry| !entry.was_cut_off(is_cut_off)) {
            entry.leave_to_others();
        }
    }

    /// Sends a join or a report to the queue of another key of a set, before the set waits for that key. That wait
    /// ([`chance`](Self::chance)) takes the answer.
    pub(super) fn ask_ahead(&self, front: &mut Front, pause: &Pause<'_>) -> Result<(), LockError> {
        if !pause.has_quorum() {
            return Ok(());
        }
        if front.entry.is_none() && self.may_queue(self.now(), pause.end) {
            front.entry = Some(Box::new(self.entry(front.key())?));
        }
        if let Some(entry) = &mut front.entry {
            entry.ask_ahead();
        }
        Ok(())
    }

    /// Whether it is worth asking for a place in the queue between clients.
    fn may_queue(&self, now: Moment, end: Moment) -> bool {
        self.can_queue_in(end.since(now)) && now >= self.without_queue_until
    }

    /// Whether a place in the queue between clients is of use in this time.
    pub(super) fn can_queue_in(&self, time: Duration) -> bool {
        time >= self.client.nodes.round_trip() * 2
    }

    /// Reports to the queue, and waits for the answer until `end` at the latest: an attempt that followed
    /// from a later answer would start after the request's `wait`.
    pub(super) async fn report_by(
        &mut self,
        end: Moment,
        front: &mut Front,
        waiting: &mut WaitPlan,
    ) -> Result<Conclusion, LockError> {
        let left = end.since(self.now());
        timeout(left, self.report(front, waiting)).await.unwrap_or(Ok(Conclusion::Wait))
    }

    /// Joins the queue between clients, or reports that this client is alive.
    async fn report(
        &mut self,
        front: &mut Front,
        waiting: &mut WaitPlan,
    ) -> Result<Conclusion, LockError> {
        let before = front.entry.as_mut().and_then(|entry| entry.take_signal());
        if before == Some(Signal::Turn) {
            // The turn came while the client asked. Its question may have come to some nodes before the
            // release did. A report forgets the turn, and its answer is doubted after a split vote.
            return Ok(Conclusion::End(Chance::Turn));
        }
        let report = self.ask_queue(front).await?;
        if let Report::At(position) = report {
            if waiting.joins() {
                metrics::queue_ahead(self.terms.label, position.ahead);
            }
            if !position.turn_is_out {
                front.no_turn_is_out();
            }
            let lasts = grace(self.client.nodes.round_trip());
            if self.leaves_turns()
                && let Some(Entry { shown_turn, .. }) = front.entry.as_deref_mut()
                && shown_turn.shows(&position, self.now(), lasts)
            {
                // A watch from before the turn tells that the lock is free.
                self.watch = None;
            }
            if position.is_renewed {
                self.distrust.clear();
            }
        }
        let turn_of_others = front.turn_of_others();
        let entry = front.entry.as_mut();
        let has_pushes = entry.as_ref().is_some_and(|entry| entry.has_pushes());
        // A report forgets the other signals, too: its answer shows the same.
        let signal = entry.and_then(|entry| entry.take_signal());
        signal.into_iter().for_each(|signal| self.heard(front, signal));
        Ok(waiting.reported(&QueueAnswer {
            now: self.now(),
            report,
            signal,
            has_pushes,
            turn_of_others,
            has_watch: self.watch.is_some(),
            looks_after: self.polls(),
            distrust: self.distrust,
        }))
    }

    /// Whether it leaves a free lock to another client that has its turn. A turn for a permit is for any of them, and a
    /// reader asks together with others.
    fn leaves_turns(&self) -> bool {
        self.permits.is_none() && !self.terms.shared
    }

    /// Notes a push of the queue node.
    pub(super) fn heard(&mut self, front: &mut Front, signal: Signal) {
        match signal {
            // A client has released the lock, or has left.
            Signal::Turn | Signal::Next | Signal::Near => self.distrust.clear(),
            Signal::Changed | Signal::Moved => {}
        }
        // Another client has its turn. A watch that began earlier reports the lock as free until that client has
        // taken it, so the watch is dropped. A reader does not wait for that client: it asks at once.
        if signal == Signal::Next && !self.terms.shared {
            self.watch = None;
        }
        if signal == Signal::Next
            && let Some(entry) = &mut front.entry
        {
            entry.shown_turn.is_next(self.now());
        }
    }

    /// An entry for the queue between clients, which no node has yet.
    fn entry(&self, key: &Arc<str>) -> Result<Entry, LockError> {
        let mut entry = Entry::new(&self.client.nodes, key, self.client.fresh_value()?);
        entry.reads = self.terms.shared;
        Ok(entry)
    }

    async fn ask_queue(&self, front: &mut Front) -> Result<Report, LockError> {
        let Some(entry) = &mut front.entry else { return Ok(Report::NoQueue) };
        let report = self.unless_closed(entry.report()).await?;
        if report == Report::NoQueue {
            telemetry::no_queue(self.resources.name());
        }
        Ok(report)
    }
}
