//! Detects that two tasks of this process hold one lock at once.

use std::sync::atomic::{AtomicU64, Ordering};

const NOBODY: u64 = 0;

/// Looks at one lock.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    inside: AtomicU64,
    violations: AtomicU64,
}

impl Witness {
    /// This task holds the lock from now on.
    pub(crate) fn enter(&self, task: usize) {
        if self.inside.swap(name(task), Ordering::SeqCst) != NOBODY {
            self.violations.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// This task is about to release the lock.
    pub(crate) fn leave(&self, task: usize) {
        let left =
            self.inside.compare_exchange(name(task), NOBODY, Ordering::SeqCst, Ordering::SeqCst);
        if left.is_err() {
            self.violations.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// How often two tasks held the lock at once.
    pub(crate) fn violations(&self) -> u64 {
        self.violations.load(Ordering::SeqCst)
    }
}

fn name(task: usize) -> u64 {
    task as u64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_in_turn_are_no_violation() {
        let witness = Witness::default();
        for task in 0..3 {
            witness.enter(task);
            witness.leave(task);
        }
        assert_eq!(witness.violations(), 0);
    }

    #[test]
    fn two_at_once_are_seen() {
        let witness = Witness::default();
        witness.enter(0);
        witness.enter(1);
        witness.leave(0);
        assert!(witness.violations() > 0);
    }
}
