//! Whether the holder of a lock renews it on the queue node. Pure.

use std::time::Duration;

use crate::clock::Moment;

/// The longest time without a renewal in which a waiter relies on the next one.
const MAX_PATIENCE: Duration = Duration::from_secs(15);

/// What a waiter has seen of the lock on one node, report by report.
///
/// A key that is there proves little. It may be the rest of a hold that ended, or of a client that crashed as it
/// asked, while the other nodes have a holder that never had this one. A holder that renews the lock there can
/// reach the node, and gives the turn there when it releases the lock.
#[derive(Debug, Default)]
pub(super) struct Renewals {
    /// The end of the lock that later reports are compared with. The renewals of many readers add up.
    end: Option<Moment>,
    /// The remaining time after the last renewal that was seen.
    full: Option<Duration>,
}

impl Renewals {
    /// Notes the remaining time of the lock. Returns whether the holder renews it there, and is not late.
    pub(super) fn saw(&mut self, left: Option<Duration>, now: Moment) -> bool {
        // A key without an expiry is never renewed.
        let Some(left) = left.filter(|left| *left < Duration::MAX) else {
            *self = Self::default();
            return false;
        };
        let end = now + left;
        // Answers that take longer at one time than at another look like a small gain.
        match self.end {
            Some(before) if end > before && end.since(before) <= left / 8 => {}
            Some(before) if end > before => {
                self.full = Some(left);
                self.end = Some(end);
            }
            _ => self.end = Some(end),
        }
        self.full.is_some_and(|full| {
            let without = full.saturating_sub(left);
            without <= (full / 2).min(MAX_PATIENCE)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each report concludes that comes at this second and tells these seconds.
    fn saw(reports: &[(u64, Option<u64>)]) -> Vec<bool> {
        let mut renewals = Renewals::default();
        let seen = reports.iter().map(|(at, left)| {
            let now = Moment::ORIGIN + Duration::from_secs(*at);
            renewals.saw(left.map(Duration::from_secs), now)
        });
        seen.collect()
    }

    #[test]
    fn a_holder_is_relied_on_once_it_has_renewed_and_while_it_does() {
        let renewed = [(0, Some(25)), (4, Some(21)), (6, Some(29)), (15, Some(20)), (16, Some(30))];
        assert_eq!(saw(&renewed), [false, false, true, true, true]);
        let crashed = [(0, Some(9)), (1, Some(11)), (6, Some(6)), (7, Some(5)), (8, Some(4))];
        assert_eq!(saw(&crashed), [false, true, true, false, false]);
        let by_readers: Vec<_> = (0..9).map(|second| (second, Some(30))).collect();
        assert_eq!(saw(&by_readers)[3..], [false, true, true, true, true, true]);
        let long = [(0, Some(40)), (1, Some(60)), (16, Some(45)), (17, Some(44))];
        assert_eq!(saw(&long), [false, true, true, false]);
    }

    #[test]
    fn the_rest_of_a_hold_that_ended_is_not_relied_on() {
        let rest: Vec<_> = (0..30).map(|second| (second, Some(30 - second))).collect();
        assert!(!saw(&rest).contains(&true));
        let late = [(0, Some(30)), (3, Some(29))];
        assert_eq!(saw(&late), [false, false], "the first answer was two seconds late");
        let freed = [(0, Some(9)), (1, Some(11)), (2, None), (3, Some(29)), (4, Some(28))];
        assert_eq!(saw(&freed), [false, true, false, false, false], "another client has it");
    }

    #[test]
    fn a_key_without_an_expiry_is_not_relied_on() {
        let mut renewals = Renewals::default();
        for left in [Duration::from_secs(9), Duration::MAX, Duration::MAX] {
            assert!(!renewals.saw(Some(left), Moment::ORIGIN));
        }
    }
}
