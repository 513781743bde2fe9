//! A clock that a test sets by hand, on top of tokio's clock.

use std::{
    sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst},
    time::Duration,
};

use super::{
    injected::Clock,
    missed::{Missed, Shown},
    reading::{Moment, Reading},
    tokio::TokioClock,
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
