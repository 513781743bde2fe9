//! Counts each server once in a round, however many names it has (rule 16).
//!
//! [`Twins`](super::Twins) asks a server under one name only. A name that is still connecting shows its server no
//! sooner than it answers, and may then say yes beside another name: to a renewal, or to an adoption. Other questions
//! need none of this. A server gives a new lock once. It draws a number for each name, but no two of these numbers are
//! the same, so one of them is not confirmed.

use std::sync::{Arc, Weak};

use smallvec::SmallVec;

use super::{Nodes, Round, round::is_yes};
use crate::{
    error::{NodeError, NodeErrorKind},
    node::{Reply, ReplySink},
    sync::Mutex,
};

/// Gives the answers to a round, a yes of each server once.
pub(crate) struct OneVote {
    round: Arc<Round>,
    /// Weak: a question that waits must not keep the nodes.
    nodes: Weak<Nodes>,
    /// The processes that have said yes.
    voted: Mutex<SmallVec<[u64; 5]>>,
}

impl OneVote {
    pub(crate) fn new(round: &Arc<Round>, nodes: &Arc<Nodes>) -> Arc<Self> {
        let (round, nodes) = (Arc::clone(round), Arc::downgrade(nodes));
        Arc::new(Self { round, nodes, voted: Mutex::default() })
    }

    /// The server that answers under this name, by its fingerprint.
    pub(crate) fn fingerprint_of(&self, node: usize) -> Option<u64> {
        Some(self.nodes.upgrade()?.get(node)?.fingerprint())
    }

    /// Whether the server that answers under this name has said yes under another one. Notes its yes.
    fn has_voted(&self, node: usize) -> bool {
        // As late as possible: the process that has answered may be new.
        let process = self.nodes.upgrade().and_then(|nodes| Some(nodes.get(node)?.process()));
        let Some(process) = process.filter(|process| *process != 0) else { return false };
        let mut voted = self.voted.lock();
        let has_voted = voted.contains(&process);
        if !has_voted {
            voted.push(process);
        }
        has_voted
    }
}

impl ReplySink for OneVote {
    fn receive(self: Arc<Self>, node: usize, result: Result<Reply, NodeError>) {
        let result = match result {
            Ok(reply) if is_yes(&reply) && self.has_voted(node) => {
                let reason =
                    "its server has voted under another name: give every node a server of its own";
                let error = NodeError::new(&self.name_of(node), NodeErrorKind::Twin, reason);
                // The value there is ours all the same (rule 5).
                Err(NodeError { may_have_run: true, ..error })
            }
            result => result,
        };
        Arc::clone(&self.round).receive(node, result);
    }

    fn names(&self) -> &[Arc<str>] {
        self.round.names()
    }

    fn is_awaited(&self) -> bool {
        self.round.is_awaited()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;
    use crate::{
        LockError, Redlock, node::intercepted::slow_to_connect, quorum::Tally, testing::nodes,
    };

    const MS: Duration = Duration::from_millis(1);

    /// A server that does not have the key says so under each of its names, and may still give its vote.
    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_no_vote() {
        let nodes = nodes(2);
        let second = slow_to_connect("second", &nodes[0], MS);
        let redlock = Redlock::builder().over(vec![nodes[0].spec(), nodes[1].spec(), second]);
        drop(redlock.lock("warm").await.unwrap());
        sleep(10 * MS).await;
        let all = &redlock.client().nodes;
        let round = Round::new(&all.names, Tally::is_complete);
        let votes = OneVote::new(&round, all);
        Arc::clone(&votes).receive(0, Ok(Reply::Missing));
        Arc::clone(&votes).receive(2, Ok(Reply::Done));
        assert_eq!((round.yes(), round.tally().no()), (1, 1));
    }

    /// The renewal waits for the connection of the second name, which shows that its server has said yes before.
    #[tokio::test(start_paused = true)]
    async fn a_server_with_two_names_has_one_vote_for_a_renewal() {
        let nodes = nodes(2);
        let late = slow_to_connect("late", &nodes[0], 80 * MS);
        let redlock = Redlock::builder().over(vec![nodes[0].spec(), nodes[1].spec(), late]);
        let guard = redlock.lock("r").await.unwrap();
        // What this lock had to ask of the second name is overdue.
        sleep(60 * MS).await;
        nodes[1].hang();
        let error = guard.extend(60_000 * MS).await.unwrap_err();
        let LockError::NoQuorum { granted, nodes, .. } = error else { panic!("{error:?}") };
        let kinds: Vec<_> = nodes.iter().map(|it| it.kind).collect();
        assert_eq!((granted, &kinds[..]), (1, &[NodeErrorKind::Timeout, NodeErrorKind::Twin][..]));
    }
}
