//! How long to wait before connecting again (rule 14).

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(20);

/// Doubling pauses. The caller adds random time: `jitter` is how much of it fits under a second.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    /// Below one second, so that a node that is back is used again within one.
    pub(super) const MAX: Duration = Duration::from_millis(800);

    pub(super) fn new() -> Self {
        Self { next: FIRST }
    }

    /// The pause before the next try.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(Self::MAX);
        pause
    }

    /// The most random time to add to a pause: a quarter of it.
    pub(super) fn jitter(pause: Duration) -> Duration {
        pause / 4 - pause / 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_stay_below_a_second() {
        let mut backoff = Backoff::new();
        let pauses: Vec<Duration> = (0..20).map(|_| backoff.pause()).collect();
        assert_eq!(pauses[0], FIRST);
        assert!(pauses.windows(2).all(|pair| pair[1] == (pair[0] * 2).min(Backoff::MAX)));
        assert!(
            pauses.iter().all(|pause| *pause + Backoff::jitter(*pause) < Duration::from_secs(1))
        );
        assert!(pauses.iter().all(|pause| Backoff::jitter(*pause) > *pause / 5));
    }
}
