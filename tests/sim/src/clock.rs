//! The clock of one client: skewed, drifting, and frozen at will.

use std::{sync::Mutex, time::Duration};

use redlock_core::seam::simulation::{Clock, Shown, wall_now};
use tokio::time::Instant;

use super::locked;

/// The clock of a client. It never goes back, and the test decides how fast it goes.
#[derive(Debug)]
pub(crate) struct SimClock(Mutex<Hands>);

#[derive(Debug)]
struct Hands {
    /// When `shown` was right.
    anchor: Instant,
    shown: Duration,
    rate: f64,
    frozen: bool,
    /// In nanoseconds, as in [`Shown`].
    wall_ahead: i64,
    /// How far the wall clock is ahead of the right time, in milliseconds: NTP has set it, and not quite
    /// right. None when it shows the beginning of time for ever.
    wall_error: Option<i64>,
}

impl Hands {
    fn now(&self) -> Duration {
        if self.frozen {
            return self.shown;
        }
        self.shown + self.anchor.elapsed().mul_f64(self.rate)
    }
}

impl SimClock {
    /// A clock that shows `skew` now and goes at `rate`, 1.0 being right, beside a wall clock that is
    /// this many milliseconds ahead, or stands still. Needs a runtime.
    #[must_use]
    pub(crate) fn new(skew: Duration, rate: f64, wall_error: Option<i64>) -> Self {
        let anchor = Instant::now();
        let (shown, frozen, wall_ahead) = (skew, false, 0);
        Self(Mutex::new(Hands { anchor, shown, rate, frozen, wall_ahead, wall_error }))
    }

    /// Stands still from now on, as the clocks of a virtual machine that is frozen.
    pub(crate) fn freeze(&self) {
        let mut hands = locked(&self.0);
        let now = hands.now();
        *hands = Hands { anchor: Instant::now(), shown: now, frozen: true, ..*hands };
    }

    /// Goes on where it stood. Only the wall clock shows the time that it missed.
    pub(crate) fn thaw(&self) {
        let mut hands = locked(&self.0);
        if !hands.frozen {
            return;
        }
        let missed = i64::try_from(hands.anchor.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let wall_ahead = hands.wall_ahead.saturating_add(missed);
        *hands = Hands { anchor: Instant::now(), frozen: false, wall_ahead, ..*hands };
    }

    /// Sets the wall clock ahead, as NTP does.
    pub(crate) fn step(&self, by: Duration) {
        let mut hands = locked(&self.0);
        let by = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        hands.wall_ahead = hands.wall_ahead.saturating_add(by);
        hands.wall_error = hands.wall_error.map(|error| error.saturating_add(by / 1_000_000));
    }

    /// Sets the wall clock back, as NTP does.
    pub(crate) fn set_back(&self, by: Duration) {
        let mut hands = locked(&self.0);
        let by = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        hands.wall_ahead = hands.wall_ahead.saturating_sub(by);
        hands.wall_error = hands.wall_error.map(|error| error.saturating_sub(by / 1_000_000));
    }

    /// How far the wall clock is from the right time; `None` when it stands still.
    #[must_use]
    pub(crate) fn wall_error(&self) -> Option<Duration> {
        locked(&self.0).wall_error.map(|error| Duration::from_millis(error.unsigned_abs()))
    }
}

impl Clock for SimClock {
    fn read(&self) -> Shown {
        let hands = locked(&self.0);
        Shown { now: hands.now(), wall_ahead: hands.wall_ahead }
    }

    fn wall(&self) -> Duration {
        let Some(error) = locked(&self.0).wall_error else { return Duration::ZERO };
        let right = wall_now();
        let by = Duration::from_millis(error.unsigned_abs());
        if error < 0 { right.saturating_sub(by) } else { right + by }
    }
}
