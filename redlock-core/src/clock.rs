//! The clock that leases are judged by (rule 2), injected so that tests and simulations own time.

use std::{
    fmt,
    ops::Add,
    time::{Duration, SystemTime},
};

/// A moment on one client's clock: the time since the clock was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

impl Moment {
    #[cfg(test)]
    pub(crate) const ORIGIN: Self = Self(Duration::ZERO);
    /// Later than any other.
    pub(crate) const NEVER: Self = Self(Duration::MAX);

    /// This long after the clock was made.
    #[cfg(redlock_sim)]
    pub(crate) fn after(span: Duration) -> Self {
        Self(span)
    }

    /// The time from `earlier` to this moment; zero when it is not earlier.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }
}

/// What a clock shows at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) now: Moment,
    /// How far the wall clock has run ahead of `now` since the clock was made, in nanoseconds;
    /// negative when it was set back. A jump ahead is how a frozen VM shows, and nothing else
    /// does show it (rule 2).
    pub(crate) wall_ahead: i64,
}

/// Tells the time. Never runs slow and never goes back.
pub(crate) trait Clock: fmt::Debug + Send + Sync + 'static {
    fn read(&self) -> Reading;

    fn now(&self) -> Moment {
        self.read().now
    }
}

/// Sleeps until `clock` shows `until`. The runtime's timers stop while a machine sleeps and the
/// clock does not, so the clock has the last word.
pub(crate) async fn sleep_until(clock: &dyn Clock, until: Moment) {
    loop {
        let left = until.since(clock.now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left).await;
    }
}

/// The machine's clock: the larger of monotonic and boot time, because Rust's `Instant` stops in
/// suspend (rust-lang/rust#87906), beside the wall clock.
#[derive(Debug)]
pub(crate) struct SystemClock {
    monotonic: std::time::Instant,
    boot: Duration,
    wall: SystemTime,
}

impl SystemClock {
    #[allow(clippy::disallowed_methods)] // the one place that may ask the system
    pub(crate) fn new() -> Self {
        Self { monotonic: std::time::Instant::now(), boot: boot_time(), wall: SystemTime::now() }
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)]
    fn read(&self) -> Reading {
        let now = self.now();
        let wall_ahead = match SystemTime::now().duration_since(self.wall) {
            Ok(wall) => nanos(wall).saturating_sub(nanos(now.0)),
            Err(set_back) => -nanos(set_back.duration()).saturating_add(nanos(now.0)),
        };
        Reading { now, wall_ahead }
    }

    fn now(&self) -> Moment {
        Moment(self.monotonic.elapsed().max(boot_time().saturating_sub(self.boot)))
    }
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

/// Elsewhere the monotonic clock is all there is to ask.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn boot_time() -> Duration {
    Duration::ZERO
}

/// Tokio's clock, for in-memory nodes: it stands still when a test pauses it.
#[derive(Debug)]
pub(crate) struct TokioClock {
    origin: tokio::time::Instant,
}

impl TokioClock {
    pub(crate) fn new() -> Self {
        Self { origin: tokio::time::Instant::now() }
    }
}

impl Clock for TokioClock {
    fn read(&self) -> Reading {
        Reading { now: Moment(self.origin.elapsed()), wall_ahead: 0 }
    }
}

#[cfg(test)]
pub(crate) mod manual {
    //! A clock that a test sets by hand, on top of tokio's.

    use std::{
        sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst},
        time::Duration,
    };

    use super::{Clock, Reading, TokioClock};

    #[derive(Debug)]
    pub(crate) struct ManualClock {
        base: TokioClock,
        /// The wall clock's lead, in nanoseconds.
        pub(crate) wall_ahead: AtomicI64,
        /// How long the machine has slept, in nanoseconds, of which tokio's clock knows nothing.
        slept: AtomicU64,
    }

    impl ManualClock {
        pub(crate) fn new() -> Self {
            Self {
                base: TokioClock::new(),
                wall_ahead: AtomicI64::new(0),
                slept: AtomicU64::new(0),
            }
        }

        /// The machine was suspended for this long.
        pub(crate) fn sleep(&self, span: Duration) {
            self.slept.fetch_add(u64::try_from(span.as_nanos()).unwrap(), SeqCst);
        }
    }

    impl Clock for ManualClock {
        fn read(&self) -> Reading {
            let slept = Duration::from_nanos(self.slept.load(SeqCst));
            let wall_ahead = self.wall_ahead.load(SeqCst);
            Reading { now: self.base.read().now + slept, wall_ahead }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_moves_forward_with_the_wall_beside_it() {
        let clock = SystemClock::new();
        let first = clock.read();
        std::thread::sleep(Duration::from_millis(5));
        let second = clock.read();
        assert!(second.now.since(first.now) >= Duration::from_millis(5));
        assert!(second.wall_ahead.abs() < 3_600_000_000_000, "{second:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_tokio_clock_follows_paused_time() {
        let clock = TokioClock::new();
        let start = clock.now();
        sleep_until(&clock, start + Duration::from_secs(3600)).await;
        assert_eq!(clock.now().since(start), Duration::from_secs(3600));
    }

    #[test]
    fn moments_never_overflow() {
        assert_eq!(Moment::NEVER + Duration::from_secs(1), Moment::NEVER);
        assert_eq!(Moment::ORIGIN.since(Moment::NEVER), Duration::ZERO);
    }
}
