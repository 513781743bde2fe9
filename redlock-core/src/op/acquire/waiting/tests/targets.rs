//! What readers, and waiters for permits, do otherwise.

use super::*;

/// A waiter for a permit asks its queue, which tells of all permits. A watch tells of one.
#[test]
fn a_waiter_for_a_permit_watches_only_without_a_queue() {
    let given = WaitTerms { target: PERMIT, end: at(10_000), ..GIVEN };
    let mut waiting = WaitPlan::new(given, true);
    assert_eq!(waiting.reported(&answer(place(0, Some(5000)))), Conclusion::Wait);
    let around = |now, in_queue| Snapshot {
        now: at(now),
        in_queue,
        watch: WatchState::None,
        turn_of_others: None,
    };
    let until = at(1 + 1500);
    assert_eq!(waiting.next(&around(1400, true)), Step::Sleep { until, quiet: ms(0) });
    assert_eq!(waiting.next(&around(1501, true)), Step::Report);
    assert_eq!(WaitPlan::new(given, false).next(&around(0, false)), Step::Watch);
}

/// The answer of the queue tells of one permit, and another one may be free.
#[test]
fn the_front_of_the_waiters_for_permits_asks_at_each_report() {
    for (was_refused_in_queue, first) in
        [(false, Conclusion::End(Chance::Free)), (true, Conclusion::Wait)]
    {
        let given =
            WaitTerms { target: Target::Permit { was_refused_in_queue, had_turn: false }, ..GIVEN };
        let front = answer(place(0, Some(5000)));
        let mut waiting = WaitPlan::new(given, true);
        assert_eq!(waiting.reported(&front), first, "{was_refused_in_queue}");
        assert_eq!(waiting.reported(&front), Conclusion::End(Chance::Again));
        let later = QueueAnswer { now: at(150), ..front };
        assert_eq!(waiting.reported(&later), Conclusion::End(Chance::Due), "it is a retry");
        let mut behind = WaitPlan::new(given, true);
        for _ in 0..3 {
            assert_eq!(behind.reported(&answer(place(1, None))), Conclusion::Wait);
        }
    }
}

/// A permit is kept for the waiter with the turn. At the end of its time the next one asks all the same.
#[test]
fn the_next_waiter_for_a_permit_looks_when_none_is_kept_any_more() {
    let mut waiting = WaitPlan::new(WaitTerms { target: PERMIT, end: at(10_000), ..GIVEN }, true);
    assert_eq!(waiting.reported(&answer(place(1, Some(5000)))), Conclusion::Wait);
    assert_eq!(waiting.told(Signal::Next, at(50)), None);
    let around = |now| kept(now, WatchState::None);
    assert_eq!(waiting.next(&around(1050)), Step::Sleep { until: at(1051), quiet: ms(0) });
    assert_eq!(waiting.next(&around(1051)), Step::Report);
    assert!(!waiting.may_ask(&around(157)));
    assert!(waiting.may_ask(&around(158)));
}

/// A reader may have the lock while others have it.
#[test]
fn a_reader_asks_although_the_lock_is_taken() {
    let given = WaitTerms { target: Target::Part, end: at(10_000), ..GIVEN };
    let taken = answer(place(0, Some(5000)));
    let mut waiting = WaitPlan::new(given, true);
    assert_eq!(waiting.reported(&taken), Conclusion::Wait, "it was refused just now");
    assert_eq!(waiting.reported(&taken), Conclusion::End(Chance::Again));
    let later = QueueAnswer { now: at(150), ..taken };
    assert_eq!(waiting.reported(&later), Conclusion::End(Chance::Due), "it is a retry");
    assert_eq!(waiting.told(Signal::Next, at(50)), Some(Chance::Turn));
    let mut behind = WaitPlan::new(given, true);
    for _ in 0..3 {
        assert_eq!(behind.reported(&answer(place(2, Some(5000)))), Conclusion::Wait);
    }
    assert_eq!(behind.told(Signal::Near, at(50)), None);
    let taken = |now| QueueAnswer { now: at(now), ..answer(place(2, Some(5000))) };
    assert_eq!(
        behind.reported(&taken(157)),
        Conclusion::Wait,
        "those before it may be about to share it"
    );
    let mut behind = WaitPlan::new(given, true);
    behind.told(Signal::Near, at(50));
    assert_eq!(
        behind.reported(&taken(158)),
        Conclusion::End(Chance::Turn),
        "they may have crashed"
    );
    assert_eq!(behind.told(Signal::Next, at(159)), Some(Chance::Turn), "the others have gone");
}

/// The queue node says that readers have the lock, and that no writer has this reader wait.
#[test]
fn a_reader_that_may_share_the_lock_asks_at_once_and_not_again_and_again() {
    let shares = |ahead, now| {
        let answer = answer(place(ahead, Some(5000)));
        let Report::At(position) = answer.report else { unreachable!() };
        let report = Report::At(QueuePosition { may_share: true, ..position });
        QueueAnswer { now: at(now), report, ..answer }
    };
    let given = WaitTerms { target: Target::Part, end: at(10_000), ..GIVEN };
    let asks = Conclusion::End(Chance::Free);
    assert_eq!(WaitPlan::new(given, true).reported(&shares(0, 1)), asks);
    let mut behind = WaitPlan::new(given, true);
    assert_eq!(
        behind.reported(&shares(1, 1)),
        Conclusion::Wait,
        "a writer may be about to stop it"
    );
    assert_eq!(behind.reported(&shares(1, 1501)), asks);
    let mut split = WaitPlan::new(WaitTerms { is_split: true, ..given }, true);
    for now in [1, 1501, 9001] {
        assert_eq!(split.reported(&shares(1, now)), Conclusion::Wait, "one node may be wrong");
    }
    let mut distrust = Distrust::default();
    (0..9).for_each(|_| distrust.asks(Chance::Free));
    let mut in_vain = WaitPlan::new(given, true);
    let doubted = |now| QueueAnswer { distrust, ..shares(1, now) };
    assert_eq!(in_vain.reported(&doubted(1)), Conclusion::Wait);
    assert_eq!(in_vain.reported(&doubted(1400)), Conclusion::Wait, "it has asked in vain often");
    assert_eq!(in_vain.reported(&doubted(1501)), asks);
    for misled in [WaitTerms { was_misled: true, ..given }, WaitTerms { is_split: true, ..given }] {
        let mut waiting = WaitPlan::new(misled, true);
        assert_eq!(waiting.reported(&shares(0, 1)), Conclusion::Wait);
        assert!(matches!(waiting.reported(&shares(0, 1501)), Conclusion::End(_)));
    }
}

/// No push tells that a writer has given up, or that another permit is free.
#[test]
fn a_client_that_is_not_told_of_every_chance_asks_by_itself_without_a_queue() {
    for (target, step) in [
        (Target::Lock, Step::Sleep { until: at(3000), quiet: ms(0) }),
        (Target::Part, Step::End(Chance::Due)),
        (PERMIT, Step::End(Chance::Due)),
    ] {
        let given = WaitTerms { target, end: at(10_000), ..GIVEN };
        let around = Snapshot {
            now: at(1500),
            in_queue: false,
            watch: WatchState::Armed,
            turn_of_others: None,
        };
        assert_eq!(WaitPlan::new(given, false).next(&around), step, "{target:?}");
    }
}
