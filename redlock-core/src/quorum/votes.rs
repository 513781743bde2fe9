//! Counting votes (rule 3). Pure: no node, no clock.

/// How many of `nodes` are a quorum. Any two quorums share a node, whatever the number.
pub(crate) fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// What one node's answer means to a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vote {
    Yes,
    No,
    Failed,
}

/// The votes of one round, always over all nodes, never over those that answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tally {
    nodes: usize,
    yes: usize,
    no: usize,
    failed: usize,
}

impl Tally {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { nodes, yes: 0, no: 0, failed: 0 }
    }

    /// This many votes, and no failures.
    #[cfg(test)]
    pub(crate) fn of(nodes: usize, yes: usize, no: usize) -> Self {
        Self { nodes, yes, no, failed: 0 }
    }

    pub(crate) fn count(&mut self, vote: Vote) {
        match vote {
            Vote::Yes => self.yes += 1,
            Vote::No => self.no += 1,
            Vote::Failed => self.failed += 1,
        }
    }

    /// Counts that a node has changed from no to yes.
    pub(crate) fn come_round(&mut self) {
        self.no = self.no.saturating_sub(1);
        self.yes += 1;
    }

    pub(crate) fn yes(&self) -> usize {
        self.yes
    }

    /// How many votes against make a quorum impossible: `n - quorum + 1`.
    fn blocking(&self) -> usize {
        self.nodes - quorum(self.nodes) + 1
    }

    /// Whether a quorum said yes.
    pub(crate) fn reached(&self) -> bool {
        self.yes >= quorum(self.nodes)
    }

    pub(crate) fn no(&self) -> usize {
        self.no
    }

    /// Whether a quorum has answered, yes or no.
    pub(crate) fn answered(&self) -> bool {
        self.yes + self.no >= quorum(self.nodes)
    }

    /// Whether every node has answered or failed.
    pub(crate) fn is_complete(&self) -> bool {
        self.yes + self.no + self.failed >= self.nodes
    }

    /// Whether so many nodes said no or failed that a quorum cannot be reached any more.
    pub(crate) fn impossible(&self) -> bool {
        self.no + self.failed >= self.blocking()
    }

    /// Whether a quorum said yes, or none will.
    pub(crate) fn is_decided(&self) -> bool {
        self.reached() || self.impossible()
    }

    /// Whether the missing votes change nothing: a quorum said yes, so many nodes said no that none will, or the
    /// outcome stays unknown.
    pub(crate) fn is_conclusive(&self) -> bool {
        self.reached() || self.impossible_by_refusals() || self.undecidable()
    }

    /// Whether the missing votes change nothing, and a quorum has answered or none will.
    pub(crate) fn is_conclusive_and_answered(&self) -> bool {
        self.is_conclusive() && self.is_answered_or_failed()
    }

    /// Whether a quorum has answered, or so many nodes failed that none will.
    pub(crate) fn is_answered_or_failed(&self) -> bool {
        self.answered() || self.impossible_by_failures()
    }

    /// Whether a quorum said yes; or none can say yes any more, and a quorum has answered or none can.
    pub(crate) fn is_confirmed_or_known(&self) -> bool {
        self.reached() || self.impossible() && self.is_answered_or_failed()
    }

    /// Whether so many nodes failed that a quorum was impossible whatever the others said.
    pub(crate) fn impossible_by_failures(&self) -> bool {
        self.failed >= self.blocking()
    }

    /// Whether so many nodes said no that a quorum is impossible whatever the others say.
    pub(crate) fn impossible_by_refusals(&self) -> bool {
        self.no >= self.blocking()
    }

    /// Whether so many nodes failed that the missing votes can make neither a quorum of yes nor a
    /// blocking number of no: the outcome stays unknown.
    pub(crate) fn undecidable(&self) -> bool {
        let open = self.nodes - self.yes - self.no - self.failed;
        self.yes + open < quorum(self.nodes) && self.no + open < self.blocking()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tally(nodes: usize, votes: &[Vote]) -> Tally {
        let mut tally = Tally::new(nodes);
        votes.iter().for_each(|vote| tally.count(*vote));
        tally
    }

    #[test]
    fn quorums_of_the_usual_sizes() {
        let sizes = [1, 2, 3, 4, 5, 6, 7];
        assert_eq!(sizes.map(quorum), [1, 2, 2, 3, 3, 4, 4]);
    }

    #[test]
    fn one_for_and_one_against_of_two_is_settled() {
        let split = tally(2, &[Vote::Yes, Vote::No]);
        assert!(!split.reached() && split.impossible());
        assert!(!split.impossible_by_failures());
    }

    #[test]
    fn failures_alone_are_told_from_failures_with_refusals() {
        use Vote::{Failed, No};
        assert!(tally(5, &[Failed, Failed, Failed]).impossible_by_failures());
        let mixed = tally(5, &[Failed, Failed, No]);
        assert!(mixed.impossible() && !mixed.impossible_by_failures());
    }

    #[test]
    fn a_refusal_counts_as_an_answer_and_a_failure_does_not() {
        use Vote::{Failed, No, Yes};
        let silent = tally(5, &[Yes, No, Failed, Failed]);
        assert!(!silent.answered());
        let answered = tally(5, &[Yes, No, Failed, Failed, No]);
        assert!(answered.answered());
        assert_eq!((answered.yes(), answered.no()), (1, 2));
    }

    fn votes() -> impl Strategy<Value = Vec<Vote>> {
        prop::collection::vec(
            prop_oneof![Just(Vote::Yes), Just(Vote::No), Just(Vote::Failed)],
            1..=9,
        )
    }

    proptest! {
        #[test]
        fn two_quorums_share_a_node(nodes in 1_usize..1000) {
            prop_assert!(2 * quorum(nodes) > nodes);
            prop_assert!(quorum(nodes) <= nodes);
        }

        #[test]
        fn complete_votes_always_settle(votes in votes()) {
            let tally = tally(votes.len(), &votes);
            prop_assert!(tally.reached() != tally.impossible());
            prop_assert_eq!(
                tally.undecidable(),
                !tally.reached() && !tally.impossible_by_refusals()
            );
        }

        #[test]
        fn a_settled_round_stays_settled(votes in votes()) {
            let mut tally = Tally::new(votes.len());
            let (mut reached, mut impossible, mut undecidable) = (false, false, false);
            for vote in votes {
                tally.count(vote);
                prop_assert!(!reached || tally.reached());
                prop_assert!(!impossible || tally.impossible());
                prop_assert!(!undecidable || tally.undecidable());
                (reached, impossible) = (tally.reached(), tally.impossible());
                undecidable = tally.undecidable();
                prop_assert!(!(reached && impossible));
            }
        }
    }
}
