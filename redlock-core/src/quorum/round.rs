//! A question to all nodes: the answer of each node, and whether the question is settled.

use std::{
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Poll, Waker},
    time::Duration,
};

use smallvec::{SmallVec, smallvec};

use super::{
    Nodes,
    votes::{Tally, Vote},
};
use crate::{
    error::{NodeError, NodeErrorKind},
    node::{Reply, ReplySink},
    sync::Mutex,
};

/// A question in progress. It outlives its asker: late votes count for as long as a lease or a
/// renewal refers to the round.
pub(crate) struct Round {
    /// What errors call the nodes.
    names: Arc<[Arc<str>]>,
    settles: fn(&Tally) -> bool,
    /// By node, whether a yes counts. `None` if each does.
    voters: Option<Voters>,
    state: Mutex<State>,
    on_settled: Option<Box<dyn OnSettled>>,
}

/// The nodes that had confirmed a lease, by their places, before it was in doubt.
///
/// In a doubt, a yes of another node says nothing. Its `SET`, or the one that healed it, may have been late, and have run
/// after another client had the lock.
type Voters = Box<[bool]>;

struct State {
    tally: Tally,
    /// By node. As most clients have five nodes at most, they are in one piece with the round.
    answers: SmallVec<[VoteState; 5]>,
    settled: bool,
    /// The consequences of the outcome have run, too: the asker may hear of it.
    concluded: bool,
    /// The task that waits for the outcome.
    asker: Option<Waker>,
}

/// The consequences of a settled round. The caller that casts the deciding vote runs them, so they
/// need no task.
pub(crate) trait OnSettled: Send + Sync + 'static {
    /// Is called when the deciding vote was cast. Runs once.
    fn settled(&self, round: &Arc<Round>, tally: Tally);

    /// Whether a caller waits for the outcome.
    fn is_awaited(&self) -> bool {
        false
    }

    /// Is called for another vote that came in after a quorum of yes. May run before
    /// [`settled`](Self::settled) is through.
    fn late(&self, round: &Arc<Round>);
}

/// What a question has done on a node, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// The node has not answered, its answer was lost, or it was asked once more.
    Possible,
    Certain,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum VoteState {
    Awaited,
    Yes,
    /// There is no such key.
    Missing,
    /// The key was missing, and the node was asked to set it again.
    Healing,
    /// All nodes were asked once more, in another round. What this round asked may have run, whatever comes of it.
    AskedAgain,
    /// Another client has the key.
    Foreign,
    Failed(Box<NodeError>),
}

impl Round {
    /// A round over the nodes with these `names`, settled as soon as `settles` says so.
    pub(crate) fn new(names: &Arc<[Arc<str>]>, settles: fn(&Tally) -> bool) -> Arc<Self> {
        Self::build(names, settles, None, None)
    }

    /// Like [`new`](Self::new), about a lease that is in doubt.
    pub(crate) fn in_doubt(
        names: &Arc<[Arc<str>]>,
        settles: fn(&Tally) -> bool,
        voters: Voters,
    ) -> Arc<Self> {
        Self::build(names, settles, Some(voters), None)
    }

    /// Like [`new`](Self::new), with the consequences to run when the round is settled. With `voters` for a lease that is
    /// in doubt.
    pub(crate) fn with_on_settled(
        names: &Arc<[Arc<str>]>,
        settles: fn(&Tally) -> bool,
        voters: Option<Voters>,
        on_settled: impl OnSettled,
    ) -> Arc<Self> {
        Self::build(names, settles, voters, Some(Box::new(on_settled)))
    }

    fn build(
        names: &Arc<[Arc<str>]>,
        settles: fn(&Tally) -> bool,
        voters: Option<Voters>,
        on_settled: Option<Box<dyn OnSettled>>,
    ) -> Arc<Self> {
        let state = State {
            tally: Tally::new(names.len()),
            answers: smallvec![VoteState::Awaited; names.len()],
            settled: false,
            concluded: false,
            asker: None,
        };
        let names = Arc::clone(names);
        Arc::new(Self { names, settles, voters, state: Mutex::new(state), on_settled })
    }

    /// The nodes that have said yes so far, late ones included.
    pub(crate) fn voters(&self) -> Voters {
        self.state.lock().answers.iter().map(|answer| *answer == VoteState::Yes).collect()
    }

    /// What a yes of this node is, if it does not count.
    fn uncounted(&self, node: usize) -> Option<VoteState> {
        let is_voter = |voters: &Voters| voters.get(node).copied().unwrap_or_default();
        if self.voters.as_ref().is_none_or(is_voter) {
            return None;
        }
        let reason = "this client had no answer from it before the doubt: it may have set the key after another client \
                      held the lock";
        let error = NodeError::new(&self.name_of(node), NodeErrorKind::SitsOut, reason);
        // The value there is ours all the same (rule 5).
        Some(VoteState::Failed(Box::new(NodeError { may_have_run: true, ..error })))
    }

    fn vote(self: &Arc<Self>, node: usize, result: Result<Reply, NodeError>) {
        let (vote, answer) = match result {
            Ok(reply) => vote_of(&reply),
            Err(error) => (Vote::Failed, VoteState::Failed(Box::new(error))),
        };
        let mut state = self.state.lock();
        let State { tally, answers, settled, concluded, asker } = &mut *state;
        match answers.get_mut(node) {
            Some(slot @ VoteState::Awaited) => {
                let uncounted = self.uncounted(node).filter(|_| answer == VoteState::Yes);
                let (vote, answer) =
                    uncounted.map_or((vote, answer), |answer| (Vote::Failed, answer));
                *slot = answer;
                tally.count(vote);
            }
            Some(slot @ VoteState::Healing) => {
                if answer == VoteState::Yes {
                    tally.come_round();
                }
                *slot = answer;
                return;
            }
            Some(slot @ VoteState::AskedAgain) => {
                if answer == VoteState::Yes {
                    *slot = answer;
                }
                return;
            }
            // A node has one vote.
            _ => return,
        }
        let late = *settled;
        if !late && !(self.settles)(tally) {
            return;
        }
        *settled = true;
        let tally = *tally;
        let Some(on_settled) = &self.on_settled else {
            *concluded = true;
            let asker = asker.take();
            drop(state);
            asker.into_iter().for_each(Waker::wake);
            return;
        };
        drop(state);
        if !late {
            on_settled.settled(self, tally);
            let asker = {
                let mut state = self.state.lock();
                state.concluded = true;
                state.asker.take()
            };
            asker.into_iter().for_each(Waker::wake);
        } else if tally.reached() {
            on_settled.late(self);
        }
    }

    /// Waits until the round is settled. Answers that do not come count as failed in the end. For one
    /// asker at a time.
    pub(crate) fn settled(self: &Arc<Self>, nodes: &Nodes) -> impl Future<Output = Tally> {
        let settled = poll_fn(|cx| {
            let before = {
                let mut state = self.state.lock();
                if state.concluded {
                    return Poll::Ready(state.tally);
                }
                state.asker.replace(cx.waker().clone())
            };
            // Dropping a waker may run its executor's code: not under the lock.
            drop(before);
            Poll::Pending
        });
        // A block: an `async fn` would keep its arguments twice (`op::acquire`).
        async move {
            match nodes.in_time(settled).await {
                Some(tally) => tally,
                None => self.give_up(nodes.give_up_after()),
            }
        }
    }

    fn give_up(self: &Arc<Self>, limit: Duration) -> Tally {
        let awaited: Vec<usize> = {
            let state = self.state.lock();
            (0..state.answers.len())
                .filter(|node| state.answers[*node] == VoteState::Awaited)
                .collect()
        };
        for node in awaited {
            let reason = format!("nothing was heard for {limit:?}");
            let error = NodeError::new(&self.name_of(node), NodeErrorKind::Timeout, reason);
            self.vote(node, Err(error));
        }
        self.tally()
    }

    /// The votes so far, late votes included.
    pub(crate) fn tally(&self) -> Tally {
        self.state.lock().tally
    }

    /// How many nodes have said yes so far, late ones included.
    pub(crate) fn yes(&self) -> usize {
        self.state.lock().tally.yes()
    }

    /// Whether this node has said yes, at once or after it was healed.
    pub(crate) fn has_yes(&self, node: usize) -> bool {
        self.state.lock().answers.get(node) == Some(&VoteState::Yes)
    }

    /// For each node, whether the question has taken effect there, or may still do so (rule 5).
    pub(crate) fn effects(&self) -> SmallVec<[Effect; 5]> {
        let effect = |answer: &VoteState| match answer {
            VoteState::Yes => Effect::Certain,
            VoteState::Awaited | VoteState::Healing | VoteState::AskedAgain => Effect::Possible,
            VoteState::Failed(error) if error.may_have_run => Effect::Possible,
            VoteState::Failed(_) | VoteState::Missing | VoteState::Foreign => Effect::None,
        };
        self.state.lock().answers.iter().map(effect).collect()
    }

    /// The nodes where the key is missing. Each is returned once, and then has another vote.
    pub(crate) fn take_missing(&self) -> Vec<usize> {
        let mut state = self.state.lock();
        let mut missing = Vec::new();
        for (node, answer) in state.answers.iter_mut().enumerate() {
            if *answer == VoteState::Missing {
                *answer = VoteState::Healing;
                missing.push(node);
            }
        }
        missing
    }

    /// Notes that this node is asked once more, in another round, and that round has the answer:
    /// the question may now take effect there. The node's vote in this round was cast before,
    /// because a node answers in order.
    pub(crate) fn set_again(&self, node: usize) {
        if let Some(answer) = self.state.lock().answers.get_mut(node)
            && *answer != VoteState::Yes
        {
            *answer = VoteState::Healing;
        }
    }

    /// Notes that all nodes are asked once more, in another round, which has the answers. The question may now take
    /// effect on each of them, also where the answer to this round is yet to come.
    pub(crate) fn asked_again(&self) {
        for answer in &mut self.state.lock().answers {
            if *answer != VoteState::Yes {
                *answer = VoteState::AskedAgain;
            }
        }
    }

    /// Whether a node has not answered in time.
    pub(crate) fn has_timeouts(&self) -> bool {
        let is_late = |answer: &VoteState| matches!(answer, VoteState::Failed(error) if error.kind == NodeErrorKind::Timeout);
        self.state.lock().answers.iter().any(is_late)
    }

    /// The failures of the nodes, in the order of the nodes.
    pub(crate) fn failures(&self) -> Vec<NodeError> {
        let state = self.state.lock();
        let failed = |answer: &VoteState| match answer {
            VoteState::Failed(error) => Some(NodeError::clone(error)),
            VoteState::Awaited
            | VoteState::Yes
            | VoteState::Missing
            | VoteState::Healing
            | VoteState::AskedAgain
            | VoteState::Foreign => None,
        };
        state.answers.iter().filter_map(failed).collect()
    }
}

/// What a reply means for the question of its round.
fn vote_of(reply: &Reply) -> (Vote, VoteState) {
    match reply.of_key() {
        Reply::Missing => (Vote::No, VoteState::Missing),
        Reply::Foreign | Reply::Queued { .. } | Reply::Full | Reply::Permits { .. } => {
            (Vote::No, VoteState::Foreign)
        }
        Reply::Done
        | Reply::There { .. }
        | Reply::Numbered { .. }
        | Reply::Inspected(_)
        | Reply::Woke { .. }
        | Reply::Unwoken { .. }
        | Reply::HasReaders { .. } => (Vote::Yes, VoteState::Yes),
    }
}

pub(super) fn is_yes(reply: &Reply) -> bool {
    vote_of(reply).1 == VoteState::Yes
}

impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Round").field("tally", &self.state.lock().tally).finish_non_exhaustive()
    }
}

impl ReplySink for Round {
    fn receive(self: Arc<Self>, node: usize, result: Result<Reply, NodeError>) {
        self.vote(node, result);
    }

    fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    fn is_awaited(&self) -> bool {
        self.on_settled.as_ref().is_some_and(|it| it.is_awaited()) && !self.state.lock().settled
    }
}

/// The names of so many nodes: `a:0` and so on.
#[cfg(test)]
pub(crate) fn names(nodes: usize) -> Arc<[Arc<str>]> {
    (0..nodes).map(|node| format!("a:{node}").into()).collect()
}

#[cfg(test)]
mod tests;
