//! How long a lease may be relied on: the arithmetic of rule 2, and nothing else.

use std::time::Duration;

use crate::{clock::Moment, drift::drift};

/// Until when a round that started at `start` and was granted `ttl` may be relied on.
pub(super) fn deadline(start: Moment, ttl: Duration, factor: f64) -> Moment {
    start + ttl.saturating_sub(drift(ttl, factor))
}

/// When to renew a lease of `ttl` whose last confirmed round started at `start`: at a third of the time
/// for which it may be relied on, so that two more tries fit in. With a large drift factor, that is much
/// less than a third of the ttl.
pub(super) fn renewal(start: Moment, ttl: Duration, factor: f64) -> Moment {
    start + ttl.saturating_sub(drift(ttl, factor)) / 3
}

/// The end of a validity by a clock that has `missed` this much time since the round that `deadline`
/// counts from. `None` when it has missed more than the drift allowance: the deadline is in doubt.
pub(super) fn deadline_by(
    deadline: Moment,
    missed: Duration,
    ttl: Duration,
    factor: f64,
) -> Option<Moment> {
    (missed <= drift(ttl, factor)).then(|| deadline - missed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ten_seconds_at_one_percent() {
        let until = deadline(Moment::ORIGIN, Duration::from_secs(10), 0.01);
        assert_eq!(until.since(Moment::ORIGIN), Duration::from_millis(10_000 - 100 - 2));
    }

    #[test]
    fn two_more_renewals_fit_in() {
        let after =
            |factor| renewal(Moment::ORIGIN, Duration::from_secs(30), factor).since(Moment::ORIGIN);
        let two_ms = Duration::from_millis(2);
        assert_eq!(after(0.01), (Duration::from_millis(29_700) - two_ms) / 3);
        assert_eq!(after(0.5), (Duration::from_secs(15) - two_ms) / 3);
    }

    #[test]
    fn what_a_clock_has_missed_is_a_doubt_beyond_the_allowance() {
        let end = Moment::ORIGIN + Duration::from_secs(9);
        let deadline = |missed| deadline_by(end, missed, Duration::from_secs(10), 0.01);
        let most = Duration::from_millis(102);
        assert_eq!(deadline(Duration::ZERO), Some(end));
        assert_eq!(deadline(most), Some(end - most));
        assert_eq!(deadline(most + Duration::from_nanos(1)), None);
    }

    proptest! {
        #[test]
        fn a_deadline_leaves_room_for_drift(ms in 0_u64..u64::MAX / 2, factor in 0.0..1.0_f64) {
            let ttl = Duration::from_millis(ms);
            let valid = deadline(Moment::ORIGIN, ttl, factor).since(Moment::ORIGIN);
            prop_assert!(valid <= ttl);
            prop_assert!(valid.is_zero() || ttl - valid >= Duration::from_millis(2));
            prop_assert!(valid.is_zero() || (ttl - valid).as_secs_f64() >= ttl.as_secs_f64() * factor);
        }

        #[test]
        fn a_longer_ttl_is_never_valid_for_less(a in 0_u64..1 << 40, b in 0_u64..1 << 40) {
            let at = |ms| deadline(Moment::ORIGIN, Duration::from_millis(ms), 0.01);
            prop_assert!(at(a.min(b)) <= at(a.max(b)));
        }
    }
}
