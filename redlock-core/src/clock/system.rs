//! The machine's clock.

use std::time::{Duration, SystemTime};

use super::{
    injected::Clock,
    missed::{Missed, Shown},
    origin::{self, LEEWAY, ORIGIN},
    reading::{Moment, Reading},
};

/// The machine's clock: the larger of monotonic and boot time, because Rust's `Instant` stops in
/// suspend (rust-lang/rust#87906), beside the wall clock.
///
/// On Linux the larger is boot time: the kernel computes it as monotonic time plus the time in suspend,
/// which never shrinks. Reading it alone saves half of the readings of each lock.
#[derive(Debug)]
pub(crate) struct SystemClock;

impl SystemClock {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn elapsed() -> Duration {
        origin::boot_time().saturating_sub(ORIGIN.boot)
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn elapsed() -> Duration {
        ORIGIN.monotonic.elapsed()
    }
}

impl Clock for SystemClock {
    fn read(&self) -> Reading {
        /// The machine has one clock.
        static MISSED: Missed = Missed::new();
        MISSED.read(|| {
            let elapsed = Self::elapsed();
            let wall_ahead = lead(SystemTime::now(), ORIGIN.wall, elapsed);
            Shown { now: Moment::ORIGIN + (LEEWAY + elapsed), wall_ahead }
        })
    }

    fn now(&self) -> Moment {
        Moment::ORIGIN + (LEEWAY + Self::elapsed())
    }

    fn wall(&self) -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }
}

/// How far `wall` is ahead of a clock that shows that this much time has `elapsed` since `origin`, in
/// nanoseconds.
fn lead(wall: SystemTime, origin: SystemTime, elapsed: Duration) -> i64 {
    let since = match wall.duration_since(origin) {
        Ok(since) => nanos(since),
        Err(before) => -nanos(before.duration()),
    };
    since.saturating_sub(nanos(elapsed))
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECONDS: Duration = Duration::from_secs(1);

    #[test]
    fn the_system_clock_moves_forward_with_the_wall_beside_it() {
        let clock = SystemClock;
        let two_readings = |_| {
            let first = clock.read();
            std::thread::sleep(Duration::from_millis(5));
            let second = clock.read();
            assert!(second.now.since(first.now) >= Duration::from_millis(5));
            second.missed_since(first)
        };
        // A machine may set its wall clock meanwhile, but not each time.
        assert!((0..10).map(two_readings).any(|missed| missed.is_zero()));
    }

    #[test]
    fn a_lead_counts_from_the_origin() {
        let origin = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let lead = |wall| lead(origin + Duration::from_secs(60) - wall, origin, SECONDS * 60);
        assert_eq!(
            [0, 50, 70].map(|back| lead(SECONDS * back)),
            [0, -50, -70].map(|it| it * 1_000_000_000)
        );
    }
}
