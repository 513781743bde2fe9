//! When to look for commands that are not wanted any more, among those that wait.

/// Below this many commands, it is not worth looking.
const FEW: usize = 64;

/// Tells when to look: once twice as many commands wait as after the last look. So each new command costs little, and
/// the unwanted commands are never more than the wanted ones.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// How many were left when they were last looked at.
    left: usize,
}

impl Sweep {
    pub(super) fn is_due(&self, waiting: usize) -> bool {
        waiting >= 2 * self.left.max(FEW)
    }

    pub(super) fn done(&mut self, left: usize) {
        self.left = left;
    }
}
