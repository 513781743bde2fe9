//! The outcome of an attempt that did not get the lock. The waiters behind it get the same error.

use crate::{
    error::NodeError,
    quorum::{Round, Tally, Vote},
};

/// Why an attempt did not get the lock.
#[derive(Debug)]
pub(crate) struct FailedAttempt {
    /// Failures alone made a quorum impossible, or the quorum came too late.
    pub(crate) no_quorum: bool,
    /// Something was sent.
    pub(crate) was_asked: bool,
    pub(crate) granted: usize,
    pub(crate) nodes: Vec<NodeError>,
}

impl FailedAttempt {
    /// An attempt in which so many nodes refused, or failed, that there is no quorum.
    pub(crate) fn of(tally: &Tally, round: &Round) -> Self {
        Self {
            no_quorum: tally.impossible_by_failures(),
            was_asked: true,
            granted: tally.yes(),
            nodes: round.failures(),
        }
    }

    /// What a round says in which the nodes that had failed in an earlier round were not asked again: they have failed
    /// here, too.
    pub(crate) fn after(earlier: &Round, tally: &Tally, round: &Round) -> Self {
        let before = earlier.failures();
        let mut tally = *tally;
        before.iter().for_each(|_| tally.count(Vote::Failed));
        let mut failed = Self::of(&tally, round);
        failed.nodes.extend(before);
        failed
    }

    /// Nothing was sent: these are the reasons why no quorum is possible.
    pub(crate) fn unasked(nodes: Vec<NodeError>) -> Self {
        Self { no_quorum: true, was_asked: false, granted: 0, nodes }
    }

    /// No node was asked for the lock, because none is left.
    pub(crate) fn full() -> Self {
        Self { no_quorum: false, was_asked: false, granted: 0, nodes: Vec::new() }
    }

    /// A quorum has answered too late to be relied on.
    pub(crate) fn too_late(granted: usize) -> Self {
        Self { no_quorum: true, was_asked: true, granted, nodes: Vec::new() }
    }

    /// Whether nodes were asked, and so few have answered that there was no quorum.
    pub(crate) fn was_not_heard(&self) -> bool {
        self.no_quorum && self.was_asked
    }

    /// Whether each of so many nodes, or of the members of a cluster that were asked, could not be reached.
    pub(crate) fn is_cut_off(&self, nodes: usize) -> bool {
        self.nodes.len() == nodes && self.nodes.iter().all(|it| it.kind.is_unreached())
    }

    /// Whether perhaps no client held the lock: the votes were split, or nodes were missing.
    pub(crate) fn is_in_vain(&self) -> bool {
        self.no_quorum || self.granted > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_in_vain_unless_another_client_need_have_the_lock() {
        for (no_quorum, granted, is_in_vain) in
            [(false, 0, false), (false, 1, true), (true, 0, true), (true, 2, true)]
        {
            let failure = FailedAttempt { no_quorum, was_asked: true, granted, nodes: Vec::new() };
            assert_eq!(failure.is_in_vain(), is_in_vain, "{failure:?}");
        }
    }
}
