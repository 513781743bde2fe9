//! Who goes first when several processes want one lock. Pure.
//!
//! Within a process a lock is handed on in no time, so that a process could keep it for ever. It
//! keeps it for a span, then lets go for real and stands back for a moment. Who wakes up to a free
//! lock hurries the more, the longer its line has waited: so the processes take turns, and two
//! that start at the same moment and split the votes are rare.

use std::time::Duration;

use crate::clock::Moment;

/// How long a line may hand a lock on when others want it too: short enough that several processes
/// at 1 ms a hold wait for tenths of a second, long enough that changing sides, a few milliseconds,
/// costs little.
const SHORTEST_SPAN: Duration = Duration::from_millis(20);

/// How long it may when, again and again, nobody took the lock in between.
const LONGEST_SPAN: Duration = Duration::from_millis(200);

/// How long a line stands back once its span is over: longer than it takes another process to hear
/// of it and to ask.
const STAND_BACK: Duration = Duration::from_millis(2);

/// A line that has waited for this long does not hesitate.
const HURRY: Duration = Duration::from_millis(60);

/// A lock that stays with one line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Streak {
    since: Moment,
    span: Duration,
}

impl Streak {
    pub(super) fn new(now: Moment) -> Self {
        Self { since: now, span: SHORTEST_SPAN }
    }

    /// The lock was taken from the nodes.
    pub(super) fn start(&mut self, now: Moment) {
        self.since = now;
    }

    /// It may be handed on.
    pub(super) fn goes_on(&self, now: Moment) -> bool {
        now.since(self.since) < self.span
    }

    /// The line stands back for this long before it asks again.
    pub(super) fn stand_back(&self, now: Moment) -> Option<Duration> {
        (!self.goes_on(now)).then_some(STAND_BACK)
    }

    /// The line stood back, and nobody came.
    pub(super) fn was_alone(&mut self) {
        self.span = (self.span * 2).min(LONGEST_SPAN);
    }

    /// Somebody else has the lock.
    pub(super) fn has_company(&mut self) {
        self.span = SHORTEST_SPAN;
    }
}

/// How long to hesitate before asking for a lock that has become free, after waiting for `waited`.
pub(crate) fn wake_delay(waited: Duration) -> Duration {
    let eager = (waited.as_secs_f64() / HURRY.as_secs_f64()).min(1.0);
    STAND_BACK.mul_f64(1.0 - eager)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::ORIGIN + Duration::from_millis(ms)
    }

    #[test]
    fn a_span_grows_while_nobody_comes_and_shrinks_at_once() {
        let mut streak = Streak::new(at(0));
        assert!(streak.goes_on(at(19)) && streak.stand_back(at(19)).is_none());
        assert!(!streak.goes_on(at(20)) && streak.stand_back(at(20)) == Some(STAND_BACK));
        for _ in 0..10 {
            streak.was_alone();
        }
        streak.start(at(20));
        assert!(streak.goes_on(at(219)) && !streak.goes_on(at(220)));
        streak.has_company();
        assert!(!streak.goes_on(at(40)));
    }

    #[test]
    fn who_has_waited_longest_goes_first() {
        assert_eq!(wake_delay(Duration::ZERO), STAND_BACK);
        assert_eq!(wake_delay(HURRY / 2), STAND_BACK / 2);
        assert_eq!(wake_delay(HURRY), Duration::ZERO);
        assert_eq!(wake_delay(Duration::MAX), Duration::ZERO);
    }
}
