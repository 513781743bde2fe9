//! How far a client relies on the queue node when that node says that the lock is free. Pure.
//!
//! The node may have forgotten the holder: it restarted empty and is trusted, or the holder's `SET` did not
//! reach it. It goes on saying so until the holder renews the lock there. All waiters would ask in vain, again
//! and again.

use std::time::Duration;

use super::{retries::Chance, target::Target};
use crate::wait::{REFRESH, grace};

/// The longest pause between two attempts that only the word of that node suggests. A release is noticed all the
/// same: the front watches all nodes.
const MAX_DOUBT: Duration = Duration::from_secs(20);

/// The number of attempts in a row that followed from the word of that node alone.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Distrust {
    in_vain: u32,
}

impl Distrust {
    /// Notes why the next attempt is made. If it fails, the node is believed less.
    pub(super) fn asks(&mut self, chance: Chance) {
        match chance {
            Chance::Free | Chance::StandsStill => self.in_vain = self.in_vain.saturating_add(1),
            Chance::Turn | Chance::Notified | Chance::Hurried => self.clear(),
            Chance::Due | Chance::Again | Chance::Behind => {}
        }
    }

    /// Notes that the node knows the holder, or that a client has released the lock.
    pub(super) fn clear(&mut self) {
        self.in_vain = 0;
    }

    /// How long the front of the queue does not ask for a lock that the node says is free.
    pub(super) fn pause(self, round_trip: Duration, target: Target) -> Duration {
        // The first attempt may have met those of other clients that saw the lock free.
        self.since_second(grace(round_trip), target).unwrap_or_default()
    }

    /// How long the lock has to look free before a client asks that has other clients before it.
    pub(super) fn patience(self, target: Target) -> Duration {
        match self.in_vain {
            0 => Duration::ZERO,
            _ => self.since_second(REFRESH * 2, target).unwrap_or(REFRESH),
        }
    }

    /// A span after the second attempt in vain, doubled for each one since.
    fn since_second(self, span: Duration, target: Target) -> Option<Duration> {
        // A reader asks at each report anyway.
        let most = if target.queue_node_suffices() { MAX_DOUBT } else { REFRESH };
        let times = 2_u32.saturating_pow(self.in_vain.checked_sub(2)?);
        Some(span.saturating_mul(times).min(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attempt_in_vain_doubles_the_pause_before_the_next() {
        let mut distrust = Distrust::default();
        let mut asks = |chance, target| {
            let (pause, patience) =
                (distrust.pause(Duration::ZERO, target), distrust.patience(target));
            distrust.asks(chance);
            (pause.as_millis(), patience.as_millis())
        };
        for (chance, pauses) in [
            (Chance::Free, (0, 0)),
            (Chance::Free, (0, 1500)),
            (Chance::StandsStill, (100, 3000)),
            (Chance::Due, (200, 6000)),
            (Chance::StandsStill, (200, 6000)),
            (Chance::Free, (400, 12_000)),
            (Chance::Free, (800, 20_000)),
            (Chance::Turn, (1600, 20_000)),
            (Chance::Free, (0, 0)),
            (Chance::Notified, (0, 1500)),
            (Chance::Free, (0, 0)),
        ] {
            assert_eq!(asks(chance, Target::Lock), pauses, "{chance:?}");
        }
        for _ in 0..100 {
            asks(Chance::Free, Target::Lock);
        }
        assert_eq!(asks(Chance::Free, Target::Lock), (20_000, 20_000));
        assert_eq!(asks(Chance::Free, Target::Part), (1500, 1500));
    }
}
