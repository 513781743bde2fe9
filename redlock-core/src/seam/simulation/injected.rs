//! The clock and the random numbers of a client.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    clock::{
        self, Moment, Reading,
        missed::{self, Missed},
        wall_at,
    },
    token,
};

/// The clock of one client.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time now.
    fn read(&self) -> Shown;

    /// The time of the wall clock, since the Unix epoch.
    fn wall(&self) -> Duration;
}

/// The time that a clock shows.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// The time since an origin, which is the same for all clocks that are compared. Never goes back.
    pub now: Duration,
    /// How far the wall clock has run ahead of `now`, in nanoseconds.
    pub wall_ahead: i64,
}

/// The time that a correct wall clock shows now on tokio's clock, since the Unix epoch.
#[must_use]
pub fn wall_now() -> Duration {
    wall_at(Instant::now())
}

/// The wall clock of this thread begins now, at a time that is the same in each run. Needs a runtime.
pub fn wall_begins() {
    clock::simulated::begins();
}

/// The random numbers of one client.
pub trait Entropy: fmt::Debug + Send + Sync + 'static {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);
}

#[derive(Debug)]
pub(super) struct ClockAdapter<C> {
    clock: Arc<C>,
    missed: Missed,
}

impl<C: Clock> ClockAdapter<C> {
    pub(super) fn new(clock: &Arc<C>) -> Self {
        Self { clock: Arc::clone(clock), missed: Missed::new() }
    }

    fn show(&self) -> missed::Shown {
        let Shown { now, wall_ahead } = self.clock.read();
        missed::Shown { now: Moment::ORIGIN + now, wall_ahead }
    }
}

impl<C: Clock> clock::Clock for ClockAdapter<C> {
    fn read(&self) -> Reading {
        self.missed.read(|| self.show())
    }

    fn now(&self) -> Moment {
        self.show().now
    }

    fn peek(&self) -> Reading {
        self.missed.peek(self.show())
    }

    fn wall(&self) -> Duration {
        self.clock.wall()
    }
}

#[derive(Debug)]
pub(super) struct EntropyAdapter<E>(pub(super) E);

impl<E: Entropy> token::Entropy for EntropyAdapter<E> {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), String> {
        self.0.fill(bytes);
        Ok(())
    }
}
