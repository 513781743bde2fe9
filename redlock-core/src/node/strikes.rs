//! When a node that does not answer is given up (rule 15).

use std::time::Duration;

use crate::clock::Moment;

/// This many timeouts in a row, each a `node_timeout` apart, and the connection is dropped:
/// a paused server would run the backlog later (rule 15).
const STRIKES: u32 = 3;

/// Consecutive timeouts. Those of batches sent together are one.
#[derive(Debug, Default)]
pub(super) struct Strikes {
    count: u32,
    last: Option<Moment>,
}

impl Strikes {
    /// It has answered.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Counts a timeout; true when the connection has had its chances.
    pub(super) fn add(&mut self, now: Moment, apart: Duration) -> bool {
        if self.last.is_none_or(|last| now.since(last) >= apart) {
            self.count += 1;
            self.last = Some(now);
        }
        self.count >= STRIKES
    }
}
