//! What operators look at and take away, and the jobs of a schedule. All times are in milliseconds.

use super::Take;

/// One thing that an operator does, `after` milliseconds after the one before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) after: u64,
    pub(crate) key: usize,
    pub(crate) deed: Deed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    Inspect,
    /// Takes the lock away from its holder, which goes on until it is told.
    ForceRelease,
    /// Deletes the lock. Its holder may overlap with the next one until it is told.
    ForceReleaseNow,
}

/// The key of the first tick of a job. No other operation takes these keys.
const FIRST_TICK: usize = 500_000;

/// The key of a tick.
pub(crate) fn tick(number: usize) -> usize {
    FIRST_TICK + number
}

/// Whether this is the key of a tick.
pub(crate) fn is_tick(key: usize) -> bool {
    (FIRST_TICK..FIRST_TICK + 1000).contains(&key)
}

/// What a replica does for a tick of a job.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// When the replica comes to the tick. Its clock may be wrong, and it may be late.
    pub(crate) at: u64,
    /// The tick is the key. A replica that is refused skips it.
    pub(crate) take: Take,
    /// How long after that the replica crashes, if it does.
    pub(crate) crash: Option<u64>,
}
