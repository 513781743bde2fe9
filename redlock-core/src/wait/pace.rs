//! Who goes first when several processes want one lock. Pure.
//!
//! Within a process a lock is handed on in no time, so that a process could keep it for ever. It
//! keeps it for a span, then lets go for real and stands back for a moment. Who wakes up to a free
//! lock hurries the more, the longer its line has waited: so the processes take turns, and two
//! that start at the same moment and split the votes are rare.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use crate::{
    bug::{Bug, planted},
    clock::Moment,
};

/// A pause between attempts is never shorter, or zero delay and zero jitter would spin on the nodes.
pub(crate) const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// How long a line may hand a lock on when others want it too: short enough that several processes
/// at 1 ms a hold wait for tenths of a second, long enough that changing sides, a few milliseconds,
/// costs little.
const SHORTEST_SPAN: Duration = Duration::from_millis(20);

/// How long it may when, again and again, nobody took the lock in between.
const LONGEST_SPAN: Duration = Duration::from_millis(300);

/// How long a line stands back once its span is over: longer than it takes another process that was
/// told of the release to hear of it, to hesitate, and to ask. Timers have milliseconds.
pub(super) const STAND_BACK: Duration = Duration::from_millis(3);

/// How long a line hesitates that has only just begun to wait.
const HESITATION: Duration = Duration::from_millis(1);

/// So often a doubt doubles: to an eighth of a second.
const MOST_DOUBTS: u32 = 7;

/// A line that has waited for this long does not hesitate.
const EAGER_AFTER: Duration = Duration::from_millis(60);

/// A lock that stays with one line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Streak {
    /// None until the lock is taken next.
    since: Option<Moment>,
    span: Duration,
}

impl Streak {
    pub(super) fn new() -> Self {
        Self { since: None, span: SHORTEST_SPAN }
    }

    /// The line has the lock.
    pub(super) fn lock_taken(&mut self, now: Moment) {
        self.since.get_or_insert(now);
    }

    /// It may be handed on.
    pub(super) fn may_go_on(&self, now: Moment) -> bool {
        self.since.is_none_or(|since| now.since(since) < self.span)
            || planted(Bug::NeverLetsOthersIn)
    }

    /// The line stands back, and then may begin anew.
    pub(super) fn begin_anew(&mut self) {
        self.since = None;
    }

    /// The line stood back, and nobody came.
    pub(super) fn unchallenged(&mut self) {
        self.span = (self.span * 2).min(LONGEST_SPAN);
    }

    /// Somebody else has the lock.
    pub(super) fn contended(&mut self) {
        *self = Self::new();
    }
}

/// The streaks of some locks that were let go of a moment ago with nobody in line: a single task
/// that takes a lock again and again must not keep it to itself either. As few as they are, a
/// streak that is pushed out by another one is no more than begun anew (rule 18).
#[derive(Debug)]
pub(super) struct Recent([Option<(u64, Moment, Streak)>; 64]);

impl Default for Recent {
    fn default() -> Self {
        Self([None; 64])
    }
}

impl Recent {
    fn place(key: &str) -> (usize, u64) {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        ((hash % 64) as usize, hash)
    }

    pub(super) fn note(&mut self, key: &str, streak: Streak, now: Moment) {
        let (place, hash) = Self::place(key);
        if let Some(slot) = self.0.get_mut(place) {
            *slot = Some((hash, now, streak));
        }
    }

    /// The streak that goes on with this key, unless the lock was free for long enough that others
    /// had their chance.
    pub(super) fn recall(&self, key: &str, now: Moment) -> Option<Streak> {
        let (place, hash) = Self::place(key);
        let (noted, left, streak) = (*self.0.get(place)?)?;
        (noted == hash && now.since(left) < STAND_BACK).then_some(streak)
    }
}

/// How long to hesitate once a bell has rung.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    /// How many doubtful ones came one after the other.
    in_vain: u32,
}

impl Alarms {
    /// A fixed part, which shrinks to nothing for a line that has `waited` for long enough, and the
    /// most to add at random.
    ///
    /// A ring is `doubtful` when it says nothing new (the key read as missing, as it also does on a
    /// server that has no memory left for it), when it came at once, and when the last attempt
    /// failed although nobody need have the lock, since what rings may be others who try in vain.
    /// Each doubtful ring in a row doubles the random part; a good one ends that.
    pub(crate) fn hesitation(&mut self, doubtful: bool, waited: Duration) -> (Duration, Duration) {
        self.in_vain = if doubtful { (self.in_vain + 1).min(MOST_DOUBTS) } else { 0 };
        let eager = (waited.as_secs_f64() / EAGER_AFTER.as_secs_f64()).min(1.0);
        let random = Duration::from_millis((1 << self.in_vain) - 1);
        (HESITATION.mul_f64(1.0 - eager), random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::ORIGIN + Duration::from_millis(ms)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_span_grows_while_nobody_comes_and_shrinks_at_once() {
        let mut streak = Streak::new();
        assert!(streak.may_go_on(at(1000)), "it begins with the lock");
        streak.lock_taken(at(0));
        streak.lock_taken(at(15));
        assert!(streak.may_go_on(at(19)) && !streak.may_go_on(at(20)));
        for _ in 0..10 {
            streak.unchallenged();
        }
        streak.begin_anew();
        streak.lock_taken(at(20));
        assert!(streak.may_go_on(at(319)) && !streak.may_go_on(at(320)));
        streak.contended();
        streak.lock_taken(at(320));
        assert!(streak.may_go_on(at(339)) && !streak.may_go_on(at(340)));
    }

    #[test]
    fn a_streak_goes_on_when_the_lock_is_taken_again_at_once() {
        let mut recent = Recent::default();
        let mut streak = Streak::new();
        streak.lock_taken(at(0));
        recent.note("a", streak, at(19));
        assert!(!recent.recall("a", at(21)).unwrap().may_go_on(at(21)));
        assert!(recent.recall("a", at(22)).is_none(), "others had their chance");
        assert!(recent.recall("b", at(19)).is_none());
    }

    #[test]
    fn who_has_waited_longest_goes_first() {
        let delay = |waited| Alarms::default().hesitation(false, waited).0;
        assert_eq!(delay(Duration::ZERO), HESITATION);
        assert_eq!(delay(EAGER_AFTER / 2), HESITATION / 2);
        assert_eq!(delay(EAGER_AFTER), Duration::ZERO);
        assert_eq!(delay(Duration::MAX), Duration::ZERO);
        assert!(HESITATION < STAND_BACK);
    }

    #[test]
    fn what_rings_in_vain_again_and_again_is_believed_less_each_time() {
        let mut alarms = Alarms::default();
        let mut random = |doubtful| alarms.hesitation(doubtful, EAGER_AFTER).1;
        assert_eq!([true; 3].map(&mut random), [ms(1), ms(3), ms(7)]);
        assert_eq!(random(false), ms(0), "somebody has let go");
        for _ in 0..100 {
            random(true);
        }
        assert_eq!(random(true), ms(127));
    }
}
