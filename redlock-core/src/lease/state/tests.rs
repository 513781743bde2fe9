//! Judges holds at chosen readings of the clock.

use super::*;
use crate::{Redlock, fence::Range, node::Claim, options::LockOptions, quorum::names};

/// More than the drift allowance.
const SECOND: Duration = Duration::from_secs(1);
const NONE: Duration = Duration::ZERO;
const DOUBT_LIMIT: Duration = Duration::from_millis(100);

struct Held {
    state: HoldState,
    round: Arc<Round>,
}

fn reading(ms: u64, missed: Duration) -> Reading {
    Reading { now: Moment::ORIGIN + Duration::from_millis(ms), missed }
}

/// A hold since the origin of time, with a ttl of 10 s. Its renewal is due at a third of that.
fn held() -> Held {
    let options = LockOptions::new().ttl(Duration::from_secs(10));
    let terms = Redlock::in_memory(1).client().settings.terms(&options).unwrap();
    let round = Round::new(&names(3), |_| false);
    let claim = Arc::new(Claim::new(&"k".into(), "v".into()));
    let lease = LeaseState::sought(claim, &terms, reading(0, NONE), &round);
    let state = HoldState::new(lease, &terms, Moment::NEVER, DOUBT_LIMIT);
    Held { state, round }
}

impl Held {
    fn judge(&mut self, reading: Reading) -> (Judgement, Todo) {
        self.state.advance(reading)
    }

    fn renewed(&mut self, start: Reading, reading: Reading) -> bool {
        let ttl = self.state.renewal_ttl();
        self.state.renewed(start, ttl, None, Arc::clone(&self.round), reading)
    }
}

const DOUBTFUL: Judgement = Judgement::Doubtful;
const EXPIRED: Judgement = Judgement::Ended(End::Lost(LostReason::Expired));

fn is_valid(judged: (Judgement, Todo)) -> bool {
    matches!(judged, (Judgement::Valid(_), Todo::Nothing))
}

#[test]
fn a_doubt_counts_from_its_own_renewal() {
    let mut held = held();
    let end = held.state.lease.deadline;
    for ms in [1000, 5000, 9000] {
        let judged = held.judge(reading(ms, SECOND));
        assert_eq!(judged, (DOUBTFUL, Todo::Renew(end)), "its turn has not come");
    }
    let sent = reading(9100, SECOND);
    let look_again = held.state.renewal_sent(sent.now, Duration::from_secs(10));
    assert_eq!(look_again, Some(sent.now + DOUBT_LIMIT));
    assert_eq!(held.judge(reading(9199, SECOND)), (DOUBTFUL, Todo::Nothing));
    let lost = Todo::TellLoss(LostReason::Expired);
    assert_eq!(held.judge(reading(9200, SECOND)), (EXPIRED, lost));
    assert_eq!(held.judge(reading(9200, SECOND)), (EXPIRED, Todo::Nothing), "told once");
}

/// A holder that hangs would keep it for longer with each doubt.
#[test]
fn a_lock_that_does_not_renew_itself_ends_when_it_was_meant_to() {
    for (renews_itself, is_longer) in [(true, true), (false, false)] {
        let mut held = held();
        let end = held.state.lease.deadline;
        if !renews_itself {
            held.state.renew_at = Moment::NEVER;
        }
        let start = reading(5000, SECOND);
        assert_eq!(held.judge(start), (DOUBTFUL, Todo::Renew(end)));
        held.state.renewal_sent(start.now, Duration::from_secs(10));
        let reading = reading(5010, SECOND);
        assert!(held.renewed(start, reading));
        assert!(is_valid(held.judge(reading)), "the doubt is over");
        assert_eq!(held.state.lease.deadline > end, is_longer, "{renews_itself}");
    }
}

/// Nothing but the caller prolongs it.
#[test]
fn an_extension_prolongs_a_lock_that_does_not_renew_itself() {
    let mut held = held();
    let end = held.state.lease.deadline;
    held.state.renew_at = Moment::NEVER;
    let (start, ttl) = (reading(5000, NONE), held.state.renewal_ttl());
    held.state.renewal_sent(start.now, ttl);
    let round = Arc::clone(&held.round);
    assert!(held.state.renewed(start, ttl, Some(ttl), round, reading(5010, NONE)));
    assert_eq!(held.state.lease.deadline, end + 5 * SECOND);
}

#[test]
fn to_judge_changes_nothing_and_to_advance_keeps_what_was_seen() {
    let mut held = held();
    assert_eq!(held.state.glance(reading(1000, SECOND)), DOUBTFUL);
    assert_eq!(held.state.phase, Phase::Held);
    held.judge(reading(1000, SECOND));
    assert_eq!(held.state.phase, Phase::Doubtful { renewal_sent: None });
}

#[test]
fn a_release_begins_once_and_ends_the_hold() {
    let mut held = held();
    assert!(held.state.end(End::Released) && !held.state.end(End::Lost(LostReason::Expired)));
    assert!(held.state.begin_release().is_some() && held.state.begin_release().is_none());
    let judged = held.judge(reading(1000, NONE));
    assert_eq!(judged, (Judgement::Ended(End::Released), Todo::Nothing));
}

#[test]
fn a_hold_is_leaving_when_its_keys_go_without_its_guard() {
    for (end, has_body, begun, is_leaving) in [
        (None, true, false, false),
        (Some(End::Released), false, false, true),
        (Some(End::Lost(LostReason::Expired)), false, false, false),
        (Some(End::Lost(LostReason::Expired)), true, false, true),
        (Some(End::Lost(LostReason::Expired)), false, true, true),
    ] {
        let mut held = held();
        end.map(|end| held.state.end(end));
        let _ = begun.then(|| held.state.begin_release());
        assert_eq!(held.state.is_leaving(has_body), is_leaving, "{end:?} {has_body} {begun}");
    }
}

#[test]
fn a_doubt_does_not_outlive_the_deadline() {
    let mut held = held();
    held.judge(reading(1000, SECOND));
    assert_eq!(held.judge(reading(9898, SECOND)).0, EXPIRED);
}

#[test]
fn only_a_round_from_after_the_freeze_clears_a_doubt() {
    let mut held = held();
    let early = reading(900, NONE);
    held.state.renewal_sent(early.now, Duration::from_secs(10));
    assert_eq!(held.judge(reading(1000, SECOND)).0, DOUBTFUL);
    let late = reading(1002, SECOND);
    held.state.renewal_sent(late.now, Duration::from_secs(10));
    assert!(held.renewed(early, reading(1010, SECOND)));
    assert_eq!(held.judge(reading(1010, SECOND)), (DOUBTFUL, Todo::Nothing));
    assert!(held.renewed(late, reading(1020, SECOND)));
    assert!(is_valid(held.judge(reading(1020, SECOND))));
}

/// The next number of the lease, once a renewal has cleared a doubt.
fn next_number_after_a_doubt(mut held: Held) -> Option<crate::FencingToken> {
    let start = reading(1000, SECOND);
    held.state.renewal_sent(start.now, Duration::from_secs(10));
    assert!(held.renewed(start, reading(1010, SECOND)));
    assert!(is_valid(held.judge(reading(1010, SECOND))));
    held.state.begin_release().unwrap().next_number()
}

/// Another client may have drawn larger numbers meanwhile. Clearing the doubt does not bring the
/// old numbers back.
#[test]
fn the_numbers_of_a_lease_die_with_its_first_doubt() {
    let mut held = held();
    held.state.lease.range = Some(Box::new(Range::new(7, 3)));
    assert!(is_valid(held.judge(reading(999, NONE))) && held.state.lease.range.is_some());
    assert_eq!(held.judge(reading(1000, SECOND)).0, DOUBTFUL);
    assert_eq!(next_number_after_a_doubt(held), None);
}

/// The doubt need not have been seen before the renewal began.
#[test]
fn the_numbers_of_a_lease_die_with_a_doubt_that_no_judgement_saw() {
    let mut held = held();
    held.state.lease.range = Some(Box::new(Range::new(7, 3)));
    assert_eq!(next_number_after_a_doubt(held), None);
}

/// The process stood still behind the send, and reads the answers before anything judges the hold.
#[test]
fn a_doubt_is_not_cleared_once_its_time_is_over() {
    for (ms, clears) in [(1099, true), (1100, false)] {
        let mut held = held();
        let start = reading(1000, SECOND);
        held.judge(start);
        held.state.renewal_sent(start.now, Duration::from_secs(10));
        assert_eq!(held.renewed(start, reading(ms, SECOND)), clears);
    }
}

#[test]
fn a_freeze_while_a_renewal_is_under_way_is_another_doubt() {
    let mut held = held();
    held.judge(reading(1000, SECOND));
    let start = reading(1000, SECOND);
    held.state.renewal_sent(start.now, Duration::from_secs(10));
    assert!(held.renewed(start, reading(1010, 2 * SECOND)));
    let end = held.state.lease.deadline;
    assert_eq!(held.judge(reading(1010, 2 * SECOND)), (DOUBTFUL, Todo::Renew(end)));
}

/// The longer one was sent before the freeze, and is confirmed after it.
#[test]
fn a_doubt_that_was_cleared_beside_a_longer_extension_stays_cleared() {
    let mut held = held();
    let (short, long) = (Duration::from_secs(10), Duration::from_secs(60));
    let (before, after) = (reading(900, NONE), reading(1002, SECOND * 3 / 10));
    held.state.renewal_sent(before.now, long);
    assert_eq!(held.judge(after).0, DOUBTFUL);
    held.state.renewal_sent(after.now, short);
    let round = Arc::clone(&held.round);
    assert!(held.state.renewed(before, long, Some(long), round, reading(1010, after.missed)));
    let round = Arc::clone(&held.round);
    assert!(held.state.renewed(after, short, None, round, reading(1020, after.missed)));
    let Judgement::Valid(left) = held.judge(reading(1030, after.missed)).0 else {
        panic!("a quorum has confirmed it")
    };
    assert!(left > long * 9 / 10, "{left:?}");
}

#[test]
fn a_doubt_asks_for_its_renewal_once() {
    let mut held = held();
    let due = Moment::ORIGIN + Duration::from_millis(3334);
    assert!(held.state.wants_renewal(due));
    held.judge(reading(1000, SECOND));
    assert!(!held.state.wants_renewal(due), "or it would have two turns");
    held.state.renewal_sent(due, Duration::from_secs(10));
    assert!(held.state.wants_renewal(due), "and tries again (rule 7)");
}

/// The task that renews would look at it without a pause.
#[test]
fn a_doubt_that_waits_for_room_is_due_at_its_end() {
    let mut held = held();
    let after_due = reading(5000, SECOND);
    held.judge(after_due);
    assert_eq!(held.state.due_at(after_due), held.state.end_at(after_due));
    held.state.renewal_sent(after_due.now, Duration::from_secs(10));
    assert!(held.state.due_at(after_due) <= after_due.now + DOUBT_LIMIT);
}

#[test]
fn a_renewal_that_is_confirmed_behind_a_later_one_takes_nothing_back() {
    let mut held = held();
    let later = Duration::from_secs(60);
    let (early, late) = (reading(1000, NONE), reading(2000, NONE));
    let round = Arc::clone(&held.round);
    assert!(held.state.renewed(late, later, Some(later), Arc::clone(&round), late));
    let (confirmed, deadline) = (held.state.lease.confirmed, held.state.lease.deadline);
    let short = Duration::from_secs(10);
    assert!(held.state.renewed(early, short, Some(short), round, reading(2001, NONE)));
    assert_eq!((held.state.lease.confirmed, held.state.lease.deadline), (confirmed, deadline));
    assert_eq!(held.state.renewal_ttl(), later);
}

/// The caller has read `Ok`, and later renewals keep the ttl of an extension.
#[test]
fn an_extension_that_is_confirmed_behind_a_later_renewal_keeps_its_ttl() {
    let mut held = held();
    let (early, late) = (reading(1000, NONE), reading(2000, NONE));
    let [short, long] = [10, 60].map(Duration::from_secs);
    let mut renewed = |start, ttl, asked| {
        let round = Arc::clone(&held.round);
        assert!(held.state.renewed(start, ttl, asked, round, late));
        held.state.renewal_ttl()
    };
    assert_eq!(renewed(late, short, None), short);
    assert_eq!(renewed(early, long, Some(long)), long);
    assert_eq!(renewed(reading(999, NONE), short, Some(short)), long, "asked for before");
}

/// What the clock has missed comes off the old deadline and not off the new one.
#[test]
fn a_renewal_counts_when_it_lasts_longer_on_a_clock_that_has_missed_some_time() {
    let mut held = held();
    let ttl = Duration::from_millis(9950);
    let start = reading(1, Duration::from_millis(80));
    assert!(held.state.renewed(start, ttl, None, Arc::clone(&held.round), start));
    let deadline = validity::deadline(start.now, ttl, held.state.lease.clock_drift_factor);
    assert!(deadline < held.state.latest && held.state.end_at(start) == deadline);
}

/// Two tasks send renewals, and the one that read the clock first may be the last. Without an answer to the later
/// one, the lease is not passed on.
#[test]
fn a_renewal_that_is_noted_late_does_not_hide_a_later_one() {
    let mut held = held();
    let (early, late) = (reading(1000, NONE).now, reading(2000, NONE).now);
    for sent in [late, early] {
        held.state.renewal_sent(sent, Duration::from_secs(30));
    }
    assert_eq!(held.state.lease.renewal_sent, late);
}
