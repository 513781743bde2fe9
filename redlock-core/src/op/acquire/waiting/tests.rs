//! What a waiting client does, by how it came to wait and what it sees.

mod polls;
mod targets;
mod turns;

use super::*;
use crate::op::acquire::target::Target;

const ROUND_TRIP: Duration = Duration::from_millis(2);

fn at(ms: u64) -> Moment {
    Moment::ORIGIN + Duration::from_millis(ms)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Waits from 0 to 10 s, and polls every 150 ms.
const GIVEN: WaitTerms = WaitTerms {
    begun: Moment::ORIGIN,
    end: Moment::NEVER,
    round_trip: ROUND_TRIP,
    pace: Duration::from_millis(100),
    polls: Duration::from_millis(150),
    is_split: false,
    asks_again: None,
    deaf_until: Moment::ORIGIN,
    was_misled: false,
    was_set_refused: false,
    target: Target::Lock,
};

const PERMIT: Target = Target::Permit { was_refused_in_queue: true, had_turn: false };

fn waiting(in_queue: bool) -> WaitPlan {
    WaitPlan::new(WaitTerms { end: at(10_000), ..GIVEN }, in_queue)
}

/// What a client sees that stands in the queue, while no other client has its turn.
fn kept(now: u64, watch: WatchState) -> Snapshot {
    Snapshot { now: at(now), in_queue: true, watch, turn_of_others: None }
}

fn place(ahead: u64, left: Option<u64>) -> Option<QueuePosition> {
    let turn_is_out = ahead > 0 || left.is_some();
    let left = left.map(ms);
    Some(QueuePosition { ahead, left, is_renewed: false, turn_is_out, may_share: false })
}

/// The place before a lock that its holder renews.
fn renewed(ahead: u64, left: u64) -> Option<QueuePosition> {
    place(ahead, Some(left)).map(|place| QueuePosition { is_renewed: true, ..place })
}

/// An answer at 1 ms from a node that pushes.
fn answer(position: Option<QueuePosition>) -> QueueAnswer {
    QueueAnswer {
        now: at(1),
        report: position.map_or(Report::NoQueue, Report::At),
        signal: None,
        has_pushes: true,
        turn_of_others: None,
        has_watch: false,
        looks_after: GIVEN.polls,
        distrust: Distrust::default(),
    }
}

/// No answer in time, at 51 ms.
fn no_answer() -> QueueAnswer {
    QueueAnswer { now: at(51), report: Report::Unanswered, ..answer(None) }
}

/// Where the client stands: no queue, or a place in it after one report.
fn after(position: Option<QueuePosition>) -> WaitPlan {
    let mut waiting = waiting(position.is_some());
    if position.is_some() {
        assert_eq!(waiting.reported(&answer(position)), Conclusion::Wait);
    }
    waiting
}

#[test]
fn a_node_that_goes_on_refusing_is_asked_less_and_less_often() {
    let mut waiting = waiting(true);
    let pauses: Vec<_> = (0..20)
        .map(|_| {
            assert_eq!(waiting.reported(&no_answer()), Conclusion::Wait);
            waiting.report_at.since(at(51))
        })
        .collect();
    assert!(pauses.is_sorted() && pauses[1] == pauses[0], "{pauses:?}");
    assert!(pauses[5] > pauses[2] && pauses[19] == REFRESH, "{pauses:?}");
}

#[test]
fn the_next_step() {
    use WatchState::{Armed, None as Unwatched, QueueNode, Unarmed};
    let front = || after(place(0, Some(5000)));
    let renewed = || after(renewed(0, 5000));
    let second = || after(place(1, Some(5000)));
    let without = || after(None);
    let sleep = |until, quiet| Step::Sleep { until: at(until), quiet: ms(quiet) };
    let refresh = 1 + 1500;
    for (mut waiting, now, watch, step) in [
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
        (front(), 20, QueueNode, Step::Watch),
        (renewed(), 14, Unwatched, Step::Follow),
        (renewed(), 20, QueueNode, sleep(refresh, 0)),
        (front(), 20, Armed, sleep(refresh, 0)),
        (front(), 20, Unarmed, sleep(150, 0)),
        (front(), refresh, Armed, Step::Report),
        // The others in the queue do not watch, and are told when they are next.
        (second(), 14, Unwatched, sleep(refresh, 0)),
        (second(), refresh, Unwatched, Step::Report),
    ] {
        let in_queue = !waiting.joins();
        let around = Snapshot { now: at(now), in_queue, watch, turn_of_others: None };
        assert_eq!(waiting.next(&around), step, "{waiting:?} at {now}: {watch:?}");
    }
    let late = Snapshot { now: at(10_000), in_queue: false, watch: Armed, turn_of_others: None };
    assert_eq!(second().next(&late), Step::End(Chance::Behind));
    // While another client has its turn, neither the end nor a poll is a chance.
    let turn_of_others = Some(at(10_050));
    let yields = Snapshot { turn_of_others, ..late };
    assert_eq!(front().next(&yields), Step::End(Chance::Behind));
    // It has just been told that it is next: another client has its turn, and has not used it yet.
    let mut told = front();
    assert_eq!(told.told(Signal::Next, at(9950)), None);
    assert_eq!(told.next(&late), Step::End(Chance::Behind));
    let later = Snapshot { now: at(9950 + 108), ..late };
    assert_eq!(told.next(&later), Step::End(Chance::Due));
    let unarmed = Snapshot { now: at(150), watch: Unarmed, turn_of_others: Some(at(180)), ..late };
    assert_eq!(without().next(&unarmed), sleep(180, 100));
    let joining = Snapshot { now: at(0), in_queue: true, watch: Unwatched, turn_of_others: None };
    assert_eq!(waiting(true).next(&joining), Step::Report);
}

/// A crowd that a busy node has not answered must not ask all nodes to watch the lock.
#[test]
fn a_client_whose_report_is_not_answered_in_time_stays_in_the_queue_and_asks_again() {
    let again = 51 + 108;
    let sleep = |until| Step::Sleep { until: at(until), quiet: ms(0) };
    for (mut waiting, watches) in [
        (waiting(true), false),
        (after(place(1, Some(5000))), false),
        (after(place(0, Some(5000))), true),
    ] {
        assert_eq!(waiting.reported(&no_answer()), Conclusion::Wait, "{waiting:?}");
        let around = |now| kept(now, WatchState::None);
        let next = if watches { Step::Watch } else { sleep(again) };
        assert_eq!(waiting.next(&around(60)), next, "{waiting:?}");
        assert_eq!(waiting.next(&around(again)), Step::Report, "{waiting:?}");
    }
    let mut waiting = waiting(true);
    waiting.reported(&no_answer());
    let turn = QueueAnswer { signal: Some(Signal::Turn), ..no_answer() };
    assert_eq!(waiting.reported(&turn), Conclusion::End(Chance::Turn));
    assert_eq!(waiting.told(Signal::Next, at(60)), None);
    let around = |now| kept(now, WatchState::None);
    assert_eq!(waiting.next(&around(60 + 108)), Step::Report);
    waiting.report_at = Moment::NEVER;
    assert_eq!(waiting.next(&around(60 + 108)), Step::Watch, "it is the front");
}

/// The node may hang: the client must not sleep until it stops waiting.
#[test]
fn a_client_that_never_hears_its_place_watches_and_asks_in_the_end() {
    let around = |now| kept(now, WatchState::None);
    let given = WaitTerms { end: at(150), ..GIVEN };
    let mut waiting = WaitPlan::new(given, true);
    for _ in 0..MAX_UNANSWERED {
        waiting.reported(&no_answer());
        assert_eq!(waiting.next(&around(60)), Step::Sleep { until: at(150), quiet: ms(0) });
        assert_eq!(waiting.next(&around(150)), Step::End(Chance::Due));
    }
    waiting.reported(&no_answer());
    assert_eq!(waiting.next(&around(60)), Step::Watch);
    assert!(!waiting.is_behind());
    waiting.reported(&answer(place(1, Some(5000))));
    assert!(waiting.is_behind(), "others watch");
    // The entry goes with the reports that do not get there, and no release gives it the turn any more.
    for _ in 0..MAX_UNANSWERED {
        waiting.reported(&no_answer());
        assert!(waiting.is_behind() && waiting.next(&around(60)) != Step::Watch);
    }
    waiting.reported(&no_answer());
    assert!(!waiting.is_behind());
    assert_eq!(waiting.next(&around(60)), Step::Watch);
}

#[test]
fn a_split_vote_is_watched_at_once() {
    let mut waiting = WaitPlan::new(WaitTerms { is_split: true, ..GIVEN }, true);
    waiting.reported(&answer(place(0, Some(5000))));
    let around = kept(1, WatchState::None);
    assert_eq!(waiting.next(&around), Step::Watch);
    waiting.watching(at(1));
    let unarmed = Snapshot { now: at(150), watch: WatchState::Unarmed, ..around };
    assert_eq!(waiting.next(&unarmed), Step::Sleep { until: at(151), quiet: ms(0) });
}

#[test]
fn what_follows_from_an_answer_of_the_queue() {
    let yields = |answer| QueueAnswer { turn_of_others: Some(at(150)), ..answer };
    let told = |signal, answer: QueueAnswer| QueueAnswer { signal: Some(signal), ..answer };
    for (answer, conclusion, report_at) in [
        (answer(None), Conclusion::LeaveQueue, 0),
        (answer(place(0, None)), Conclusion::End(Chance::Free), 0),
        (yields(answer(place(0, None))), Conclusion::Wait, 1 + 108),
        (answer(place(0, Some(5000))), Conclusion::Wait, 1 + 1500),
        (answer(place(0, Some(300))), Conclusion::Wait, 1 + 300 + 1),
        (answer(place(2, None)), Conclusion::Wait, 1 + 324),
        (answer(place(2, Some(300))), Conclusion::Wait, 1 + 1500),
        (told(Signal::Turn, answer(place(0, None))), Conclusion::End(Chance::Turn), 0),
        (told(Signal::Turn, answer(None)), Conclusion::End(Chance::Turn), 0),
        (told(Signal::Next, answer(place(1, None))), Conclusion::Wait, 1 + 108),
        (told(Signal::Near, answer(place(0, None))), Conclusion::Wait, 1 + 108),
        (told(Signal::Moved, answer(place(1, None))), Conclusion::Wait, 1),
    ] {
        let mut waiting = waiting(true);
        assert_eq!(waiting.reported(&answer), conclusion, "{answer:?}");
        assert_eq!(waiting.report_at, at(report_at), "{answer:?}");
    }
}

#[test]
fn without_pushes_the_first_in_the_queue_look_more_often() {
    for (ahead, left, has_pushes, has_watch, report_at) in [
        (0, None, false, true, 1 + 150),
        (0, None, false, false, 1 + 108),
        (3, Some(5000), false, true, 1 + 600),
        (50, Some(5000), false, true, 1 + 1500),
        (0, None, true, true, 1 + 1500),
    ] {
        let mut waiting = waiting(true);
        let answer = answer(place(ahead, left));
        let turn_of_others = Some(at(150));
        let answer = QueueAnswer { has_pushes, has_watch, turn_of_others, ..answer };
        assert_eq!(waiting.reported(&answer), Conclusion::Wait);
        assert_eq!(waiting.report_at, at(report_at), "{answer:?}");
    }
}

/// A client that is far away would look at the same moment of each turn, and miss all of its own.
#[test]
fn without_pushes_the_next_look_is_after_another_pause_each_time() {
    let mut waiting = waiting(true);
    for (now, pause) in [(1, 150), (151, 120), (271, 101)] {
        let answer = answer(place(0, Some(5000)));
        let answer =
            QueueAnswer { now: at(now), has_pushes: false, looks_after: ms(pause), ..answer };
        assert_eq!(waiting.reported(&answer), Conclusion::Wait);
        assert_eq!(waiting.report_at, at(now + pause));
    }
}

/// A watch would tell of the release before the next client has the lock, and the two would split the votes.
#[test]
fn a_watch_waits_for_the_turn_unless_the_last_attempt_was_refused_for_another_reason() {
    let later = watches_after(ROUND_TRIP);
    for (given, in_queue, begins) in [
        (GIVEN, true, later),
        (GIVEN, false, Duration::ZERO),
        (WaitTerms { is_split: true, ..GIVEN }, true, Duration::ZERO),
        (WaitTerms { was_misled: true, ..GIVEN }, true, Duration::ZERO),
        (WaitTerms { was_set_refused: true, ..GIVEN }, true, Duration::ZERO),
    ] {
        assert_eq!(WaitPlan::new(given, in_queue).watch_at, GIVEN.begun + begins, "{given:?}");
    }
}

#[test]
fn a_client_whose_last_attempt_failed_does_not_believe_the_first_answer() {
    for given in [WaitTerms { is_split: true, ..GIVEN }, WaitTerms { was_misled: true, ..GIVEN }] {
        let mut waiting = WaitPlan::new(given, true);
        let free = answer(place(0, None));
        assert_eq!(waiting.reported(&free), Conclusion::Wait);
        assert_eq!(waiting.reported(&free), Conclusion::End(Chance::Free));
    }
}

#[test]
fn waiters_behind_a_front_that_does_not_take_the_lock_try_one_after_the_other() {
    for (ahead, in_vain, pause) in
        [(1, 0, 216), (3, 0, 432), (99, 0, 1500), (1, 1, 1500), (1, 2, 3000)]
    {
        let mut distrust = Distrust::default();
        (0..in_vain).for_each(|_| distrust.asks(Chance::StandsStill));
        let free = |now| QueueAnswer { now: at(now), distrust, ..answer(place(ahead, None)) };
        let mut waiting = WaitPlan::new(GIVEN, true);
        assert_eq!(waiting.reported(&free(1)), Conclusion::Wait, "the front may be asking");
        assert_eq!(waiting.report_at, at(1 + pause.min(1500)));
        // A push from another node had it look early.
        assert_eq!(waiting.reported(&free(100)), Conclusion::Wait);
        assert_eq!(waiting.reported(&free(1 + pause)), Conclusion::End(Chance::StandsStill));
        // The queue may have moved in between.
        let mut moved = WaitPlan::new(GIVEN, true);
        assert_eq!(moved.reported(&free(1)), Conclusion::Wait);
        assert_eq!(moved.told(Signal::Moved, at(1 + pause)), None);
        assert_eq!(moved.reported(&free(1 + pause)), Conclusion::Wait);
    }
    // A client that is told that it is near knows since when the queue stands still.
    let mut near = after(place(2, Some(5000)));
    assert_eq!(near.told(Signal::Near, at(50)), None);
    for (now, report_at) in [(159, 50 + 216), (267, 0)] {
        let free = QueueAnswer { now: at(now), ..answer(place(1, None)) };
        let asks = report_at == 0;
        let stands_still = Conclusion::End(Chance::StandsStill);
        let conclusion = if asks { stands_still } else { Conclusion::Wait };
        assert_eq!(near.reported(&free), conclusion);
        assert!(asks || near.report_at == at(report_at), "{near:?}");
    }
    let mut waiting = waiting(true);
    for _ in 0..5 {
        let (free, held) = (answer(place(1, None)), answer(place(1, Some(100))));
        assert_eq!(waiting.reported(&free), Conclusion::Wait);
        assert_eq!(waiting.reported(&held), Conclusion::Wait, "another client took it");
    }
    for ahead in [9, 8, 7, 6] {
        let free = QueueAnswer { now: at(10_000 - ahead * 1000), ..answer(place(ahead, None)) };
        assert_eq!(waiting.reported(&free), Conclusion::Wait, "the queue moves on");
    }
}

#[test]
fn a_queue_that_has_moved_is_joined_at_once() {
    let mut waiting = after(place(0, Some(5000)));
    assert_eq!(waiting.told(Signal::Moved, at(50)), None);
    let around = kept(50, WatchState::Armed);
    assert_eq!(waiting.next(&around), Step::Report);
    assert_eq!(waiting.told(Signal::Turn, at(51)), Some(Chance::Turn));
}

/// The queue node tells of a release. A watch on all nodes would have the client ask at each
/// renewal.
#[test]
fn the_front_watches_all_nodes_only_where_the_queue_node_may_not_know() {
    let held = answer(renewed(0, 5000));
    let follows = |given, reports: &[QueueAnswer]| {
        let mut waiting = WaitPlan::new(WaitTerms { end: at(90_000), ..given }, true);
        for report in reports {
            assert_eq!(waiting.reported(report), Conclusion::Wait);
        }
        let now = waiting.watch_at.max(reports.last().unwrap().now);
        let around = |watch| Snapshot { now, in_queue: true, watch, turn_of_others: None };
        let unwatched = waiting.next(&around(WatchState::None));
        // A client that follows the lock begins to watch as soon as that is not enough.
        let following = waiting.next(&around(WatchState::QueueNode));
        assert_eq!(unwatched == Step::Watch, following == Step::Watch, "{waiting:?}");
        unwatched == Step::Follow
    };
    assert!(follows(GIVEN, &[held]));
    assert!(!follows(GIVEN, &[held, answer(place(0, Some(2000)))]), "it is late");
    assert!(!follows(GIVEN, &[held, no_answer()]), "the node may hang");
    let unheard = QueueAnswer { has_pushes: false, ..held };
    assert!(!follows(GIVEN, &[unheard]), "it pushes nothing");
    assert!(!follows(WaitTerms { is_split: true, ..GIVEN }, &[held]));
    assert!(!follows(WaitTerms { was_misled: true, ..GIVEN }, &[held]));
    let reader = WaitTerms { target: Target::Part, ..GIVEN };
    assert!(!follows(reader, &[held]), "it would ask at each report");
}

#[test]
fn a_change_of_the_lock_has_its_client_report() {
    let mut waiting = after(renewed(0, 5000));
    assert_eq!(waiting.told(Signal::Changed, at(50)), None);
    let around = |now| kept(now, WatchState::QueueNode);
    assert_eq!(waiting.next(&around(50)), Step::Sleep { until: at(51), quiet: ms(0) });
    assert_eq!(waiting.next(&around(51)), Step::Report);
    assert_eq!(waiting.told(Signal::Turn, at(51)), Some(Chance::Turn));
}
