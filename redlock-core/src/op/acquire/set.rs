//! Waiting for all locks of a set.
//!
//! A set waits in the queue before each of its keys, in the order of the keys, which is the same in
//! all clients. It joins a queue once it is the first in the queue of the key before, and keeps its
//! places. When the set is the first in all queues, it asks for all locks at once. So sets that
//! overlap never wait for each other in a circle. A place before a free lock is kept for a moment only: the other
//! clients go past a set that waits for another lock for longer.

use std::time::Duration;

use futures_util::future::{pending, select_all};

use super::{circumstances::Pause, fronts::Fronts, request::Request, retries::Chance};
use crate::{
    error::LockError,
    op::watch::Watch,
    timer::timeout,
    wait::{Front, REFRESH, Report, grace},
};

impl Request<'_> {
    /// Waits for the turns before the other keys, with the first one in hand.
    pub(super) async fn other_turns(&mut self, first: Front) -> Result<Fronts, LockError> {
        let mut rest: Vec<Front> = Vec::with_capacity(self.rest.len());
        for key in self.rest.clone() {
            rest.last().unwrap_or(&first).defers();
            rest.push(self.turn(&key, self.now()).await?);
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
        let mut chance = Chance::Due;
        for place in 0..places {
            let is_last = place + 1 == places;
            // An earlier lock that looks free is believed: another lock of the set may have been
            // refused a moment ago. If all of them look free, the first answer for the last lock is
            // doubted, should the attempt before have followed from such an answer.
            let last = pause.last.filter(|_| is_last && !has_waited);
            let begun = self.now();
            let (Some(front), others) = fronts.split(place) else { continue };
            chance = tokio::select! {
                biased;
                chance = self.chance(front, Pause { last, ..pause }) => chance?,
                () = keep_places(others, round_trip) => Chance::Hurried,
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
        }
        Ok(chance)
    }
}

/// Keeps the places before the keys that the set does not wait for now. Resolves when a request behind
/// one of them would have asked by now. Cancel safe.
async fn keep_places(fronts: Vec<&mut Front>, round_trip: Duration) {
    let keeping = fronts.into_iter().map(|front| Box::pin(keep_place(front, round_trip)));
    select_all(keeping).await;
}

async fn keep_place(front: &mut Front, round_trip: Duration) {
    let hurried = front.hurried(Duration::ZERO);
    let keeping = async {
        let Some(entry) = &mut front.entry else { return pending().await };
        // A turn that came has taken the entry out of the queue. The set often needs it no more.
        let mut pause = if entry.has_turn() { round_trip * 2 } else { REFRESH };
        loop {
            let _ = timeout(pause, entry.signal()).await;
            if entry.report().await == Report::NoQueue {
                // No node keeps it. The set joins again when it waits there next.
                return pending().await;
            }
            pause = REFRESH;
        }
    };
    tokio::select! {
        biased;
        () = hurried => {}
        () = keeping => {}
    }
}
