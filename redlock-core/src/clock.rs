//! The clock that leases are judged by (rule 2), injected so that tests and simulations own time.

use std::{
    fmt,
    sync::LazyLock,
    time::{Duration, Instant, SystemTime},
};

use self::missed::{Missed, Shown};
pub(crate) use self::reading::{Moment, Reading};
use crate::{runtime::in_runtime, timer};

pub(crate) mod missed;
mod reading;

/// All clocks of this process count from one origin, because clients that share nodes
/// ([`pools::quorum_of`](crate::pools::quorum_of)) compare each other's moments.
static ORIGIN: LazyLock<Origin> = LazyLock::new(Origin::now);

/// A moment is this much more than the time since [`ORIGIN`], because a paused runtime may show a
/// time before the origin.
const LEEWAY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

#[derive(Debug)]
struct Origin {
    monotonic: Instant,
    /// Elsewhere the monotonic clock is all there is to ask.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    boot: Duration,
    wall: SystemTime,
}

impl Origin {
    fn now() -> Self {
        Self {
            monotonic: Instant::now(),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            boot: boot_time(),
            wall: SystemTime::now(),
        }
    }
}

/// What a correct wall clock shows at this moment of tokio's clock, since the Unix epoch.
pub(crate) fn wall_at(instant: tokio::time::Instant) -> Duration {
    let origin = tokio::time::Instant::from_std(ORIGIN.monotonic);
    let wall = ORIGIN.wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    #[cfg(redlock_sim)]
    let (origin, wall) = simulated::begin().unwrap_or((origin, wall));
    let before = wall.saturating_sub(origin.saturating_duration_since(instant));
    before + instant.saturating_duration_since(origin)
}

/// The wall clock of a schedule that is to be replayed: it shows the same time in each run.
#[cfg(redlock_sim)]
pub(crate) mod simulated {
    use std::{cell::Cell, time::Duration};

    use tokio::time::Instant;

    /// What it shows at the beginning, since the Unix epoch.
    const BEGIN: Duration = Duration::from_secs(1_600_000_000);

    thread_local! {
        static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
    }

    /// The schedule of this thread begins now.
    pub(crate) fn begins() {
        BEGUN.set(Some(Instant::now()));
    }

    pub(super) fn begin() -> Option<(Instant, Duration)> {
        BEGUN.get().map(|begun| (begun, BEGIN))
    }
}

/// Tells the time. Never runs slow and never goes back.
pub(crate) trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Reads the clock, and counts what it has missed since the last reading (rule 2). Has to be called
    /// at least every 100 ms as long as anything is held: a wall clock that is set back hides what the
    /// clock misses between the same two readings.
    fn read(&self) -> Reading;

    /// Reads the clock for a test that must not help the client to see what the clock has missed.
    #[cfg(redlock_sim)]
    fn peek(&self) -> Reading {
        self.read()
    }

    /// The time of the wall clock, since the Unix epoch. It may be wrong, and may go back.
    fn wall(&self) -> Duration;

    /// The time alone. Counts nothing of what the clock has missed, and costs less than a reading.
    fn now(&self) -> Moment;
}

/// Sleeps until `clock` shows `until`. The runtime's timers stop while a machine sleeps and the
/// clock does not, so the clock has the last word. Returns at once where no time passes.
pub(crate) async fn sleep_until(clock: &dyn Clock, until: Moment) {
    loop {
        let left = until.since(clock.now());
        if left.is_zero() {
            return;
        }
        timer::sleep(left).await;
        if !in_runtime() {
            return;
        }
    }
}

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
        boot_time().saturating_sub(ORIGIN.boot)
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

#[cfg(any(target_os = "linux", target_os = "android"))]
fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

/// Tokio's clock, for in-memory nodes: it stands still when a test pauses it.
#[derive(Debug)]
pub(crate) struct TokioClock;

impl Clock for TokioClock {
    fn read(&self) -> Reading {
        Reading { now: self.now(), missed: Duration::ZERO }
    }

    fn now(&self) -> Moment {
        let origin = tokio::time::Instant::from_std(ORIGIN.monotonic);
        let now = tokio::time::Instant::now();
        let before = LEEWAY.saturating_sub(origin.saturating_duration_since(now));
        let elapsed = now.saturating_duration_since(origin);
        Moment::ORIGIN + (before + elapsed)
    }

    fn wall(&self) -> Duration {
        wall_at(tokio::time::Instant::now())
    }
}

#[cfg(test)]
pub(crate) mod manual {
    //! A clock that a test sets by hand, on top of tokio's clock.

    use std::{
        sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst},
        time::Duration,
    };

    use super::{
        Clock, Moment, Reading, TokioClock,
        missed::{Missed, Shown},
    };

    #[derive(Debug)]
    pub(crate) struct ManualClock {
        base: TokioClock,
        /// The wall clock's lead, in nanoseconds.
        pub(crate) wall_ahead: AtomicI64,
        /// How long the machine has slept, in nanoseconds. Tokio's clock does not count this time.
        slept: AtomicU64,
        missed: Missed,
    }

    impl ManualClock {
        pub(crate) fn new() -> Self {
            Self {
                base: TokioClock,
                wall_ahead: AtomicI64::new(0),
                slept: AtomicU64::new(0),
                missed: Missed::new(),
            }
        }

        /// Lets the machine be suspended for this long.
        pub(crate) fn sleep(&self, span: Duration) {
            self.slept.fetch_add(u64::try_from(span.as_nanos()).unwrap(), SeqCst);
        }
    }

    impl Clock for ManualClock {
        fn read(&self) -> Reading {
            self.missed.read(|| {
                let wall_ahead = self.wall_ahead.load(SeqCst);
                Shown { now: self.now(), wall_ahead }
            })
        }

        fn now(&self) -> Moment {
            self.base.now() + Duration::from_nanos(self.slept.load(SeqCst))
        }

        fn wall(&self) -> Duration {
            self.base.wall()
        }
    }
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

    #[tokio::test(start_paused = true)]
    async fn the_tokio_clock_follows_paused_time() {
        let clock = TokioClock;
        let start = clock.now();
        sleep_until(&clock, start + Duration::from_secs(3600)).await;
        assert_eq!(clock.now().since(start), Duration::from_secs(3600));
    }

    #[test]
    fn clocks_of_one_process_agree() {
        let system = SystemClock.now();
        let tokio = TokioClock.now();
        assert!(tokio.since(system) < Duration::from_secs(60), "{system:?} {tokio:?}");
        assert!(SystemClock.now() >= system && TokioClock.now() >= tokio);
        assert!(system.since(tokio) < Duration::from_secs(60), "{system:?} {tokio:?}");
    }
}
