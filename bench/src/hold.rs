//! The work under a lock: nothing, for one millisecond.
//!
//! Tokio's timers count whole milliseconds and round up: a sleep of one millisecond lasts two when
//! it begins right after a tick, and the cost of a lock between two such sleeps vanishes in the
//! rounding. So a timer of the operating system measures the hold.

use std::{io, os::fd::OwnedFd, time::Duration};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::{Interest, unix::AsyncFd};

/// How long a lock is held.
pub(crate) const LENGTH: Duration = Duration::from_millis(1);

/// A timer for one holder at a time.
#[derive(Debug)]
pub(crate) struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    /// A timer on the runtime of the caller.
    pub(crate) fn new() -> Self {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).expect("a timer");
        // SAFETY: an `OwnedFd` is the same open descriptor until it is dropped.
        #[allow(unsafe_code)]
        let registered = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) };
        Self(registered.expect("a runtime with I/O"))
    }

    /// Waits for [`LENGTH`].
    pub(crate) async fn hold(&mut self) {
        self.wait(LENGTH).await;
    }

    /// Waits for this long.
    pub(crate) async fn wait(&mut self, length: Duration) {
        // A timer that is set to zero is off.
        let Ok(length) = Timespec::try_from(length.max(Duration::from_nanos(1))) else { return };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let once = Itimerspec { it_interval: never, it_value: length };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once).expect("a length that can be");
        let rung = self.0.async_io(Interest::READABLE, |timer| {
            rustix::io::read(timer, &mut [0; 8]).map_err(io::Error::from)
        });
        rung.await.expect("a timer that rings");
    }
}
