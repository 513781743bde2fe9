//! How far away a node is. Delays that depend on the distance are computed from this.

use std::time::Duration;

use crate::sync::atomic::{AtomicU64, Ordering};

/// The smoothed time from sending a batch to its answers. Zero until the first answer.
#[derive(Debug, Default)]
pub(super) struct RoundTrip(AtomicU64);

/// A longer sample counts for one eighth, as in TCP (RFC 6298): a node is late now and then.
const LONGER: u64 = 8;

/// A shorter sample counts for one half, because no answer comes too early. If an outage kept the round trip long for
/// dozens of answers, other clients would pass this client for as long.
const SHORTER: u64 = 2;

impl RoundTrip {
    pub(super) fn note(&self, sample: Duration) {
        let sample = u64::try_from(sample.as_nanos()).unwrap_or(u64::MAX);
        let old = self.0.load(Ordering::Relaxed);
        let weight = if sample < old { SHORTER } else { LONGER };
        let new = if old == 0 { sample } else { old - old / weight + sample / weight };
        // Two threads at once may lose a sample, which does no harm.
        self.0.store(new, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_round_trip_follows_the_samples() {
        let round_trip = RoundTrip::default();
        assert_eq!(round_trip.get(), Duration::ZERO);
        round_trip.note(Duration::from_millis(8));
        assert_eq!(round_trip.get(), Duration::from_millis(8), "the first is all there is");
        round_trip.note(Duration::from_millis(16));
        assert_eq!(round_trip.get(), Duration::from_millis(9));
        (0..100).for_each(|_| round_trip.note(Duration::from_millis(40)));
        assert!(round_trip.get() > Duration::from_millis(39));
        (0..4).for_each(|_| round_trip.note(Duration::from_millis(1)));
        assert!(round_trip.get() < Duration::from_millis(4), "an outage is forgotten at once");
        round_trip.note(Duration::MAX);
        round_trip.note(Duration::ZERO);
    }
}
