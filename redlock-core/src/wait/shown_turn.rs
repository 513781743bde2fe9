//! The turn of another client, as the queue shows it to its first waiter. Pure.

use std::time::Duration;

use crate::clock::Moment;

/// A turn that the queue shows, and when it began.
///
/// A client that has its turn may be far away. It would lose each of its turns to a client that is near, sees the free
/// lock and asks at once.
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

    /// Notes that the queue shows the waiter, as the first, a free lock, and that another client has its turn, for which
    /// `lasts` is enough. Returns whether this turn is shown for the first time.
    pub(crate) fn is_out(&mut self, now: Moment, lasts: Duration) -> bool {
        if self.until.is_some() {
            return false;
        }
        self.until = Some(self.next_since.unwrap_or(now) + lasts);
        true
    }

    /// Notes that the queue shows something else. A turn that it shows next is a new one.
    pub(crate) fn is_over(&mut self) {
        *self = Self::default();
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

    fn at(ms: u64) -> Moment {
        Moment::ORIGIN + Duration::from_millis(ms)
    }

    #[test]
    fn a_turn_that_is_shown_again_is_left_to_its_client_once() {
        let mut turn = ShownTurn::default();
        assert_eq!(turn.lasts_until(at(0)), None);
        assert!(turn.is_out(at(0), LASTS));
        assert!(!turn.is_out(at(50), LASTS));
        assert_eq!(turn.lasts_until(at(99)), Some(at(100)));
        assert!(!turn.is_out(at(150), LASTS));
        assert_eq!(turn.lasts_until(at(150)), None, "that client may have crashed");
        turn.is_over();
        assert!(turn.is_out(at(200), LASTS));
        assert_eq!(turn.lasts_until(at(200)), Some(at(300)));
    }

    #[test]
    fn a_waiter_that_was_told_that_it_is_next_counts_from_then() {
        let mut turn = ShownTurn::default();
        turn.is_next(at(0));
        assert_eq!(turn.lasts_until(at(1)), None, "nothing is shown yet");
        assert!(turn.is_out(at(100), LASTS));
        assert_eq!(turn.lasts_until(at(100)), None, "it has waited already");
        turn.is_next(at(200));
        assert!(turn.is_out(at(210), LASTS), "that is the next turn");
        assert_eq!(turn.lasts_until(at(210)), Some(at(300)));
    }
}
