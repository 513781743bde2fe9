//! What a waiter does while another client has its turn.

use super::*;

/// The first that a watch would tell is that the other client takes the lock.
#[test]
fn no_watch_begins_before_a_free_lock_in_the_turn_of_another_client() {
    for (left, watches_at) in [(None, 50), (Some(5000), 14)] {
        let mut waiting = waiting(true);
        let turn_of_others = Some(at(50));
        waiting.reported(&QueueAnswer { turn_of_others, ..answer(place(0, left)) });
        let around = |now| Snapshot { turn_of_others, ..kept(now, WatchState::None) };
        let begins = (1..200).find(|now| waiting.next(&around(*now)) == Step::Watch);
        assert_eq!(begins, Some(watches_at), "{left:?}");
    }
    // It was told that it is next, which counts for longer.
    let mut waiting = waiting(true);
    assert_eq!(waiting.told(Signal::Next, at(1)), None);
    waiting.reported(&QueueAnswer {
        now: at(2),
        turn_of_others: Some(at(50)),
        ..answer(place(0, None))
    });
    let begins = (2..200).find(|now| waiting.next(&kept(*now, WatchState::None)) == Step::Watch);
    assert_eq!(begins, Some(109));
}

#[test]
fn the_next_waiter_looks_for_itself_when_the_turn_is_not_used() {
    let mut waiting = after(place(4, Some(5000)));
    assert_eq!(waiting.told(Signal::Next, at(50)), None);
    let around = |now| kept(now, WatchState::None);
    assert_eq!(waiting.next(&around(157)), Step::Sleep { until: at(158), quiet: ms(0) });
    assert_eq!(waiting.next(&around(158)), Step::Report);
    assert_eq!(
        waiting.reported(&QueueAnswer { now: at(159), ..answer(place(0, Some(5000))) }),
        Conclusion::Wait
    );
    assert_eq!(waiting.next(&around(159)), Step::Watch);
}

/// The client before it may be about to take the lock.
#[test]
fn a_waiter_that_is_near_looks_whether_the_queue_moves_and_keeps_behind() {
    let mut waiting = after(place(2, Some(5000)));
    assert_eq!(waiting.told(Signal::Near, at(50)), None);
    let around = |now| kept(now, WatchState::None);
    assert_eq!(waiting.next(&around(157)), Step::Sleep { until: at(158), quiet: ms(0) });
    assert_eq!(waiting.next(&around(158)), Step::Report);
    assert_eq!(waiting.reported(&QueueAnswer { now: at(159), ..no_answer() }), Conclusion::Wait);
    let sleeps = Step::Sleep { until: at(159 + 108), quiet: ms(0) };
    assert_eq!(waiting.next(&around(159)), sleeps, "a watch is for the front");
    assert!(waiting.is_behind());
}

/// The turn may be right behind the change.
#[test]
fn a_client_that_was_told_that_it_is_next_does_not_report_at_each_change() {
    let mut waiting = after(renewed(0, 5000));
    assert_eq!(waiting.told(Signal::Next, at(50)), None);
    assert_eq!(waiting.told(Signal::Changed, at(51)), None);
    let around = |now| kept(now, WatchState::QueueNode);
    assert_eq!(waiting.next(&around(51)), Step::Sleep { until: at(50 + 108), quiet: ms(0) });
    assert_eq!(waiting.next(&around(50 + 108)), Step::Report);
}
