//! Where all clocks of this process begin.

use std::{
    sync::LazyLock,
    time::{Duration, Instant, SystemTime},
};

/// All clocks of this process count from one origin, because clients that share nodes
/// ([`pools::quorum_of`](crate::pools::quorum_of)) compare each other's moments.
pub(super) static ORIGIN: LazyLock<Origin> = LazyLock::new(Origin::now);

/// A moment is this much more than the time since [`ORIGIN`], because a paused runtime may show a
/// time before the origin.
pub(super) const LEEWAY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

#[derive(Debug)]
pub(super) struct Origin {
    pub(super) monotonic: Instant,
    /// Elsewhere the monotonic clock is all there is to ask.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) boot: Duration,
    pub(super) wall: SystemTime,
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

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}
