//! What every clock does.

use std::{fmt, time::Duration};

use super::reading::{Moment, Reading};
use crate::{runtime::in_runtime, timer};

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
