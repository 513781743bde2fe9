//! Waits for a chance to get the lock, as [`Waiting`] says: reports to the queue between clients, watches
//! the lock on all nodes, and sleeps.

use std::{sync::Arc, time::Duration};

use futures_util::future::pending;

use super::{
    barrier::Barrier,
    circumstances::{Circumstances, Pause},
    request::Request,
    retries::Chance,
    unclaimed::unclaimed,
    waiting::{Conclusion, Reported, Step, Surroundings, Waiting, WatchState},
};
use crate::{
    clock::Moment,
    error::LockError,
    metrics,
    op::watch::watch,
    runtime::check_runtime,
    telemetry,
    timer::{sleep, timeout},
    wait::{Entry, Front, Report, Signal, grace},
};

/// How long a request goes without a queue that no node lets it join. A server may log each refusal.
const DECLINED: Duration = Duration::from_secs(30);

/// The events that end the sleep of a waiting client.
enum Event {
    Told(Signal),
    Notified,
    Hurried,
    Time,
}

impl Request<'_> {
    /// Waits for a chance to get the lock, until the end of the pause at the latest. No request that tries only once
    /// comes here: it has no time to wait.
    pub(super) async fn chance(
        &mut self,
        front: &mut Front,
        pause: Pause<'_>,
    ) -> Result<Chance, LockError> {
        // The queue of readers in this process has a name of its own.
        let key = Arc::clone(if self.terms.has_several() { &self.key } else { front.key() });
        if self.watch.as_ref().is_some_and(|watch| !watch.is_for(&key)) {
            // A set was told to ask while it waited for another of its locks.
            self.watch = None;
        }
        let given = self.circumstances(&pause, front.entry.is_some());
        let has_quorum = pause.has_quorum();
        self.queue_up(front, &key, &given, has_quorum)?;
        if has_quorum && pause.last == Some(Chance::Turn) {
            // Readers may have taken the lock in its turn, and would take it in the next one, too.
            self.raise_barrier(&key, front.place(), true)?;
        }
        let mut waiting = Waiting::new(given, front.entry.is_some());
        loop {
            let around = self.surroundings(front);
            if let Some(barriers) = &mut self.barriers {
                // No node tells this client that the writer before it has gone, and that readers have come.
                let is_deaf = around.watch == WatchState::Unarmed;
                barriers.keep_up(&key, is_deaf, around.now);
            }
            match waiting.next(&around) {
                Step::Report => match self.report_by(pause.end, front, &mut waiting).await? {
                    Conclusion::Wait if waiting.is_behind() => self.falls_back(front, &key),
                    Conclusion::Wait => {}
                    Conclusion::End(chance) => return Ok(chance),
                    Conclusion::LeaveQueue => {
                        if front.entry.take().is_some_and(|entry| entry.is_declined()) {
                            self.without_queue_until = around.now + DECLINED;
                        }
                    }
                },
                Step::Follow => {
                    front.follow_lock(true);
                    if has_quorum {
                        self.raise_barrier(&key, front.place(), false)?;
                    }
                    waiting.following(around.now);
                }
                Step::Watch => {
                    front.follow_lock(false);
                    self.watch = Some(Box::new(watch(&self.client.nodes, &key)));
                    if has_quorum {
                        self.raise_barrier(&key, front.place(), false)?;
                    }
                    waiting.watching(around.now);
                }
                Step::End(chance) => return Ok(chance),
                Step::Sleep { until, quiet } => {
                    let hurried = front.hurried(quiet);
                    let is_deaf = around.now < given.deaf_until;
                    let until = if is_deaf { until.min(given.deaf_until) } else { until };
                    let span = until.since(around.now);
                    let event = self.event(front, span, hurried, is_deaf).await?;
                    if let Some(chance) = self.happened(event, front, &mut waiting)? {
                        return Ok(chance);
                    }
                }
            }
        }
    }

    /// Takes or gives up the place in the queue between clients, as the last attempt shows.
    fn queue_up(
        &mut self,
        front: &mut Front,
        key: &Arc<str>,
        given: &Circumstances,
        has_quorum: bool,
    ) -> Result<(), LockError> {
        if !has_quorum {
            // A client without a quorum must not hold up the other clients, unless it has one again in a moment.
            if let Some(entry) = front.entry.take_if(|entry| !entry.was_cut_off()) {
                entry.leave_to_others();
            }
            // Nor the readers: a node that gives it no vote would raise its barrier all the same.
            self.barriers = None;
        } else if front.entry.is_none() && self.may_queue(given.begun, given.end) {
            front.entry = Some(Box::new(self.entry(key)?));
        }
        Ok(())
    }

    /// Joins the queue between clients before another key of a set, or reports to it, ahead of the wait for that key
    /// ([`chance`](Self::chance)), which takes the answer.
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

    /// Notes that it has lost a place further in front. A barrier at that place would hold up the readers that it
    /// waits for.
    fn falls_back(&mut self, front: &mut Front, key: &Arc<str>) {
        front.follow_lock(false);
        self.watch = None;
        if let Some(barriers) = &mut self.barriers {
            barriers.lower(key);
        }
    }

    /// The chance that an event brings, if it brings one.
    fn happened(
        &mut self,
        event: Event,
        front: &mut Front,
        waiting: &mut Waiting,
    ) -> Result<Option<Chance>, LockError> {
        match event {
            Event::Notified => Ok(Some(Chance::Notified)),
            Event::Hurried => {
                let around = self.surroundings(front);
                if around.in_queue && !waiting.may_ask(&around) {
                    front.refuses_single_tries();
                    return Ok(None);
                }
                Ok(Some(Chance::Hurried))
            }
            Event::Time => {
                // Timers of a runtime that was shut down are over at once.
                check_runtime()?;
                self.client.ensure_moving(self.now());
                Ok(None)
            }
            Event::Told(signal) => {
                if signal == Signal::Moved {
                    // The tasks of the nodes may have ended with their runtime (rule 13).
                    self.client.ensure_running();
                }
                self.heard(front, signal);
                Ok(waiting.told(signal, self.now()))
            }
        }
    }

    /// Whether it is worth asking for a place in the queue between clients.
    fn may_queue(&self, now: Moment, end: Moment) -> bool {
        self.can_queue_in(end.since(now)) && now >= self.without_queue_until
    }

    /// Whether a place in the queue between clients is of use in this time.
    fn can_queue_in(&self, time: Duration) -> bool {
        time >= self.client.nodes.round_trip() * 2
    }

    /// Has new readers wait behind this request, which is the first in the queue, if it is a
    /// writer. It `insists` once it was refused in its turn.
    fn raise_barrier(
        &mut self,
        key: &Arc<str>,
        place: u64,
        insists: bool,
    ) -> Result<(), LockError> {
        // A writer that never has a place would raise its barrier in place of that of a writer that waits, and
        // lower it a moment later.
        let hardly_waits = place == 0 && !self.can_queue_in(self.terms.wait);
        if self.terms.has_several() || hardly_waits {
            return Ok(());
        }
        let now = self.now();
        let barriers = self.barriers.get_or_insert_default();
        if let Some(barrier) = barriers.at(key, place) {
            barrier.repeat(insists, now);
            return Ok(());
        }
        let value = self.client.fresh_value()?;
        barriers.add(Barrier::raise(&self.client.nodes, key, place, value, insists));
        Ok(())
    }

    fn surroundings(&self, front: &Front) -> Surroundings {
        let follows_lock = front.entry.as_ref().is_some_and(|entry| entry.follows_lock());
        let watch = match &self.watch {
            None if follows_lock => WatchState::QueueNode,
            None => WatchState::None,
            Some(watch) if watch.is_armed() => WatchState::Armed,
            Some(_) => WatchState::Unarmed,
        };
        Surroundings {
            now: self.now(),
            in_queue: front.entry.is_some(),
            watch,
            turn_of_others: front.turn_of_others(),
        }
    }

    /// Sleeps for `pause`, unless something happens before. What a watch tells does not count while the request
    /// `is_deaf` to it.
    async fn event(
        &self,
        front: &mut Front,
        pause: Duration,
        hurried: impl Future<Output = ()>,
        is_deaf: bool,
    ) -> Result<Event, LockError> {
        let turn_of_others = front.turn_of_others();
        let queue_node = front.entry.as_ref().and_then(|entry| entry.told_by());
        let signal = async {
            match &mut front.entry {
                Some(entry) => entry.signal().await,
                None => pending().await,
            }
        };
        let notified = async {
            match &self.watch {
                Some(watch) if !is_deaf => {
                    unclaimed(watch, &self.client.nodes, turn_of_others, queue_node).await;
                }
                Some(_) | None => pending().await,
            }
        };
        self.unless_closed(async {
            tokio::select! {
                biased;
                signal = signal => Event::Told(signal),
                () = notified => Event::Notified,
                () = hurried => Event::Hurried,
                () = sleep(pause) => Event::Time,
            }
        })
        .await
    }

    /// Reports to the queue, and waits for the answer until `end` at the latest: an attempt that followed
    /// from a later answer would start after the request's `wait`.
    async fn report_by(
        &mut self,
        end: Moment,
        front: &mut Front,
        waiting: &mut Waiting,
    ) -> Result<Conclusion, LockError> {
        let left = end.since(self.now());
        timeout(left, self.report(front, waiting)).await.unwrap_or(Ok(Conclusion::Wait))
    }

    /// Joins the queue between clients, or reports that this client is alive.
    async fn report(
        &mut self,
        front: &mut Front,
        waiting: &mut Waiting,
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
        let has_pushes = entry.as_ref().is_some_and(|entry| entry.is_told());
        // A report forgets the other signals, too: its answer shows the same.
        let signal = entry.and_then(|entry| entry.take_signal());
        signal.into_iter().for_each(|signal| self.heard(front, signal));
        Ok(waiting.reported(&Reported {
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

    /// Notes a push of the node that keeps the queue.
    fn heard(&mut self, front: &mut Front, signal: Signal) {
        match signal {
            // A client has released the lock, or has left.
            Signal::Turn | Signal::Next | Signal::Near => self.distrust.clear(),
            Signal::Changed | Signal::Moved => {}
        }
        // Another client has its turn. A watch from before it came back to its place tells that the lock is free
        // until it has taken it. A reader asks at once.
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
        Ok(Entry::new(&self.client.nodes, key, self.client.fresh_value()?))
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
