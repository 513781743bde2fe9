//! What a clock shows.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

/// A moment on a clock of this process; those of all its clients can be compared. In nanoseconds, which
/// reach for 584 years: each command carries some, and a `Duration` takes twice the room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// The moment that all others are counted from.
    pub(crate) const ORIGIN: Self = Self(0);
    /// Later than any other.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// The moment as a number for atomics. [`NEVER`](Self::NEVER) is the largest.
    pub(crate) fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub(crate) fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this moment; zero when it is not earlier.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }
}

/// One reading of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) now: Moment,
    /// The time that the clock has missed since the process began to look, as far as its readings show
    /// it (rule 2). Never shrinks.
    pub(crate) missed: Duration,
}

impl Reading {
    /// What the clock has missed since the `earlier` reading.
    pub(crate) fn missed_since(self, earlier: Self) -> Duration {
        self.missed.saturating_sub(earlier.missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_missed_since_a_later_reading() {
        let [early, late] =
            [0, 1].map(|ms| Reading { now: Moment::ORIGIN, missed: Duration::from_millis(ms) });
        assert_eq!(late.missed_since(early), Duration::from_millis(1));
        assert_eq!(early.missed_since(late), Duration::ZERO);
    }

    #[test]
    fn moments_never_overflow() {
        assert_eq!(Moment::NEVER + Duration::from_secs(1), Moment::NEVER);
        assert_eq!(Moment::ORIGIN.since(Moment::NEVER), Duration::ZERO);
    }
}
