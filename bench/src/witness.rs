//! Detects that too many tasks of this process hold one lock at once.

use std::sync::atomic::{AtomicU64, Ordering};

/// Looks at one lock.
#[derive(Debug)]
pub(crate) struct Witness {
    /// How many may hold it at once.
    room: u64,
    inside: AtomicU64,
    violations: AtomicU64,
}

impl Default for Witness {
    fn default() -> Self {
        Self::with_room(1)
    }
}

impl Witness {
    /// The witness of a lock that at most `room` tasks may hold at once.
    pub(crate) fn with_room(room: u64) -> Self {
        Self { room, inside: AtomicU64::new(0), violations: AtomicU64::new(0) }
    }

    /// A task holds the lock from now on.
    pub(crate) fn enter(&self) {
        if self.inside.fetch_add(1, Ordering::SeqCst) >= self.room {
            self.violations.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The task is about to release the lock.
    pub(crate) fn leave(&self) {
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    /// How often one task too many held the lock.
    pub(crate) fn violations(&self) -> u64 {
        self.violations.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_in_turn_are_no_violation() {
        let witness = Witness::default();
        for _ in 0..3 {
            witness.enter();
            witness.leave();
        }
        assert_eq!(witness.violations(), 0);
    }

    #[test]
    fn one_too_many_is_seen() {
        for room in [1, 3] {
            let witness = Witness::with_room(room);
            for _ in 0..room {
                witness.enter();
            }
            assert_eq!(witness.violations(), 0);
            witness.enter();
            assert_eq!(witness.violations(), 1);
        }
    }
}
