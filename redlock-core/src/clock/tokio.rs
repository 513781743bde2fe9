//! Tokio's clock, and the wall clock beside it.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::{
    injected::Clock,
    origin::{LEEWAY, ORIGIN},
    reading::{Moment, Reading},
};

/// What a correct wall clock shows at this moment of tokio's clock, since the Unix epoch.
pub(crate) fn wall_at(instant: Instant) -> Duration {
    let origin = Instant::from_std(ORIGIN.monotonic);
    let wall = ORIGIN.wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    #[cfg(redlock_sim)]
    let (origin, wall) = super::simulated::begin().unwrap_or((origin, wall));
    let before = wall.saturating_sub(origin.saturating_duration_since(instant));
    before + instant.saturating_duration_since(origin)
}

/// Tokio's clock, for in-memory nodes: it stands still when a test pauses it.
#[derive(Debug)]
pub(crate) struct TokioClock;

impl Clock for TokioClock {
    fn read(&self) -> Reading {
        Reading { now: self.now(), missed: Duration::ZERO }
    }

    fn now(&self) -> Moment {
        let origin = Instant::from_std(ORIGIN.monotonic);
        let now = Instant::now();
        let before = LEEWAY.saturating_sub(origin.saturating_duration_since(now));
        let elapsed = now.saturating_duration_since(origin);
        Moment::ORIGIN + (before + elapsed)
    }

    fn wall(&self) -> Duration {
        wall_at(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::sleep_until;

    #[tokio::test(start_paused = true)]
    async fn the_tokio_clock_follows_paused_time() {
        let clock = TokioClock;
        let start = clock.now();
        sleep_until(&clock, start + Duration::from_secs(3600)).await;
        assert_eq!(clock.now().since(start), Duration::from_secs(3600));
    }
}
