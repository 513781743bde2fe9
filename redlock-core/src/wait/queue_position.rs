//! What the node that keeps a queue says of a waiter in it.

use std::time::Duration;

/// The position of a waiter in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueuePosition {
    /// The number of waiters before it.
    pub(crate) ahead: u64,
    /// The remaining time of the lock on the queue node. `None` when it is free
    /// there.
    pub(crate) left: Option<Duration>,
    /// The holder renews the lock there, and is not late.
    pub(crate) is_renewed: bool,
    /// A client that was given its turn there may be about to take the lock.
    pub(crate) turn_is_out: bool,
    /// This waiter is a reader, and may have the lock together with those that have it there.
    pub(crate) may_share: bool,
}
