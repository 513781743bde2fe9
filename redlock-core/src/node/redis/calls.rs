//! Which command is called how, and in which order the answers are due.
//!
//! Pure: commands become bytes in a buffer, and the answers come in one by one, in order. What follows
//! from an answer is in `answered`.

mod answered;

use std::{collections::VecDeque, iter::repeat_n, sync::Arc, time::Duration};

use redis::Value;
use tokio::sync::oneshot;

use super::{
    abilities::{Abilities, Delete},
    acknowledged::{self, Acknowledged, Wait},
    batch::Batch,
    command, native,
    redirect::Redirect,
    script::How,
    scripts::{Known, script},
};
use crate::{
    error::{NodeError, NodeErrorKind},
    node::{Action, Command, Listens, Reply},
};

/// The receiver of the next answer.
enum Awaited {
    Call(Call),
    /// The answer to a `WAIT`.
    Replicas,
    Pong(oneshot::Sender<Result<(), NodeError>>),
    /// No receiver: if the server does not track the key after all, only a push is missing.
    Nothing,
}

/// `count` commands of a batch from `first` on, which went out as one call.
struct Call {
    batch: Arc<Batch>,
    first: usize,
    count: usize,
    means: Means,
    stage: Stage,
    /// The call went to a member of the cluster that is taking the slot over.
    asking: bool,
    /// How many members have redirected it.
    hops: u8,
    /// How many answers come, and the answers that came so far. A single answer is not kept.
    answers: usize,
    got: Vec<Value>,
}

/// How a command is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    /// As a script, or as the one command that does it.
    Script(How),
    Native(Delete),
}

/// Which part of its work a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    First,
    /// The key was deleted or not. The script gives the turn to a waiter.
    Wake {
        deleted: bool,
    },
    /// The key is ours, with this much left. It is to live for `ttl`.
    Prolong {
        left: Duration,
        ttl: Duration,
    },
}

/// A command that another member of the cluster has to run.
#[cfg_attr(not(feature = "cluster"), allow(dead_code))] // read by `cluster` alone
pub(super) struct Redirected {
    pub(super) batch: Arc<Batch>,
    pub(super) place: usize,
    pub(super) to: Redirect,
    /// How many members have redirected it.
    pub(super) hops: u8,
}

/// After this many redirections, the next is the answer. Members that disagree about a slot, as after a move
/// that was cut short, would send a command to and fro for ever.
const MAX_HOPS: u8 = 5;

/// The calls of one connection.
pub(super) struct Calls {
    node: Arc<str>,
    awaited: VecDeque<Awaited>,
    known: Known,
    abilities: Abilities,
    /// The server tells of changes of keys.
    tracks: bool,
    /// It was asked to tell of some.
    has_tracked: bool,
    /// The server is a cluster, or stands before a cluster: it takes keys of different slots only
    /// in separate calls.
    apart: bool,
    /// Votes count once replicas have them.
    acknowledged: Option<Acknowledged>,
    /// The server is a member of a cluster that is known as such, and says where a key is.
    is_member: bool,
    redirected: Vec<Redirected>,
    /// The member has answered a command in time.
    heard: bool,
}

impl Calls {
    pub(super) fn new(
        node: Arc<str>,
        abilities: Abilities,
        tracks: bool,
        wait: Option<Wait>,
        is_member: bool,
    ) -> Self {
        Self {
            node,
            awaited: VecDeque::new(),
            known: Known::default(),
            abilities,
            tracks,
            has_tracked: false,
            apart: is_member,
            acknowledged: wait.map(Acknowledged::new),
            is_member,
            redirected: Vec::new(),
            heard: false,
        }
    }

    /// Has the server push no changes from here on, if it was asked to push any.
    pub(super) fn track_no_more(&mut self, out: &mut Vec<u8>) {
        if self.has_tracked {
            command::track_no_more(out);
            self.awaited.push_back(Awaited::Nothing);
        }
    }

    /// No vote counts from here on. A `WAIT` would hold up the commands behind it.
    pub(super) fn wait_no_more(&mut self) {
        self.acknowledged = None;
    }

    /// Whether no answer is on its way.
    pub(super) fn is_answered(&self) -> bool {
        self.awaited.is_empty()
    }

    /// Writes the commands of a batch.
    pub(super) fn ask(&mut self, batch: &Arc<Batch>, out: &mut Vec<u8>) {
        let mut first = 0;
        while first < batch.commands.len() {
            let apart = self.apart || !self.abilities.scripts;
            let count = if apart { 1 } else { command::together(&batch.commands[first..]) };
            self.ask_part(batch, first, count, false, 0, out);
            first += count;
        }
        if batch.commands.iter().any(|it| acknowledged::needs(it.action)) {
            self.await_replicas(out);
        }
    }

    /// Writes one command of a batch, which another member of the cluster may be `asking` for, and which
    /// so many members have redirected.
    #[cfg(feature = "cluster")]
    pub(super) fn ask_one(
        &mut self,
        batch: &Arc<Batch>,
        place: usize,
        asking: bool,
        hops: u8,
        out: &mut Vec<u8>,
    ) {
        let Some(command) = batch.commands.get(place) else { return };
        self.ask_part(batch, place, 1, asking, hops, out);
        if acknowledged::needs(command.action) {
            self.await_replicas(out);
        }
    }

    fn ask_part(
        &mut self,
        batch: &Arc<Batch>,
        first: usize,
        count: usize,
        asking: bool,
        hops: u8,
        out: &mut Vec<u8>,
    ) {
        let Some(command) = batch.commands.get(first) else { return };
        let Some(means) = self.means(command, count) else {
            let refused = match command.action {
                // There is no queue that it could be in.
                Action::Leave { .. } | Action::RaiseBarrier { .. } | Action::LowerBarrier => {
                    Ok(Reply::Missing)
                }
                _ => Err(self.failed(NO_SCRIPTS.to_owned(), false)),
            };
            batch.answer_all(first, repeat_n(refused, count));
            return;
        };
        self.track(command, asking, out);
        let batch = Arc::clone(batch);
        let (stage, got) = (Stage::First, Vec::new());
        self.call(Call { batch, first, count, means, stage, asking, hops, answers: 1, got }, out);
    }

    /// How to call this command. `None` when it needs a script and the server runs none.
    fn means(&mut self, command: &Command, count: usize) -> Option<Means> {
        let Abilities { scripts, delete } = self.abilities;
        let action = command.action;
        // A native command is for one key.
        match delete.filter(|_| !command.claim.is_set() && !command.claim.shared) {
            // A native delete replaces the script for one lock, unless that lock was taken in a turn. Others are likely
            // to wait then. The native delete learns that only from its answer, so their turn would come a round trip
            // later.
            Some(delete)
                if !scripts && native::can(action)
                    || count == 1
                        && matches!(action, Action::Release { .. })
                        && !command.claim.has_turn =>
            {
                Some(Means::Native(delete))
            }
            _ if scripts || script(command).is_none() => {
                Some(Means::Script(self.known.how(command)))
            }
            _ => None,
        }
    }

    /// Writes a call and awaits its answers.
    fn call(&mut self, mut call: Call, out: &mut Vec<u8>) {
        let begin: &[u8] = if call.asking { command::ASKING } else { b"" };
        let commands = &call.batch.commands[call.first..call.first + call.count];
        let Some(command) = commands.first() else { return };
        call.answers = match (call.means, call.stage) {
            (Means::Native(_), Stage::Prolong { ttl, .. }) => {
                native::prolong(&command.claim, ttl, begin, out);
                1
            }
            (Means::Native(delete), _) => {
                native::encode(command, self.abilities, delete, begin, out)
            }
            (Means::Script(how), _) => {
                out.extend_from_slice(begin);
                command::encode(commands, how, out);
                1
            }
        };
        if call.asking {
            // Each command has the answer to `ASKING` before its own.
            call.answers *= 2;
        }
        self.awaited.push_back(Awaited::Call(call));
    }

    /// Has the server push the changes that a command listens for. A waiter listens before it
    /// joins, so that it cannot miss its turn.
    fn track(&mut self, command: &Command, asking: bool, out: &mut Vec<u8>) {
        if !self.tracks || asking {
            return;
        }
        match command.action {
            Action::Watch => {
                self.has_tracked = true;
                command::track(out);
                self.awaited.push_back(Awaited::Nothing);
            }
            Action::Join { listens: listens @ (Listens::Turn | Listens::TurnAndLock), .. } => {
                self.has_tracked = true;
                command::track(out);
                command::listen(&command.claim, listens == Listens::TurnAndLock, out);
                self.awaited.extend([Awaited::Nothing, Awaited::Nothing]);
            }
            _ => {}
        }
    }

    fn await_replicas(&mut self, out: &mut Vec<u8>) {
        if let Some(wait) = self.acknowledged.as_mut().and_then(Acknowledged::asked) {
            command::wait(wait, out);
            self.awaited.push_back(Awaited::Replicas);
        }
    }

    /// Asks whether the server is alive.
    pub(super) fn ping(&mut self, out: &mut Vec<u8>) -> oneshot::Receiver<Result<(), NodeError>> {
        let (tell, told) = oneshot::channel();
        command::ping(out);
        self.awaited.push_back(Awaited::Pong(tell));
        told
    }

    /// Calls once more, behind what was sent meanwhile.
    fn again(&mut self, call: Call, out: &mut Vec<u8>) {
        let votes =
            call.batch.commands.get(call.first).is_some_and(|it| acknowledged::needs(it.action));
        self.call(Call { got: Vec::new(), ..call }, out);
        if votes {
            self.await_replicas(out);
        }
    }

    /// The commands that other members of the cluster have to run, in order.
    #[cfg(feature = "cluster")]
    pub(super) fn take_redirected(&mut self) -> Vec<Redirected> {
        std::mem::take(&mut self.redirected)
    }

    /// Whether the member has answered in time since this was last asked.
    #[cfg(feature = "cluster")]
    pub(super) fn take_heard(&mut self) -> bool {
        std::mem::take(&mut self.heard)
    }

    /// The commands that the member has not answered.
    #[cfg(feature = "cluster")]
    pub(super) fn unanswered(&self) -> impl Iterator<Item = &Command> {
        self.awaited.iter().flat_map(|awaited| match awaited {
            Awaited::Call(Call { batch, first, count, .. }) => {
                batch.commands.get(*first..*first + *count).unwrap_or_default()
            }
            Awaited::Pong(_) | Awaited::Replicas | Awaited::Nothing => &[],
        })
    }

    /// Fails the commands of this batch that the member has not answered. Returns whether there are any.
    #[cfg(feature = "cluster")]
    pub(super) fn give_up(&self, batch: &Arc<Batch>, error: &NodeError) -> bool {
        let mut late = false;
        for awaited in &self.awaited {
            if let Awaited::Call(call) = awaited
                && Arc::ptr_eq(&call.batch, batch)
            {
                batch.answer_all(call.first, repeat_n(Err(error.clone()), call.count));
                late = true;
            }
        }
        for place in self.acknowledged.iter().flat_map(|it| it.held_of(batch)) {
            batch.answer(place, Err(error.clone()));
            late = true;
        }
        late
    }

    fn failed(&self, reason: String, may_have_run: bool) -> NodeError {
        NodeError { may_have_run, ..NodeError::new(&self.node, NodeErrorKind::Server, reason) }
    }
}

/// Why a command is not sent to a server that runs no scripts.
const NO_SCRIPTS: &str = "this needs scripts, which the server does not run for this user: allow \
                          +eval +evalsha";
