//! Waits for a chance to get the lock, as [`WaitPlan`] says: reports to the queue between clients
//! ([`super::reporting`]), watches the lock on all nodes, and sleeps.

use std::{sync::Arc, time::Duration};

use futures_util::future::pending;

use super::{
    barrier::Barrier,
    request::Request,
    retries::Chance,
    unclaimed::unclaimed,
    wait_terms::Pause,
    waiting::{Conclusion, Snapshot, Step, WaitPlan, WatchState},
};
use crate::{
    error::LockError,
    op::watch::watch,
    runtime::check_runtime,
    timer::sleep,
    wait::{DECLINED, Front, Signal},
};

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
        let given = self.wait_terms(&pause, front.entry.is_some());
        let has_quorum = pause.has_quorum();
        self.queue_up(front, &key, &given, pause.failure)?;
        if has_quorum && pause.last == Some(Chance::Turn) {
            // Readers may have taken the lock in its turn, and would take it in the next one, too.
            self.raise_barrier(&key, front.place(), true)?;
        }
        let mut waiting = WaitPlan::new(given, front.entry.is_some());
        loop {
            let around = self.snapshot(front);
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

    /// Notes that other clients are before this one. If it has lost an earlier place, its barrier still names that
    /// place, and would hold up the readers that it now waits for. So the barrier is lowered.
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
        waiting: &mut WaitPlan,
    ) -> Result<Option<Chance>, LockError> {
        match event {
            Event::Notified => Ok(Some(Chance::Notified)),
            Event::Hurried => {
                let around = self.snapshot(front);
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

    /// Has new readers wait behind this request, which is the first in the queue, if it is a
    /// writer. It `insists` once it was refused in its turn.
    fn raise_barrier(
        &mut self,
        key: &Arc<str>,
        place: u64,
        insists: bool,
    ) -> Result<(), LockError> {
        // A writer without the time for a place would replace the barrier of a waiting writer that has no place
        // either, and lower it a moment later.
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

    fn snapshot(&self, front: &Front) -> Snapshot {
        let follows_lock = front.entry.as_ref().is_some_and(|entry| entry.follows_lock());
        let watch = match &self.watch {
            None if follows_lock => WatchState::QueueNode,
            None => WatchState::None,
            Some(watch) if watch.is_armed() => WatchState::Armed,
            Some(_) => WatchState::Unarmed,
        };
        Snapshot {
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
        let queue_node = front.entry.as_ref().and_then(|entry| entry.pushing_node());
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
}
