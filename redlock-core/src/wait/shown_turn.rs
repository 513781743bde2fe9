//! The turn of another client, as the queue shows it to its first waiter. Pure.

use std::time::Duration;

use super::queue_position::QueuePosition;
use crate::clock::Moment;

/// A turn that the queue shows, and when it began.
///
/// A client that has its turn may be far away. A client that is near would see the free lock, ask at once, and take
/// the lock in each turn of the client that is far away.
#[derive(Debug, Default)]
pub(crate) struct ShownTurn {
    /// When the waiter was told that it is the next: since then, another client has its turn.
    next_since: Option<Moment>,
    /// Until when the waiter leaves the free lock to that client.
    until: Option<Moment>,
}

impl ShownTurn {
    /// Notes that the waiter is told that it is the next.
    pub(crate) fn is_next(&mut self, now: Moment) {
        *self = Self { next_since: Some(now), until: None };
    }

    /// Notes what the queue shows the waiter. Returns whether it shows a turn of another client for the first time, for
    /// which `lasts` is enough. Whether a turn is out is shown to the first waiter alone, and before a free lock.
    pub(crate) fn shows(&mut self, position: &QueuePosition, now: Moment, lasts: Duration) -> bool {
        let is_asked = position.ahead == 0 && position.left.is_none();
        if !is_asked || !position.turn_is_out {
            // A turn that it shows next is a new one.
            *self = Self::default();
            return false;
        }
        let is_new = self.until.is_none();
        self.until.get_or_insert(self.next_since.unwrap_or(now) + lasts);
        is_new
    }

    /// Until when another client has its turn, if one has it now.
    pub(super) fn lasts_until(&self, now: Moment) -> Option<Moment> {
        self.until.filter(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTS: Duration = Duration::from_millis(100);

    /// What the first waiter sees of a free lock whose turn is out.
    const OUT: QueuePosition = QueuePosition {
        ahead: 0,
        left: None,
        is_renewed: false,
        turn_is_out: true,
        may_share: false,
    };

    fn at(ms: u64) -> Moment {
        Moment::ORIGIN + Duration::from_millis(ms)
    }

    #[test]
    fn a_turn_that_is_shown_again_is_left_to_its_client_once() {
        let mut turn = ShownTurn::default();
        assert_eq!(turn.lasts_until(at(0)), None);
        assert!(turn.shows(&OUT, at(0), LASTS));
        assert!(!turn.shows(&OUT, at(50), LASTS));
        assert_eq!(turn.lasts_until(at(99)), Some(at(100)));
        assert!(!turn.shows(&OUT, at(150), LASTS));
        assert_eq!(turn.lasts_until(at(150)), None, "that client may have crashed");
    }

    #[test]
    fn a_turn_that_is_shown_after_something_else_is_a_new_one() {
        let held = QueuePosition { left: Some(LASTS), ..OUT };
        let behind = QueuePosition { ahead: 1, ..OUT };
        let free = QueuePosition { turn_is_out: false, ..OUT };
        for other in [held, behind, free] {
            let mut turn = ShownTurn::default();
            assert!(!turn.shows(&other, at(0), LASTS), "{other:?}");
            assert_eq!(turn.lasts_until(at(0)), None, "{other:?}");
            assert!(turn.shows(&OUT, at(10), LASTS), "{other:?}");
            assert!(!turn.shows(&other, at(20), LASTS), "{other:?}");
            assert_eq!(turn.lasts_until(at(20)), None, "{other:?}");
            assert!(turn.shows(&OUT, at(200), LASTS), "{other:?}");
            assert_eq!(turn.lasts_until(at(200)), Some(at(300)), "{other:?}");
            // What the waiter was told before that is of an earlier turn.
            turn.is_next(at(400));
            assert!(!turn.shows(&other, at(410), LASTS), "{other:?}");
            assert!(turn.shows(&OUT, at(600), LASTS), "{other:?}");
            assert_eq!(turn.lasts_until(at(600)), Some(at(700)), "{other:?}");
        }
    }

    #[test]
    fn a_waiter_that_was_told_that_it_is_next_counts_from_then() {
        let mut turn = ShownTurn::default();
        turn.is_next(at(0));
        assert_eq!(turn.lasts_until(at(1)), None, "nothing is shown yet");
        assert!(turn.shows(&OUT, at(100), LASTS));
        assert_eq!(turn.lasts_until(at(100)), None, "it has waited already");
        turn.is_next(at(200));
        assert!(turn.shows(&OUT, at(210), LASTS), "that is the next turn");
        assert_eq!(turn.lasts_until(at(210)), Some(at(300)));
    }
}
