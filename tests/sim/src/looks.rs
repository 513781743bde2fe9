//! What an operator is told of a lock: it is what the nodes had when they answered.

use std::{collections::BTreeSet, time::Duration};

use redlock_core::{LockState, LockStatus, NodeStatus};

/// What a node had when it answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) node: usize,
    /// The claim that had the lock there, and the number of its client. None for readers.
    pub(super) writer: Option<(u64, usize)>,
    /// How long the lock had left. None when it was free.
    pub(super) left: Option<Duration>,
}

impl Look {
    fn holder(&self) -> Option<String> {
        self.writer.map(|(_, client)| format!("c{client}"))
    }

    fn is_told_by(&self, state: &LockState) -> bool {
        match (state, self.left) {
            (LockState::Free, left) => left.is_none(),
            (LockState::Held { holder, remaining, .. }, Some(left)) => {
                *holder == self.holder() && *remaining == left
            }
            _ => false,
        }
    }
}

/// What is wrong with an answer to an operator. `looks` is what nodes had while the operator asked, and
/// `holder` a client that had the lock all the time, on a quorum of nodes that the operator knows.
pub(super) fn judge(status: &LockStatus, looks: &[Look], holder: Option<usize>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut told: Vec<Look> = Vec::new();
    let mut is_sure = true;
    let nodes = status.nodes();
    for NodeStatus { node, state, .. } in nodes {
        if matches!(state, LockState::Unknown { .. }) {
            continue;
        }
        let had = || looks.iter().filter(|look| look.node == number_of(node));
        let mut fits = had().filter(|look| look.is_told_by(state));
        let Some(look) = fits.next() else {
            let had: Vec<_> = had().collect();
            wrong.push(format!("{node} is told as {state:?}, and had {had:?}"));
            continue;
        };
        // An answer that was late for another call may say the same of another claim.
        is_sure &= fits.all(|other| other.writer == look.writer);
        told.push(*look);
    }
    let quorum = nodes.len() / 2 + 1;
    // A node with two names has one vote.
    let votes = |is_for: &dyn Fn(&Look) -> bool| {
        let of: BTreeSet<usize> =
            told.iter().filter(|it| is_for(it)).map(|look| look.node).collect();
        of.len()
    };
    let has_quorum =
        |look: &&Look| look.writer.is_some() && votes(&|it| it.writer == look.writer) >= quorum;
    let agreed = told.iter().find(has_quorum).and_then(Look::holder);
    if is_sure && wrong.is_empty() && status.holder() != agreed.as_deref() {
        wrong.push(format!(
            "the holder is told as {:?}, and a quorum had {agreed:?}: {told:?}",
            status.holder()
        ));
    }
    let left = status.remaining();
    let free_by = |at: Duration| told.iter().filter(|it| it.left.unwrap_or_default() <= at).count();
    let is_first = left.is_zero() || free_by(left.saturating_sub(Duration::from_nanos(1))) < quorum;
    if free_by(left) < quorum.min(told.len()) || !is_first {
        wrong.push(format!("it is told to be free in {left:?}, and the nodes had {told:?}"));
    }
    if let Some(client) = holder {
        let silent = nodes.len() - told.len();
        let name = Some(format!("c{client}"));
        if votes(&|look| look.holder() == name) + silent < quorum {
            wrong.push(format!("c{client} had the lock all the time, and it is told: {told:?}"));
        }
    }
    wrong
}

/// The number of a node with this name. A second name of a node has the first in it.
fn number_of(name: &str) -> usize {
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(usize::MAX)
}
