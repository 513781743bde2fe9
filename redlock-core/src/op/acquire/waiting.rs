//! What a client that waits for a lock does next. Pure.
//!
//! The client stands in the queue between clients, where a node keeps one, and waits for its turn. The
//! front of that queue, and a client without a queue, also watch the lock on all nodes: a holder that
//! crashed, or that does not know the queue, gives no turns.

use std::time::Duration;

use super::retries::Chance;
use crate::{
    clock::Moment,
    wait::{MIN_PAUSE, QueuePosition, REFRESH, Signal, grace, watches_after},
};

/// The circumstances in which a client begins to wait. They stay as they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Circumstances {
    pub(super) begun: Moment,
    /// When the client stops waiting.
    pub(super) end: Moment,
    pub(super) round_trip: Duration,
    /// The pause between attempts where nothing tells the client of a chance.
    pub(super) pace: Duration,
    /// The pace with its jitter.
    pub(super) polls: Duration,
    /// A node granted the lock while others refused it. Such a node says nothing of the holder: only a
    /// quorum of nodes can tell when the lock is free.
    pub(super) is_split: bool,
    /// The last attempt followed from a word of the queue, and failed.
    pub(super) was_misled: bool,
    /// The client is a reader, which may have the lock while others have it.
    pub(super) shares: bool,
    /// The client asks for a permit, and was not refused one since it stands in the queue. The answer of
    /// the queue says nothing of the other permits: one that was free in between wakes no client.
    pub(super) may_be_free: bool,
    /// The client asks for a permit, of which several may be free at once.
    pub(super) has_several: bool,
}

/// What a client has at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Surroundings {
    pub(super) now: Moment,
    /// The client stands in the queue between clients.
    pub(super) in_queue: bool,
    pub(super) watch: WatchState,
}

/// The watch on all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchState {
    None,
    /// A quorum of nodes will not report a change.
    Unarmed,
    Armed,
}

/// The answer of the queue to a report.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reported {
    pub(super) now: Moment,
    /// The place. `None` when no node keeps the queue.
    pub(super) position: Option<QueuePosition>,
    /// A push that came before the answer. It says more than the answer: a free lock may be on its way
    /// to the waiter before this one.
    pub(super) signal: Option<Signal>,
    /// The node that keeps the queue pushes to this client.
    pub(super) has_pushes: bool,
    /// Another client has its turn now.
    pub(super) yields: bool,
    pub(super) has_watch: bool,
}

/// The next step of a client that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Report to the queue between clients that this client is alive, and read its state.
    Report,
    /// Have all nodes report when the lock is free.
    Watch,
    /// Stop waiting.
    End(Chance),
    /// Sleep until then. A request behind this one that would have asked by now wakes the client, if
    /// it has waited for `quiet`.
    Sleep { until: Moment, quiet: Duration },
}

/// The conclusion from an answer of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conclusion {
    Wait,
    End(Chance),
    /// The client asks for the lock after this pause.
    EndAfter(Duration),
    /// No node keeps the queue.
    LeaveQueue,
}

/// A client that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    given: Circumstances,
    /// The place in the queue. `None` before the first report, and without a queue.
    position: Option<QueuePosition>,
    /// How often in a row the lock was free although other clients are before this one.
    looked_free: u32,
    /// When the next report to the queue is due.
    report_at: Moment,
    /// When the first in the queue begins to watch.
    watch_at: Moment,
    /// When the watch began.
    watched_at: Moment,
}

impl Waiting {
    pub(super) fn new(given: Circumstances, in_queue: bool) -> Self {
        let Circumstances { begun, round_trip, is_split, was_misled, .. } = given;
        // A client that was refused by all nodes waits for the holder to give it the turn. A watch
        // would notify between the release and the `SET`s of the next client, and the two clients
        // would split the votes.
        // A client that was given its turn and refused all the same looks for itself: the turn may have come
        // from a reader, which shares the lock with later readers until a writer has them wait.
        let relies_on_turn = in_queue && !is_split && !was_misled;
        let watch_at = if relies_on_turn { begun + watches_after(round_trip) } else { begun };
        Self {
            given,
            position: None,
            looked_free: 0,
            report_at: begun,
            watch_at,
            watched_at: begun,
        }
    }

    /// Whether no report was answered yet.
    pub(super) fn joins(&self) -> bool {
        self.position.is_none()
    }

    fn is_front(&self) -> bool {
        self.position.is_none_or(|position| position.ahead == 0)
    }

    pub(super) fn next(&self, around: &Surroundings) -> Step {
        let Surroundings { now, in_queue, watch } = *around;
        let Circumstances { end, round_trip, pace, polls, .. } = self.given;
        if in_queue && now >= self.report_at {
            return Step::Report;
        }
        let is_front = self.is_front();
        // A watch tells of one permit. The queue, and the node that keeps it, know of all.
        let looks_itself = self.given.has_several && in_queue;
        let will_watch = is_front && watch == WatchState::None && !looks_itself;
        if will_watch && now >= self.watch_at {
            return Step::Watch;
        }
        if now >= end {
            return Step::End(if is_front { Chance::Due } else { Chance::Behind });
        }
        // Nothing tells a reader that a writer has given up, or a client that another permit is free.
        let is_blind = self.given.shares || self.given.has_several;
        if is_blind && self.position.is_none() && now >= self.given.begun + REFRESH {
            return Step::End(Chance::Due);
        }
        // Where no node pushes, the first client asks from time to time.
        let poll_at = if is_front && watch == WatchState::Unarmed {
            self.watched_at + polls.max(round_trip * 2)
        } else {
            Moment::NEVER
        };
        if now >= poll_at {
            return Step::End(Chance::Due);
        }
        let watch_at = if will_watch { self.watch_at } else { Moment::NEVER };
        let look_at = if in_queue { self.report_at } else { now + REFRESH };
        let is_told = in_queue || watch == WatchState::Armed;
        Step::Sleep {
            until: end.min(poll_at).min(watch_at).min(look_at),
            quiet: if is_told { Duration::ZERO } else { pace },
        }
    }

    /// Notes that the watch has begun.
    pub(super) fn watching(&mut self, now: Moment) {
        self.watched_at = now;
    }

    /// Draws the conclusion from the answer of the queue to a report.
    pub(super) fn reported(&mut self, reported: &Reported) -> Conclusion {
        let Reported { now, position, signal, yields, .. } = *reported;
        let Circumstances { end, round_trip, is_split, was_misled, .. } = self.given;
        let is_first_report = self.joins();
        self.position = position;
        if let Some(signal) = signal {
            return self.told(signal, now).map_or(Conclusion::Wait, Conclusion::End);
        }
        let Some(position) = position else {
            self.watch_at = now;
            return Conclusion::LeaveQueue;
        };
        if self.given.has_several {
            return self.permit_reported(position, is_first_report, reported);
        }
        match position {
            // A reader may join those that are there.
            QueuePosition { ahead: 0, left: Some(_) } if self.given.shares && !is_first_report => {
                return Conclusion::End(Chance::Due);
            }
            // A client whose last attempt failed is not told twice.
            QueuePosition { ahead: 0, left: None }
                if !yields && !((is_split || was_misled) && is_first_report) =>
            {
                return Conclusion::End(Chance::Free);
            }
            QueuePosition { ahead, left: None } if ahead > 0 => {
                self.looked_free += 1;
                if self.looked_free > 1 {
                    // The front does not take the lock: the other waiters try one after the other.
                    let turn = u32::try_from(ahead).unwrap_or(u32::MAX);
                    let pause = grace(round_trip).saturating_mul(turn).min(REFRESH);
                    return Conclusion::EndAfter(pause.min(end.since(now)));
                }
            }
            _ => self.looked_free = 0,
        }
        self.report_at = now + self.refresh(position, reported);
        Conclusion::Wait
    }

    /// The front asks from time to time, because the answer tells of one permit only.
    fn permit_reported(
        &mut self,
        position: QueuePosition,
        is_first_report: bool,
        reported: &Reported,
    ) -> Conclusion {
        if position.ahead == 0 && (self.given.may_be_free || !is_first_report) {
            return Conclusion::End(Chance::Due);
        }
        self.report_at = reported.now + self.refresh(position, reported);
        Conclusion::Wait
    }

    /// When the next report is due.
    fn refresh(&self, position: QueuePosition, reported: &Reported) -> Duration {
        let Circumstances { round_trip, polls, .. } = self.given;
        let QueuePosition { ahead, left } = position;
        let refresh = if reported.has_pushes {
            REFRESH
        } else {
            // Without pushes, the waiters in front look more often.
            let places = u32::try_from(ahead.saturating_add(1)).unwrap_or(u32::MAX);
            polls.saturating_mul(places).min(REFRESH)
        };
        match left {
            // The key has expired by then, if its holder crashed.
            Some(left) if ahead == 0 => refresh.min(left.saturating_add(MIN_PAUSE)),
            // Another client has its turn, or had it.
            None if ahead == 0 && !reported.has_watch => refresh.min(grace(round_trip)),
            _ => refresh,
        }
    }

    /// Notes what the queue has told the client. Returns the chance that comes of it.
    pub(super) fn told(&mut self, signal: Signal, now: Moment) -> Option<Chance> {
        match signal {
            Signal::Turn => return Some(Chance::Turn),
            // The reader before it may have the lock, and share it.
            Signal::Next if self.given.shares => return Some(Chance::Turn),
            Signal::Next => {
                if let Some(position) = &mut self.position {
                    position.ahead = 0;
                }
                self.report_at = now + grace(self.given.round_trip);
                self.watch_at = self.report_at;
            }
            // The node that kept the queue cannot be reached any more.
            Signal::Moved => {
                self.looked_free = 0;
                self.report_at = now;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(2);

    fn at(ms: u64) -> Moment {
        Moment::ORIGIN + Duration::from_millis(ms)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Waits from 0 to 10 s, and polls every 150 ms.
    const GIVEN: Circumstances = Circumstances {
        begun: Moment::ORIGIN,
        end: Moment::NEVER,
        round_trip: ROUND_TRIP,
        pace: Duration::from_millis(100),
        polls: Duration::from_millis(150),
        is_split: false,
        was_misled: false,
        shares: false,
        may_be_free: false,
        has_several: false,
    };

    fn waiting(in_queue: bool) -> Waiting {
        Waiting::new(Circumstances { end: at(10_000), ..GIVEN }, in_queue)
    }

    fn place(ahead: u64, left: Option<u64>) -> Option<QueuePosition> {
        Some(QueuePosition { ahead, left: left.map(ms) })
    }

    /// An answer at 1 ms from a node that pushes.
    fn answer(position: Option<QueuePosition>) -> Reported {
        Reported {
            now: at(1),
            position,
            signal: None,
            has_pushes: true,
            yields: false,
            has_watch: false,
        }
    }

    /// Where the client stands: no queue, or a place in it after one report.
    fn after(position: Option<QueuePosition>) -> Waiting {
        let mut waiting = waiting(position.is_some());
        if position.is_some() {
            assert_eq!(waiting.reported(&answer(position)), Conclusion::Wait);
        }
        waiting
    }

    #[test]
    fn the_next_step() {
        use WatchState::{Armed, None as Unwatched, Unarmed};
        let front = || after(place(0, Some(5000)));
        let second = || after(place(1, Some(5000)));
        let without = || after(None);
        let sleep = |until, quiet| Step::Sleep { until: at(until), quiet: ms(quiet) };
        let refresh = 1 + 1500;
        for (waiting, now, watch, step) in [
            // Without a queue, the client watches at once, and polls where nothing is pushed.
            (without(), 0, Unwatched, Step::Watch),
            (without(), 1, Armed, sleep(1501, 0)),
            (without(), 1, Unarmed, sleep(150, 100)),
            (without(), 149, Unarmed, sleep(150, 100)),
            (without(), 150, Unarmed, Step::End(Chance::Due)),
            (without(), 9_999, Armed, sleep(10_000, 0)),
            (without(), 10_000, Armed, Step::End(Chance::Due)),
            // The front of the queue relies on its turn before it watches.
            (front(), 2, Unwatched, sleep(14, 0)),
            (front(), 14, Unwatched, Step::Watch),
            (front(), 20, Armed, sleep(refresh, 0)),
            (front(), 20, Unarmed, sleep(150, 0)),
            (front(), refresh, Armed, Step::Report),
            // The others in the queue do not watch, and are told when they are next.
            (second(), 14, Unwatched, sleep(refresh, 0)),
            (second(), refresh, Unwatched, Step::Report),
        ] {
            let in_queue = !waiting.joins();
            let around = Surroundings { now: at(now), in_queue, watch };
            assert_eq!(waiting.next(&around), step, "{waiting:?} at {now}: {watch:?}");
        }
        let late = Surroundings { now: at(10_000), in_queue: false, watch: Armed };
        assert_eq!(second().next(&late), Step::End(Chance::Behind));
        let joining = Surroundings { now: at(0), in_queue: true, watch: Unwatched };
        assert_eq!(waiting(true).next(&joining), Step::Report);
    }

    #[test]
    fn a_split_vote_is_watched_at_once() {
        let mut waiting = Waiting::new(Circumstances { is_split: true, ..GIVEN }, true);
        waiting.reported(&answer(place(0, Some(5000))));
        let around = Surroundings { now: at(1), in_queue: true, watch: WatchState::None };
        assert_eq!(waiting.next(&around), Step::Watch);
        waiting.watching(at(1));
        let unarmed = Surroundings { now: at(150), watch: WatchState::Unarmed, ..around };
        assert_eq!(waiting.next(&unarmed), Step::Sleep { until: at(151), quiet: ms(0) });
    }

    #[test]
    fn what_follows_from_an_answer_of_the_queue() {
        let yields = |answer: Reported| Reported { yields: true, ..answer };
        let told = |signal, answer: Reported| Reported { signal: Some(signal), ..answer };
        for (answer, conclusion, report_at) in [
            (answer(None), Conclusion::LeaveQueue, 0),
            (answer(place(0, None)), Conclusion::End(Chance::Free), 0),
            (yields(answer(place(0, None))), Conclusion::Wait, 1 + 108),
            (answer(place(0, Some(5000))), Conclusion::Wait, 1 + 1500),
            (answer(place(0, Some(300))), Conclusion::Wait, 1 + 300 + 1),
            (answer(place(2, None)), Conclusion::Wait, 1 + 1500),
            (answer(place(2, Some(300))), Conclusion::Wait, 1 + 1500),
            (told(Signal::Turn, answer(place(0, None))), Conclusion::End(Chance::Turn), 0),
            (told(Signal::Turn, answer(None)), Conclusion::End(Chance::Turn), 0),
            (told(Signal::Next, answer(place(1, None))), Conclusion::Wait, 1 + 108),
            (told(Signal::Moved, answer(place(1, None))), Conclusion::Wait, 1),
        ] {
            let mut waiting = waiting(true);
            assert_eq!(waiting.reported(&answer), conclusion, "{answer:?}");
            assert_eq!(waiting.report_at, at(report_at), "{answer:?}");
        }
    }

    #[test]
    fn without_pushes_the_first_in_the_queue_look_more_often() {
        for (ahead, has_pushes, has_watch, report_at) in [
            (0, false, true, 1 + 150),
            (0, false, false, 1 + 108),
            (3, false, true, 1 + 600),
            (50, false, true, 1 + 1500),
            (0, true, true, 1 + 1500),
        ] {
            let mut waiting = waiting(true);
            let free = answer(place(ahead, None));
            let answer = Reported { has_pushes, has_watch, yields: true, ..free };
            assert_eq!(waiting.reported(&answer), Conclusion::Wait);
            assert_eq!(waiting.report_at, at(report_at), "{answer:?}");
        }
    }

    #[test]
    fn a_client_whose_last_attempt_failed_does_not_believe_the_first_answer() {
        for given in
            [Circumstances { is_split: true, ..GIVEN }, Circumstances { was_misled: true, ..GIVEN }]
        {
            let mut waiting = Waiting::new(given, true);
            let free = answer(place(0, None));
            assert_eq!(waiting.reported(&free), Conclusion::Wait);
            assert_eq!(waiting.reported(&free), Conclusion::End(Chance::Free));
        }
    }

    #[test]
    fn waiters_behind_a_front_that_does_not_take_the_lock_try_one_after_the_other() {
        for (ahead, end, pause) in
            [(1, 10_000, 108), (3, 10_000, 324), (99, 10_000, 1500), (3, 50, 49)]
        {
            let mut waiting = Waiting::new(Circumstances { end: at(end), ..GIVEN }, true);
            let free = answer(place(ahead, None));
            assert_eq!(waiting.reported(&free), Conclusion::Wait, "the front may be asking");
            assert_eq!(waiting.reported(&free), Conclusion::EndAfter(ms(pause)));
        }
        let mut waiting = waiting(true);
        for _ in 0..5 {
            let (free, held) = (answer(place(1, None)), answer(place(1, Some(100))));
            assert_eq!(waiting.reported(&free), Conclusion::Wait);
            assert_eq!(waiting.reported(&held), Conclusion::Wait, "another client took it");
        }
    }

    #[test]
    fn the_next_waiter_looks_for_itself_when_the_turn_is_not_used() {
        let mut waiting = after(place(4, Some(5000)));
        assert_eq!(waiting.told(Signal::Next, at(50)), None);
        let around = |now| Surroundings { now: at(now), in_queue: true, watch: WatchState::None };
        assert_eq!(waiting.next(&around(157)), Step::Sleep { until: at(158), quiet: ms(0) });
        assert_eq!(waiting.next(&around(158)), Step::Report);
        assert_eq!(
            waiting.reported(&Reported { now: at(159), ..answer(place(0, Some(5000))) }),
            Conclusion::Wait
        );
        assert_eq!(waiting.next(&around(159)), Step::Watch);
    }

    #[test]
    fn a_queue_that_has_moved_is_joined_at_once() {
        let mut waiting = after(place(0, Some(5000)));
        assert_eq!(waiting.told(Signal::Moved, at(50)), None);
        let around = Surroundings { now: at(50), in_queue: true, watch: WatchState::Armed };
        assert_eq!(waiting.next(&around), Step::Report);
        assert_eq!(waiting.told(Signal::Turn, at(51)), Some(Chance::Turn));
    }

    /// A waiter for a permit asks its queue, which tells of all permits. A watch tells of one.
    #[test]
    fn a_waiter_for_a_permit_watches_only_without_a_queue() {
        let given = Circumstances { has_several: true, end: at(10_000), ..GIVEN };
        let mut waiting = Waiting::new(given, true);
        assert_eq!(waiting.reported(&answer(place(0, Some(5000)))), Conclusion::Wait);
        let around =
            |now, in_queue| Surroundings { now: at(now), in_queue, watch: WatchState::None };
        let until = at(1 + 1500);
        assert_eq!(waiting.next(&around(1400, true)), Step::Sleep { until, quiet: ms(0) });
        assert_eq!(waiting.next(&around(1501, true)), Step::Report);
        assert_eq!(Waiting::new(given, false).next(&around(0, false)), Step::Watch);
    }

    /// The answer of the queue tells of one permit, and another one may be free.
    #[test]
    fn the_front_of_the_waiters_for_permits_asks_at_each_report() {
        for (may_be_free, first) in
            [(true, Conclusion::End(Chance::Due)), (false, Conclusion::Wait)]
        {
            let given = Circumstances { has_several: true, may_be_free, ..GIVEN };
            let front = answer(place(0, Some(5000)));
            let mut waiting = Waiting::new(given, true);
            assert_eq!(waiting.reported(&front), first, "{may_be_free}");
            assert_eq!(waiting.reported(&front), Conclusion::End(Chance::Due));
            let mut behind = Waiting::new(given, true);
            for _ in 0..3 {
                assert_eq!(behind.reported(&answer(place(1, None))), Conclusion::Wait);
            }
        }
    }
}
