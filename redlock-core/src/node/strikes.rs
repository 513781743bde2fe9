//! When to give up a node that does not answer (rule 15).

use std::time::Duration;

use crate::clock::Moment;

/// After this many timeouts in a row, each a `node_timeout` apart, the connection is dropped: a
/// paused server would run the backlog later (rule 15).
const STRIKES: u32 = 3;

/// Consecutive timeouts. The timeouts of batches that were sent together count as one.
#[derive(Debug, Default)]
pub(super) struct Strikes {
    count: u32,
    last: Option<Moment>,
}

impl Strikes {
    /// Forgets the timeouts, because the node has answered.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Counts a timeout. True when the connection has to be dropped.
    pub(super) fn add(&mut self, now: Moment, apart: Duration) -> bool {
        if self.last.is_none_or(|last| now.since(last) >= apart) {
            self.count += 1;
            self.last = Some(now);
        }
        self.count >= STRIKES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APART: Duration = Duration::from_millis(50);

    fn at(ms: u64) -> Moment {
        Moment::ORIGIN + Duration::from_millis(ms)
    }

    #[test]
    fn three_timeouts_in_a_row_end_a_connection() {
        let mut strikes = Strikes::default();
        assert_eq!([0, 50, 100].map(|ms| strikes.add(at(ms), APART)), [false, false, true]);
    }

    #[test]
    fn batches_that_were_sent_together_are_one_strike() {
        let mut strikes = Strikes::default();
        assert_eq!([0, 1, 2, 49].map(|ms| strikes.add(at(ms), APART)), [false; 4]);
        assert_eq!([50, 99, 100].map(|ms| strikes.add(at(ms), APART)), [false, false, true]);
    }

    #[test]
    fn an_answer_resets_the_strikes() {
        let mut strikes = Strikes::default();
        assert_eq!([0, 50].map(|ms| strikes.add(at(ms), APART)), [false; 2]);
        strikes.clear();
        assert_eq!([100, 150, 200].map(|ms| strikes.add(at(ms), APART)), [false, false, true]);
    }
}
