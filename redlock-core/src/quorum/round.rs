//! One question to all nodes: who has answered what, and whether that settles it.

use std::{fmt, future::poll_fn, sync::Arc, task::Poll, time::Duration};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

use super::votes::{Tally, Vote};
use crate::{
    error::{NodeError, NodeErrorKind},
    node::{Job, NodeHandle, Reply},
};

/// A question under way. Outlives its asker: late votes are counted as long as anybody cares.
pub(crate) struct Round {
    settles: fn(&Tally) -> bool,
    state: Mutex<State>,
    asker: AtomicWaker,
}

struct State {
    tally: Tally,
    answers: Vec<Answer>,
    settled: bool,
    /// Run once, when settled, by whoever casts the deciding vote: what needs no task.
    then: Option<Then>,
}

type Then = Box<dyn FnOnce(&Arc<Round>, Tally) + Send>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    Awaited,
    Yes,
    No,
    Failed(NodeError),
}

impl Round {
    /// A round over `nodes` nodes, settled as soon as `settles` says so.
    pub(crate) fn new(nodes: usize, settles: fn(&Tally) -> bool) -> Arc<Self> {
        Self::build(nodes, settles, None)
    }

    /// The same, with something to do when it is settled.
    pub(crate) fn then(
        nodes: usize,
        settles: fn(&Tally) -> bool,
        then: impl FnOnce(&Arc<Self>, Tally) + Send + 'static,
    ) -> Arc<Self> {
        Self::build(nodes, settles, Some(Box::new(then)))
    }

    fn build(nodes: usize, settles: fn(&Tally) -> bool, then: Option<Then>) -> Arc<Self> {
        let state = State {
            tally: Tally::new(nodes),
            answers: vec![Answer::Awaited; nodes],
            settled: false,
            then,
        };
        Arc::new(Self { settles, state: Mutex::new(state), asker: AtomicWaker::new() })
    }

    fn vote(self: &Arc<Self>, node: usize, result: Result<Reply, NodeError>) {
        let (vote, answer) = match result {
            Ok(Reply::Done) => (Vote::Yes, Answer::Yes),
            Ok(Reply::Missing | Reply::Foreign) => (Vote::No, Answer::No),
            Err(error) => (Vote::Failed, Answer::Failed(error)),
        };
        let mut state = self.state.lock();
        match state.answers.get_mut(node) {
            Some(slot @ Answer::Awaited) => *slot = answer,
            // A node has one vote.
            _ => return,
        }
        state.tally.count(vote);
        if state.settled || !(self.settles)(&state.tally) {
            return;
        }
        state.settled = true;
        let (tally, then) = (state.tally, state.then.take());
        drop(state);
        if let Some(then) = then {
            then(self, tally);
        }
        self.asker.wake();
    }

    /// Waits until the round is settled. For one asker at a time.
    ///
    /// Every command is bounded by `node_timeout` where it is sent; `limit` is for the case that
    /// nobody is left to send it, and counts what is missing then as failed.
    pub(crate) async fn settled(self: &Arc<Self>, limit: Duration) -> Tally {
        let settled = poll_fn(|cx| {
            self.asker.register(cx.waker());
            let state = self.state.lock();
            if state.settled { Poll::Ready(state.tally) } else { Poll::Pending }
        });
        match tokio::time::timeout(limit, settled).await {
            Ok(tally) => tally,
            Err(_) => self.give_up(limit),
        }
    }

    fn give_up(self: &Arc<Self>, limit: Duration) -> Tally {
        let awaited: Vec<usize> = {
            let state = self.state.lock();
            (0..state.answers.len())
                .filter(|node| state.answers[*node] == Answer::Awaited)
                .collect()
        };
        for node in awaited {
            let reason = format!("nothing was heard for {limit:?}");
            self.vote(node, Err(NodeError::new(&"a node".into(), NodeErrorKind::Timeout, reason)));
        }
        self.state.lock().tally
    }

    /// How many nodes have said yes so far, late ones included.
    pub(crate) fn yes(&self) -> usize {
        self.state.lock().tally.yes()
    }

    /// Whether what was asked may have happened on this node, or may still happen (rule 5).
    pub(crate) fn may_have_happened(&self, node: usize) -> bool {
        match self.state.lock().answers.get(node) {
            Some(Answer::Awaited | Answer::Yes) => true,
            Some(Answer::Failed(error)) => error.may_have_run(),
            Some(Answer::No) | None => false,
        }
    }

    /// What went wrong where, in the order of the nodes.
    pub(crate) fn failures(&self) -> Vec<NodeError> {
        let state = self.state.lock();
        let failed = |answer: &Answer| match answer {
            Answer::Failed(error) => Some(error.clone()),
            Answer::Awaited | Answer::Yes | Answer::No => None,
        };
        state.answers.iter().filter_map(failed).collect()
    }
}

impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Round").field("tally", &self.state.lock().tally).finish_non_exhaustive()
    }
}

/// One node's vote in a round. Must be cast; dropped, it counts as a broken connection.
#[must_use = "a ballot that is not cast counts as a failure"]
pub(crate) struct Ballot {
    round: Option<Arc<Round>>,
    node: usize,
    name: Arc<str>,
}

impl Ballot {
    pub(crate) fn new(round: &Arc<Round>, node: usize, name: &Arc<str>) -> Self {
        Self { round: Some(Arc::clone(round)), node, name: Arc::clone(name) }
    }

    pub(crate) fn cast(mut self, result: Result<Reply, NodeError>) {
        if let Some(round) = self.round.take() {
            round.vote(self.node, result);
        }
    }
}

impl Drop for Ballot {
    fn drop(&mut self) {
        if let Some(round) = self.round.take() {
            let reason = "the runtime that spoke to it ended";
            let error = NodeError::new(&self.name, NodeErrorKind::Disconnected, reason);
            round.vote(self.node, Err(error));
        }
    }
}

impl fmt::Debug for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ballot").field("node", &self.name).finish_non_exhaustive()
    }
}

/// A ballot whose result was known at once. It is not cast on the spot, because the asker may
/// hold a lock that the round's `then` takes too.
pub(crate) type Uncast = (Ballot, Result<Reply, NodeError>);

/// Hands every node its job, in one sweep without waiting: what is asked under one lock reaches
/// every node in that order. A node without a job counts as having nothing of ours.
#[must_use]
pub(crate) fn ask(
    nodes: &[NodeHandle],
    round: &Arc<Round>,
    job: impl Fn(usize) -> Option<Job>,
) -> Vec<Uncast> {
    let mut uncast = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let ballot = Ballot::new(round, index, node.name());
        match job(index) {
            Some(job) => uncast.extend(node.submit(job, ballot)),
            None => uncast.push((ballot, Ok(Reply::Missing))),
        }
    }
    uncast
}

/// Casts what [`ask`] left, with no lock held.
pub(crate) fn cast_all(uncast: Vec<Uncast>) {
    for (ballot, result) in uncast {
        ballot.cast(result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Arc<str> {
        "a:1".into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_settles_once_and_counts_late_votes() {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&calls);
        let round = Round::then(3, Tally::reached, move |_, tally| seen.lock().push(tally.yes()));
        for node in 0..3 {
            Ballot::new(&round, node, &name()).cast(Ok(Reply::Done));
        }
        assert_eq!(round.settled(Duration::from_secs(1)).await.yes(), 3);
        assert_eq!(*calls.lock(), [2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_has_one_vote() {
        let round = Round::new(3, Tally::reached);
        for _ in 0..3 {
            Ballot::new(&round, 0, &name()).cast(Ok(Reply::Done));
        }
        assert_eq!(round.yes(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_ballot_is_a_failure_that_may_have_run() {
        let round = Round::new(1, Tally::impossible);
        drop(Ballot::new(&round, 0, &name()));
        assert!(round.settled(Duration::from_secs(1)).await.impossible_by_failures());
        assert!(round.may_have_happened(0));
        assert_eq!(round.failures().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_at_the_limit() {
        let round = Round::new(3, |tally| tally.reached() || tally.impossible());
        assert!(round.settled(Duration::from_secs(1)).await.impossible_by_failures());
    }
}
