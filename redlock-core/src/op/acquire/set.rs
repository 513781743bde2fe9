//! Waiting for all locks of a set.
//!
//! A set waits in the queue before each of its keys, in the order of the keys, which is the same in
//! all clients. It waits in a queue once it is the first in the queue of the key before, and keeps its
//! places. When the set is the first in all queues, it asks for all locks at once. So sets that
//! overlap never wait for each other in a circle. A place before a free lock is kept for a moment only: the other
//! clients go past a set that waits for another lock for longer.
//!
//! Most of the other locks are often free. One after the other, each would take a round trip, so the set joins several
//! queues at once, and leaves those in which it is not to wait yet.

use std::{convert::Infallible, ops::Range, time::Duration};

use futures_util::future::{join, join_all, pending};

use super::{fronts::Fronts, request::Request, retries::Chance, wait_terms::Pause};
use crate::{
    clock::Moment,
    error::LockError,
    op::watch::Watch,
    runtime::in_runtime,
    timer::{sleep, timeout},
    wait::{Entry, Front, MIN_PAUSE, REFRESH, Report, grace},
};

/// The keys that a set asks about ahead, all at once: twice as many each time that they are free, and half as many each
/// time that it has to wait for one of them.
struct Ahead {
    count: usize,
    /// The last of their places; zero before any.
    last: usize,
    /// Until then, the answer to a report that was sent ahead serves as the answer to the next report. Later it is
    /// out of date.
    until: Moment,
}

/// Half of the keys that a set asks about ahead at first.
const FIRST_AHEAD: usize = 4;

impl Ahead {
    /// The places to ask about now that there was a chance at this one.
    fn after(&mut self, place: usize, now: Moment, round_trip: Duration) -> Option<Range<usize>> {
        let is_late = self.last > 0 && now >= self.until;
        if place < self.last && !is_late {
            return None;
        }
        self.count = if is_late { self.count / 2 } else { self.count * 2 }.max(1);
        self.last = place + self.count;
        self.until = now + round_trip.max(MIN_PAUSE) * 2;
        Some(place + 1..self.last + 1)
    }
}

impl Request<'_> {
    /// Waits for the turns before the other keys, with the first one in hand.
    pub(super) async fn other_turns(&mut self, mut first: Front) -> Result<Fronts, LockError> {
        let round_trip = self.client.nodes.round_trip();
        let mut rest: Vec<Front> = Vec::with_capacity(self.rest.len());
        for key in self.rest.clone() {
            rest.last().unwrap_or(&first).defers();
            // The tasks before this one may have left it places in the queues between clients.
            let fronts = std::iter::once(&mut first).chain(&mut rest);
            let kept = fronts.filter(|it| it.entry.is_some()).map(|front| {
                front.follow_lock(false);
                keep_entry(&mut front.entry, Duration::ZERO, round_trip)
            });
            let kept = join_all(kept);
            let now = self.now();
            let turn = tokio::select! {
                biased;
                turn = self.turn(&key, now) => turn?,
                never = async { kept.await; pending::<Infallible>().await } => match never {},
            };
            rest.push(turn);
        }
        let mut fronts = Fronts::several(first, rest);
        fronts.each().for_each(|front| front.asks());
        Ok(fronts)
    }

    /// Waits for a chance to get all locks, until the end of the pause at the latest: for a chance to get the
    /// first, then the second, and so on. The places before the other keys are kept meanwhile.
    pub(super) async fn chances(
        &mut self,
        fronts: &mut Fronts,
        pause: Pause<'_>,
    ) -> Result<Chance, LockError> {
        let round_trip = self.client.nodes.round_trip();
        let places = fronts.len();
        let mut has_waited = false;
        let mut ahead = Ahead { count: FIRST_AHEAD, last: 0, until: pause.begun };
        let mut chance = Chance::Due;
        if let Some(failure) = pause.failure.filter(|it| it.no_quorum) {
            fronts.each().for_each(|front| self.leave_without_quorum(front, failure));
        }
        for place in 0..places {
            let is_last = place + 1 == places;
            // A lock before the last one is believed when it looks free: the last attempt may have been
            // refused because of another lock of the set. If every lock looks free, and the last attempt
            // already followed from such answers, the first answer for the last lock is doubted.
            let last = pause.last.filter(|_| is_last && !has_waited);
            let begun = self.now();
            let (Some(front), others) = fronts.split(place) else { continue };
            chance = tokio::select! {
                biased;
                chance = self.chance(front, Pause { last, ..pause }) => chance?,
                never = keep_places(others, ahead.until.since(begun), round_trip) => match never {},
            };
            let has_news = || self.watch.as_deref().is_some_and(Watch::has_news);
            has_waited |= match chance {
                Chance::Turn => true,
                Chance::Notified if has_news() => true,
                Chance::Notified | Chance::Free => self.now().since(begun) >= grace(round_trip),
                Chance::StandsStill
                | Chance::Due
                | Chance::Again
                | Chance::Hurried
                | Chance::Behind => break,
            };
            if !is_last {
                self.watch = None;
                front.follow_lock(false);
            }
            if let Some(next) = ahead.after(place, self.now(), round_trip) {
                let mut next = fronts.each().take(next.end).skip(next.start);
                next.try_for_each(|front| self.ask_ahead(front, &pause))?;
            }
        }
        Ok(chance)
    }
}

/// Keeps the places of the set before the keys that it does not wait for now. It leaves a queue that it has joined ahead
/// if it does not get to that key soon. Requests behind them that try only once are refused: an attempt of the set would say
/// nothing of that lock alone, and could take the turn of another client. Cancel safe.
async fn keep_places(fronts: Vec<&mut Front>, soon: Duration, round_trip: Duration) -> Infallible {
    join_all(fronts.into_iter().map(|front| keep_place(front, soon, round_trip))).await;
    pending().await
}

async fn keep_place(front: &mut Front, soon: Duration, round_trip: Duration) {
    let refusing = front.refusing_single_tries();
    join(refusing, keep_entry(&mut front.entry, soon, round_trip)).await;
}

async fn keep_entry(entry: &mut Option<Box<Entry>>, soon: Duration, round_trip: Duration) {
    if entry.as_deref().is_some_and(Entry::has_asked_ahead) {
        sleep(soon).await;
        entry.take_if(|entry| !entry.gives_up_answer());
    }
    let Some(entry) = entry else { return };
    // A turn that came has taken the entry out of the queue. The set often needs it no more.
    let mut pause = if entry.has_turn() { round_trip * 2 } else { REFRESH };
    loop {
        let _ = timeout(pause, entry.signal()).await;
        if !in_runtime() {
            // The runtime was shut down, and neither the pause nor the report takes any time: this would spin for ever.
            return;
        }
        if entry.report().await == Report::NoQueue {
            // No node keeps it. The set joins again when it waits there next.
            return;
        }
        pause = REFRESH;
    }
}

#[cfg(test)]
mod tests;
