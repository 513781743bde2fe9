//! What a client that waits for a lock does next. Pure.
//!
//! The client stands in the queue between clients, where a node keeps one, and waits for its turn. The
//! front of that queue also follows the lock on the queue node, or watches it on all nodes:
//! a holder that crashed, or that does not know the queue, gives no turns. A client without a queue watches.

mod news;

use std::time::Duration;

pub(super) use self::news::{Conclusion, QueueAnswer, Snapshot, Step, WatchState};
use super::{distrust::Distrust, retries::Chance, wait_terms::WaitTerms};
use crate::{
    clock::Moment,
    wait::{MIN_PAUSE, QueuePosition, REFRESH, Report, Signal, grace, watches_after},
};

/// A client watches the lock when more reports in a row than this were not answered in time.
const MAX_UNANSWERED: u32 = 2;

/// A queue that does not move.
#[derive(Debug, Clone, Copy)]
struct StandsStill {
    /// How many clients are before this one. `None` before it has looked.
    ahead: Option<u64>,
    since: Moment,
}

/// A client that waits.
#[derive(Debug)]
pub(super) struct WaitPlan {
    given: WaitTerms,
    /// The place in the queue. `None` before the first answer, and without a queue.
    position: Option<QueuePosition>,
    /// How often in a row the queue node has not answered in time.
    unanswered: u32,
    /// The lock is free although other clients are before this one.
    stands_still: Option<StandsStill>,
    /// When the next report to the queue is due.
    report_at: Moment,
    /// Until then the client before this one may use its turn. A change may be that client's doing.
    leaves_turn_until: Moment,
    /// When the first in the queue begins to follow the lock, or to watch it.
    watch_at: Moment,
    /// Since when less than a quorum of nodes would report a change. `None` while a quorum does.
    unarmed_since: Option<Moment>,
    /// The holder renews the lock on the queue node, which pushes to this client: no other
    /// node need be watched.
    trusts_queue_node: bool,
}

impl WaitPlan {
    pub(super) fn new(given: WaitTerms, in_queue: bool) -> Self {
        let WaitTerms { begun, round_trip, is_split, was_misled, was_set_refused, .. } = given;
        // A client that was refused by all nodes waits for the holder to give it the turn. A watch
        // would notify between the release and the `SET`s of the next client, and the two clients
        // would split the votes.
        // A client that was given its turn and refused all the same looks for itself: the turn may have come
        // from a reader, which shares the lock with later readers until a writer has them wait.
        let relies_on_turn = in_queue && !is_split && !was_misled && !was_set_refused;
        let watch_at = if relies_on_turn { begun + watches_after(round_trip) } else { begun };
        Self {
            given,
            position: None,
            unanswered: 0,
            stands_still: None,
            report_at: begun,
            leaves_turn_until: begun,
            watch_at,
            unarmed_since: Some(begun),
            trusts_queue_node: false,
        }
    }

    /// Whether no report was answered yet.
    pub(super) fn joins(&self) -> bool {
        self.position.is_none()
    }

    /// Whether no other client is known to be before this one. A crowd whose first reports come at once must
    /// not watch: its node is too busy to answer, and answers soon.
    fn is_front(&self) -> bool {
        let is_patient = (1..=MAX_UNANSWERED).contains(&self.unanswered);
        self.known_position().map_or(!is_patient, |position| position.ahead == 0)
    }

    /// The position in the queue. The node may have dropped the entry when it has not answered for long.
    fn known_position(&self) -> Option<QueuePosition> {
        self.position.filter(|_| self.unanswered <= MAX_UNANSWERED)
    }

    /// Whether other clients are known to be before this one, which watch the lock.
    pub(super) fn is_behind(&self) -> bool {
        self.given.target.front_watches() && self.known_position().is_some_and(|it| it.ahead > 0)
    }

    /// Whether the client may ask at the end of its time, or for a request behind it that tries only once. Requests
    /// that wait for a short time, or not at all, would take all turns of a client that is far away.
    pub(super) fn may_ask(&self, around: &Snapshot) -> bool {
        let has_turn_to_leave =
            around.turn_of_others.is_some() || around.now < self.leaves_turn_until;
        (self.is_front() || self.position.is_none()) && !has_turn_to_leave
    }

    pub(super) fn next(&mut self, around: &Snapshot) -> Step {
        let Snapshot { now, in_queue, watch, turn_of_others } = *around;
        let WaitTerms { begun, end, round_trip, pace, polls, asks_again, target, .. } = self.given;
        let is_front = self.is_front();
        if now >= end {
            return Step::End(if self.may_ask(around) { Chance::Due } else { Chance::Behind });
        }
        if in_queue && now >= self.report_at {
            return Step::Report;
        }
        let watches = is_front && (target.front_watches() || !in_queue);
        let will_watch = watches
            && match watch {
                WatchState::None => true,
                WatchState::QueueNode => !self.trusts_queue_node,
                WatchState::Unarmed | WatchState::Armed => false,
            };
        if will_watch && now >= self.watch_at {
            return if self.trusts_queue_node { Step::Follow } else { Step::Watch };
        }
        let asks_itself = target.asks_without_queue() && self.position.is_none();
        if asks_itself && now >= begun + REFRESH {
            return Step::End(self.given.time_to_ask(REFRESH));
        }
        // Where no node pushes, the first client asks from time to time. A connection that is lost is often
        // back before that. After an attempt without a quorum it asks once more, if it is not in the queue.
        let unarmed = self.unarmed_since(watch, now).filter(|_| is_front);
        let unarmed_at = unarmed.map(|since| since + polls.max(round_trip * 2));
        let polls = unarmed_at.map(|at| (at, Chance::Due));
        let again = asks_again.filter(|_| !in_queue);
        let (poll_at, chance) = match polls.into_iter().chain(again).min_by_key(|(at, _)| *at) {
            Some((at, chance)) => (at.max(turn_of_others.unwrap_or(begun)), chance),
            None => (Moment::NEVER, Chance::Due),
        };
        if now >= poll_at {
            return Step::End(chance);
        }
        let watch_at = if will_watch { self.watch_at } else { Moment::NEVER };
        let look_at = if in_queue { self.report_at } else { now + REFRESH };
        // A watch that is armed does not tell a front without a quorum enough: it is deaf for some time.
        let is_told = in_queue || watch == WatchState::Armed && asks_again.is_none();
        Step::Sleep {
            until: end.min(poll_at).min(watch_at).min(look_at),
            quiet: if is_told { Duration::ZERO } else { pace },
        }
    }

    /// Since when a watch has been unarmed, if it is.
    fn unarmed_since(&mut self, watch: WatchState, now: Moment) -> Option<Moment> {
        match watch {
            WatchState::Unarmed => Some(*self.unarmed_since.get_or_insert(now)),
            WatchState::Armed => {
                self.unarmed_since = None;
                None
            }
            WatchState::None | WatchState::QueueNode => None,
        }
    }

    /// Notes that the queue node is to tell of changes. The next report asks for it.
    pub(super) fn following(&mut self, now: Moment) {
        self.report_at = now;
    }

    /// Notes that the watch has begun.
    pub(super) fn watching(&mut self, now: Moment) {
        self.unarmed_since = Some(now);
    }

    /// Draws the conclusion from the answer of the queue to a report.
    pub(super) fn reported(&mut self, reported: &QueueAnswer) -> Conclusion {
        let QueueAnswer { now, report, signal, turn_of_others, distrust, .. } = *reported;
        let WaitTerms { begun, round_trip, is_split, was_misled, target, .. } = self.given;
        let is_first_report = self.joins();
        self.unanswered = if report == Report::Unanswered { self.unanswered + 1 } else { 0 };
        match report {
            Report::At(position) => self.position = Some(position),
            Report::NoQueue => self.position = None,
            // Soon, and less and less often.
            Report::Unanswered => {
                let times = self.unanswered.saturating_sub(MAX_UNANSWERED).max(1);
                let pause = grace(round_trip).saturating_mul(times);
                self.report_at = now + pause.min(REFRESH);
            }
        }
        self.trusts_queue_node = self.is_trusted(reported);
        if let Some(signal) = signal {
            return self.told(signal, now).map_or(Conclusion::Wait, Conclusion::End);
        }
        let position = match report {
            Report::At(position) => position,
            Report::Unanswered => return Conclusion::Wait,
            Report::NoQueue => {
                self.watch_at = now;
                return Conclusion::LeaveQueue;
            }
        };
        if position.ahead == 0 && target.front_asks(position, is_first_report) {
            // A permit may have been released before the client joined. To look is no retry.
            let again = self.given.time_to_ask(now.since(begun));
            return Conclusion::End(if is_first_report { Chance::Free } else { again });
        }
        if position.left.is_some() && target.next_asks() && self.is_near_for_long(now) {
            // Those before it may be readers that have the lock, or may have crashed.
            return Conclusion::End(Chance::Turn);
        }
        if target.near_asks() && self.is_near_for_long(now) {
            return Conclusion::End(Chance::Again);
        }
        if target.shows_in_queue() {
            // The first answer after a failed attempt may only repeat what misled that attempt.
            let may_mislead = is_first_report && (is_split || was_misled)
                || now < begun + distrust.pause(round_trip, target);
            // A writer that has just become the first has yet to raise its barrier before the readers behind it.
            // After an attempt that some nodes granted, the queue node may be the one that is wrong: only the first
            // in the queue goes on asking.
            let leaves_it = position.ahead > 0 && (is_first_report || is_split);
            if position.may_share && !may_mislead && !leaves_it {
                return Conclusion::End(Chance::Free);
            }
            let is_doubted = turn_of_others.is_some() || may_mislead;
            match position {
                QueuePosition { ahead: 0, left: None, .. } if !is_doubted => {
                    return Conclusion::End(Chance::Free);
                }
                QueuePosition { ahead, left: None, .. } if ahead > 0 => {
                    if self.stands_still_for_long(ahead, reported) {
                        return Conclusion::End(Chance::StandsStill);
                    }
                }
                _ => self.stands_still = None,
            }
            if let Some(until) = turn_of_others.filter(|_| position.left.is_none()) {
                // Before that, a watch would only report that the client with the turn takes the lock.
                self.watch_at = self.watch_at.max(until);
            }
        }
        self.report_at = now + self.refresh(position, reported);
        if let Some((asks_at, chance)) = self.given.asks_again.filter(|_| position.left.is_some()) {
            // The client kept its place while it had no quorum. It asks once more, so that the requests behind it
            // learn that the lock is held: until then, they are told that there is no quorum.
            if now >= asks_at {
                return Conclusion::End(chance);
            }
            self.report_at = self.report_at.min(asks_at);
        }
        Conclusion::Wait
    }

    /// Notes that the lock is free although so many clients are before this one. Returns whether all of them
    /// have had the time to take it.
    fn stands_still_for_long(&mut self, ahead: u64, reported: &QueueAnswer) -> bool {
        let QueueAnswer { now, distrust, .. } = *reported;
        let known = self.stands_still.filter(|it| it.ahead.is_none_or(|it| it == ahead));
        let since = known.map_or(now, |it| it.since);
        self.stands_still = Some(StandsStill { ahead: Some(ahead), since });
        now >= since + self.patience(ahead, distrust)
    }

    /// Whether the client was told that it is near, and those before it have had the time to take the lock.
    fn is_near_for_long(&self, now: Moment) -> bool {
        let told = self.stands_still.filter(|it| it.ahead.is_none());
        told.is_some_and(|it| now >= it.since + self.leaves_turn_for())
    }

    fn leaves_turn_for(&self) -> Duration {
        self.given.target.leaves_turn_for(self.given.round_trip)
    }

    /// How long a queue stands still before a client with so many others before it asks: they find out one
    /// after the other, and the first of them after a grace.
    fn patience(&self, ahead: u64, distrust: Distrust) -> Duration {
        let places = u32::try_from(ahead.saturating_add(1)).unwrap_or(u32::MAX);
        let patience = grace(self.given.round_trip).saturating_mul(places).min(REFRESH);
        patience.max(distrust.patience(self.given.target))
    }

    /// Whether the queue node tells enough of the holder.
    fn is_trusted(&self, reported: &QueueAnswer) -> bool {
        let QueueAnswer { report, has_pushes, .. } = *reported;
        let is_renewed = matches!(report, Report::At(position) if position.is_renewed);
        let WaitTerms { is_split, was_misled, target, .. } = self.given;
        target.queue_node_suffices() && has_pushes && is_renewed && !is_split && !was_misled
    }

    /// When the next report is due.
    fn refresh(&self, position: QueuePosition, reported: &QueueAnswer) -> Duration {
        let WaitTerms { round_trip, target, .. } = self.given;
        let QueuePosition { ahead, left, .. } = position;
        let refresh = if reported.has_pushes {
            REFRESH
        } else {
            // Without pushes, the waiters in front look more often.
            let places = u32::try_from(ahead.saturating_add(1)).unwrap_or(u32::MAX);
            reported.looks_after.saturating_mul(places).min(REFRESH)
        };
        if ahead == 0 && target.looks_again_soon() {
            return refresh.min(grace(round_trip));
        }
        match left {
            // The key has expired by then, if its holder crashed.
            Some(left) if ahead == 0 => refresh.min(left.saturating_add(MIN_PAUSE)),
            // Another client has its turn, or had it.
            None if ahead == 0 && !reported.has_watch => refresh.min(grace(round_trip)),
            None if ahead > 0 && target.shows_in_queue() => {
                let since = self.stands_still.map_or(reported.now, |it| it.since);
                refresh.min((since + self.patience(ahead, reported.distrust)).since(reported.now))
            }
            _ => refresh,
        }
    }

    /// Notes what the queue has told the client. Returns the chance that comes of it.
    pub(super) fn told(&mut self, signal: Signal, now: Moment) -> Option<Chance> {
        match signal {
            Signal::Turn => return Some(Chance::Turn),
            // A node tells this to the waiter behind the turn alone, and may keep the place of a waiter that has
            // crashed before it.
            Signal::Next if self.given.target.next_asks() => return Some(Chance::Turn),
            Signal::Next => {
                if let Some(position) = &mut self.position {
                    position.ahead = 0;
                }
                self.unanswered = 0;
                self.report_at = now + self.leaves_turn_for();
                self.leaves_turn_until = now + grace(self.given.round_trip);
                self.watch_at = self.report_at;
            }
            // The turn may follow.
            Signal::Changed => self.report_at = (now + MIN_PAUSE).max(self.leaves_turn_until),
            // It keeps its place behind the next one, and looks whether the queue moves.
            Signal::Near => {
                self.stands_still = Some(StandsStill { ahead: None, since: now });
                self.report_at = now + self.leaves_turn_for();
            }
            // The node that kept the queue cannot be reached any more.
            Signal::Moved => {
                self.stands_still = None;
                self.report_at = now;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
