//! Which node has given which number, beside its vote.

use std::sync::Arc;

use super::{Round, quorum};
use crate::{
    error::NodeError,
    node::{Reply, ReplySink},
    sync::Mutex,
};

/// Hears the answers to a question for numbers, and passes the votes on to a round.
pub(crate) struct Numbering {
    round: Arc<Round>,
    drawn: Mutex<Drawn>,
}

struct Drawn {
    /// The numbers, by node.
    first: Vec<Option<u64>>,
    is_closed: bool,
}

impl Numbering {
    pub(crate) fn new(round: &Arc<Round>) -> Arc<Self> {
        let drawn = Drawn { first: vec![None; round.names().len()], is_closed: false };
        Arc::new(Self { round: Arc::clone(round), drawn: Mutex::new(drawn) })
    }

    /// The votes that came with the numbers.
    pub(crate) fn round(&self) -> &Round {
        &self.round
    }

    /// The numbers so far, by node. Numbers that come later never count: they may be larger.
    pub(crate) fn close(&self) -> Vec<Option<u64>> {
        let mut drawn = self.drawn.lock();
        drawn.is_closed = true;
        drawn.first.clone()
    }
}

impl ReplySink for Numbering {
    fn receive(self: Arc<Self>, node: usize, result: Result<Reply, NodeError>) {
        // Before the vote: a quorum of votes comes with a quorum of numbers.
        if let Ok(Reply::Numbered { first }) = result {
            let mut drawn = self.drawn.lock();
            if !drawn.is_closed
                && let Some(slot) = drawn.first.get_mut(node)
            {
                slot.get_or_insert(first);
            }
        }
        Arc::clone(&self.round).receive(node, result);
    }

    fn names(&self) -> &[Arc<str>] {
        self.round.names()
    }
}

/// The outcome of the numbers from the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// A quorum of nodes has given this number, and no node that answered has given a larger
    /// number. It is final: every later holder asks a node of that quorum.
    Final(u64),
    /// This is the largest number, and fewer nodes know it: it has to be confirmed.
    Split(u64),
}

/// The token of a holder is the largest number among the answers of a quorum of nodes. `None` when
/// fewer nodes have given a number.
pub(crate) fn agree(first: &[Option<u64>]) -> Option<Agreement> {
    let enough = quorum(first.len());
    if first.iter().flatten().count() < enough {
        return None;
    }
    let largest = *first.iter().flatten().max()?;
    let same = first.iter().flatten().filter(|number| **number == largest).count();
    Some(if same >= enough { Agreement::Final(largest) } else { Agreement::Split(largest) })
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Tally, names},
        *,
    };

    #[test]
    fn a_number_is_final_when_a_quorum_has_given_it_and_no_node_a_larger_one() {
        use Agreement::{Final, Split};
        for (first, agreed) in [
            ([Some(5), Some(5), Some(5), None, None], Some(Final(5))),
            ([Some(5), Some(5), Some(5), Some(4), None], Some(Final(5))),
            ([Some(5), Some(5), Some(5), Some(6), None], Some(Split(6))),
            ([Some(5), Some(5), Some(4), None, None], Some(Split(5))),
            ([Some(1), Some(2), Some(3), Some(4), Some(5)], Some(Split(5))),
            ([Some(5), Some(5), None, None, None], None),
        ] {
            assert_eq!(agree(&first), agreed, "{first:?}");
        }
        assert_eq!(agree(&[Some(5)]), Some(Final(5)));
        assert_eq!(agree(&[Some(5), Some(5)]), Some(Final(5)), "both of two");
    }

    #[test]
    fn a_number_that_comes_late_does_not_count() {
        let round = Round::new(&names(3), Tally::reached);
        let numbering = Numbering::new(&round);
        let give =
            |node, first| Arc::clone(&numbering).receive(node, Ok(Reply::Numbered { first }));
        give(0, 7);
        give(1, 8);
        assert!(round.tally().reached());
        assert_eq!(numbering.close(), [Some(7), Some(8), None]);
        give(2, 9);
        assert_eq!(numbering.close(), [Some(7), Some(8), None]);
        assert_eq!(round.yes(), 3, "its vote counts");
    }

    #[test]
    fn a_node_gives_one_number() {
        let round = Round::new(&names(3), Tally::reached);
        let numbering = Numbering::new(&round);
        for first in [7, 8] {
            Arc::clone(&numbering).receive(0, Ok(Reply::Numbered { first }));
        }
        assert_eq!(numbering.close(), [Some(7), None, None]);
    }
}
