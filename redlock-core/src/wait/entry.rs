//! A place in the queue between processes, which one node keeps for each lock.
//!
//! The queue decides which client asks, never which client holds: a quorum grants the lock. A queue
//! that is lost, split or wrong disturbs the order for a moment and nothing else, so all of it is
//! soft state. Entries expire, refusals are passed over, and no answer of a queue is ever a vote.
//!
//! All clients compute the same node ([`super::queue_node()`]). A release gives the turn to the first waiter there, and
//! tells the waiter behind it that it is next. Both are pushed, so the others need not ask. A waiter that is next
//! looks for itself when the turn was not used (`pace::grace`). Where the first waiter may have crashed, two
//! more are told that they are near.

mod ahead;
mod leaving;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    pace::{COMES_BACK, DECLINED, LIFE},
    pushes::{Signal, Wake},
    queue_node::queue_node_except,
    queue_position::QueuePosition,
    renewals::Renewals,
    shown_turn::ShownTurn,
};
use crate::{
    clock::Moment,
    error::{Cause, NodeError, NodeErrorKind},
    metrics,
    node::{Action, Claim, Job, Listener, Listens, NodeHandle, Reply},
    quorum::{NodeQuestion, Nodes, no_answer},
};

/// A waiter listens to its keys anew after this many refreshes: a push that was lost without a trace costs
/// no more than that.
const LISTEN_AGAIN: u32 = 8;

/// The outcome of a report to the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    At(QueuePosition),
    /// The node is too busy to answer in time, or refuses for a moment, or no node can be reached. One may have
    /// taken the entry, and give it its turn.
    Unanswered,
    /// No node takes the entry.
    NoQueue,
}

/// An entry in the queue. Dropping it takes it out and passes on a turn that was given.
pub(crate) struct Entry {
    nodes: Arc<Nodes>,
    /// The key of the lock, and the name of this waiter.
    claim: Arc<Claim>,
    wake: Arc<Wake>,
    /// Which node keeps the entry.
    node: Option<usize>,
    /// Zero before the first answer.
    place: u64,
    /// How often the waiter was reported alive since it last began to listen.
    reports: u32,
    /// The node that keeps the entry is to push changes of the lock.
    follows_lock: bool,
    /// The waiter would share the lock with readers.
    pub(crate) reads: bool,
    renewals: Renewals,
    /// Every node that may have an entry, or listens for one.
    asked: Vec<usize>,
    /// Those of them that have taken the entry, or may have.
    taken: BTreeSet<usize>,
    /// The nodes that are listened to: those in `asked`, and those that could not be reached when the entry moved or was
    /// cut off. Any of them may become the queue node.
    heard: Vec<usize>,
    /// The nodes that have refused to take the entry, and until when each would refuse it again.
    declined: BTreeMap<usize, Moment>,
    /// When the client came to the queue.
    pub(super) joined: Moment,
    /// The node that gave it the turn: the entry is out of the queue there, unless a reader passed the turn on.
    turn_from: Option<usize>,
    /// The turn came, at some time.
    had_turn: bool,
    /// The turn came while the waiter was reported alive, which put the entry back.
    is_back: bool,
    /// A report is not answered. It may put the entry back at any moment.
    may_be_back: bool,
    /// That report.
    unanswered: Option<NodeQuestion>,
    /// A report that was sent ahead. Its answer is that of the next report.
    ahead: Option<NodeQuestion>,
    /// When no node could be reached, as far as it was seen.
    cut_off_at: Option<Moment>,
    /// The turn of another client, as the queue has shown it.
    pub(crate) shown_turn: ShownTurn,
    /// If the turn that this entry passes on goes to another waiter of this client, that waiter is not told.
    leaves_silently: bool,
    /// Called if the node that keeps the entry says, when the entry leaves, that no other client waits.
    none_waits: Option<Box<dyn Fn() + Send + Sync>>,
    _metered: metrics::Counted,
}

impl Entry {
    /// The name of the waiter, for nodes.
    pub(crate) fn waiter(&self) -> &str {
        &self.claim.value
    }

    /// The place that the queue has given it; zero before the first answer.
    pub(crate) fn place(&self) -> u64 {
        self.place
    }

    /// An entry under a `value` that no other waiter has.
    pub(crate) fn new(nodes: &Arc<Nodes>, key: &Arc<str>, value: String) -> Self {
        let claim = Arc::new(Claim::new(key, value));
        let wake = Arc::new(Wake::new(&claim));
        Self {
            nodes: Arc::clone(nodes),
            claim,
            wake,
            node: None,
            place: 0,
            reports: 0,
            follows_lock: false,
            reads: false,
            renewals: Renewals::default(),
            asked: Vec::new(),
            taken: BTreeSet::new(),
            heard: Vec::new(),
            declined: BTreeMap::new(),
            joined: nodes.clock.now(),
            turn_from: None,
            had_turn: false,
            is_back: false,
            may_be_back: false,
            unanswered: None,
            ahead: None,
            cut_off_at: None,
            shown_turn: ShownTurn::default(),
            leaves_silently: false,
            none_waits: None,
            _metered: metrics::queued(),
        }
    }

    /// Makes the next report listen again. A question of this client may have given the turn to this very waiter. A
    /// node does not push to a client what that client itself has caused, and stops tracking the key for it.
    pub(crate) fn listen_again(&mut self) {
        self.reports = 0;
    }

    /// Has the node that keeps the entry push changes of the lock, from the next report on, or not any more.
    pub(crate) fn follow_lock(&mut self, follows: bool) {
        let was = std::mem::replace(&mut self.follows_lock, follows);
        let Some((index, handle)) = self.node.and_then(|it| Some((it, self.nodes.get(it)?))) else {
            return;
        };
        if follows && !was {
            handle.listen(&self.claim.key, index, Arc::<Wake>::clone(&self.wake));
            self.reports = 0;
        } else if was && !follows {
            handle.stop_listening(&self.claim.key, &self.wake);
        }
    }

    /// Whether the node that keeps the entry is to push changes of the lock.
    pub(crate) fn follows_lock(&self) -> bool {
        self.follows_lock
    }

    /// Joins the queue, or reports that the waiter is alive.
    pub(crate) async fn report(&mut self) -> Report {
        let mut refused = Vec::new();
        let (mut may_be_taken, mut is_cut_off) = (false, true);
        loop {
            // A node that comes back, or is first reached after the waiter has joined, keeps the
            // queue from then on. An entry that stayed where it is would be the front of a separate
            // queue, ahead of all clients that joined since.
            let Some(node) = self.queue_node(&refused) else {
                // A node that cannot be reached keeps the entry for as long as it lives.
                let may_be_taken = self.was_cut_off(is_cut_off) || may_be_taken;
                return if may_be_taken { Report::Unanswered } else { Report::NoQueue };
            };
            if self.node != Some(node) {
                self.move_to(node);
            }
            let is_new = self.taken.insert(node) || self.place == 0 && self.ahead.is_some();
            let answer = self.ask(node).await;
            if is_new && is_refused(&answer) {
                self.taken.remove(&node);
            }
            match answer {
                Ok(Reply::Queued { place, ahead, left, turn_is_out, may_share }) => {
                    self.place = place;
                    self.turn_from = None;
                    self.may_be_back = false;
                    // A push comes before the answers to later commands.
                    self.is_back = self.wake.has_turn();
                    let is_renewed = self.renewals.saw(left, self.nodes.clock.now());
                    return Report::At(QueuePosition {
                        ahead,
                        left,
                        is_renewed,
                        turn_is_out,
                        may_share,
                    });
                }
                Ok(_) => return Report::NoQueue,
                // A crowd that asks the next node at once makes all of them late, one after the other. A
                // node that hangs loses its connection soon (rule 15).
                Err(error) if self.is_busy(node, error.kind) => return Report::Unanswered,
                Err(error) => {
                    refused.push(node);
                    // The node may have no connection that pushes to this waiter.
                    self.reports = 0;
                    is_cut_off &= error.kind.is_unreached();
                    if error.kind.is_unreached() || error.cause != Cause::Other {
                        may_be_taken = true;
                    } else if error.kind == NodeErrorKind::Server {
                        self.declined.insert(node, self.nodes.clock.now() + DECLINED);
                    }
                }
            }
        }
    }

    /// The queue node now. A node that has refused the entry before is not asked each time:
    /// the entry stays where it is.
    fn queue_node(&self, refused: &[usize]) -> Option<usize> {
        let Self { nodes, claim, node, .. } = self;
        let stays = node
            .filter(|it| !refused.contains(it) && nodes.get(*it).is_some_and(NodeHandle::is_up));
        let best = queue_node_except(nodes, &claim.key, refused)?;
        Some(stays.filter(|_| self.has_declined(best)).unwrap_or(best))
    }

    /// Whether this node has refused the entry, and would refuse it again.
    fn has_declined(&self, node: usize) -> bool {
        self.declined.get(&node).is_some_and(|until| self.nodes.clock.now() < *until)
    }

    /// Whether there is no quorum because the connections to all nodes were lost at once, and are not back yet. A
    /// client that is back soon takes its place again. Without a node, it could tell none that it leaves. `is_cut_off`
    /// if nothing that was asked could be reached: a cluster is connected while any member is.
    pub(crate) fn was_cut_off(&mut self, is_cut_off: bool) -> bool {
        let now = self.nodes.clock.now();
        if is_cut_off || !self.nodes.iter().any(NodeHandle::is_up) {
            self.hear_of(None);
            self.cut_off_at = Some(now);
        }
        self.cut_off_at.is_some_and(|at| now < at + COMES_BACK)
    }

    /// Whether an error of this kind says that the node has much to do, and no more than that.
    fn is_busy(&self, node: usize, kind: NodeErrorKind) -> bool {
        kind == NodeErrorKind::Timeout && self.nodes.get(node).is_some_and(NodeHandle::is_up)
    }

    /// Moves the entry to another node, where it keeps its place. The node before is told when the
    /// waiter goes, if it has not forgotten the entry by then: the waiter may come back to it, and until
    /// then that node may give it the turn.
    fn move_to(&mut self, node: usize) {
        self.follow_lock(false);
        self.renewals = Renewals::default();
        self.node = Some(node);
        self.wake.kept_by(node);
        self.reports = 0;
        if !self.asked.contains(&node) {
            self.asked.push(node);
        }
        self.hear_of(Some(node));
    }

    /// Listens to this node, and to those that cannot be reached.
    fn hear_of(&mut self, node: Option<usize>) {
        for (index, handle) in self.nodes.iter().enumerate() {
            if (Some(index) == node || !handle.is_up()) && !self.heard.contains(&index) {
                self.heard.push(index);
                let wake = || -> Arc<dyn Listener> { Arc::<Wake>::clone(&self.wake) };
                self.wake.keys().iter().for_each(|key| handle.listen(key, index, wake()));
            }
        }
    }

    /// Sends a report, unless this node has yet to answer the one before: in a crowd, reports wait for a long time before
    /// they are sent, and each waiter would have more and more of them (rule 18).
    async fn ask(&mut self, node: usize) -> Result<Reply, NodeError> {
        // The report before may listen for less than this one has to, or may have gone to another node.
        let may_stand_in = self.reports != 0;
        if !may_stand_in {
            self.gives_up_answer();
        }
        let ahead = self.ahead.take();
        let unanswered = self.unanswered.take().filter(|it| may_stand_in && it.awaits(node));
        let question = match ahead.or(unanswered) {
            Some(question) => question,
            None => {
                let report = self.report_to_send();
                NodeQuestion::ask(&self.nodes, node, report)
            }
        };
        // It stays here until it is answered, also when this future is dropped before.
        let answer = self.unanswered.insert(question).answer(&self.nodes).await;
        if answer.is_some() {
            self.unanswered = None;
        }
        answer.unwrap_or_else(|| Err(no_answer(&self.nodes, node)))
    }

    fn report_to_send(&mut self) -> Arc<Job> {
        let told = self.wake.take_all();
        let listens = self.reports == 0 || told || self.has_turn();
        self.reports = if listens { 1 } else { (self.reports + 1) % LISTEN_AGAIN };
        let listens = match (listens, self.follows_lock) {
            (false, _) => Listens::Nothing,
            (true, false) => Listens::Turn,
            (true, true) => Listens::TurnAndLock,
        };
        let action = Action::Join { place: self.place, life: LIFE, listens, reads: self.reads };
        self.may_be_back = true;
        Job::new(&self.claim, action)
    }

    /// Waits for its turn, and for no other signal. Cancel safe.
    pub(crate) async fn turn(&mut self) {
        self.wake.turn().await;
        self.note(Signal::Turn);
    }

    /// Waits for a signal. Cancel safe.
    pub(crate) async fn signal(&mut self) -> Signal {
        let signal = self.wake.signal().await;
        self.note(signal)
    }

    /// The signal that is there, if any.
    pub(crate) fn take_signal(&mut self) -> Option<Signal> {
        let signal = self.wake.take()?;
        Some(self.note(signal))
    }

    fn note(&mut self, signal: Signal) -> Signal {
        // A node pushes each key once. The next report has to listen again. A waiter that is near now is the next
        // one soon, and listens to that: one command where listening takes three.
        if signal != Signal::Near {
            self.reports = 0;
        }
        if signal == Signal::Turn {
            self.had_turn = true;
            self.turn_from = self.wake.giver().filter(|_| !std::mem::take(&mut self.is_back));
        }
        signal
    }

    /// Whether the turn came at some time. The waiter may have been back in the queue since.
    pub(crate) fn had_turn(&self) -> bool {
        self.had_turn
    }

    /// Whether the turn came, so that the entry is out of the queue.
    pub(crate) fn has_turn(&self) -> bool {
        self.turn_from.is_some()
    }

    /// Whether the node that keeps the entry pushes to this client.
    pub(crate) fn has_pushes(&self) -> bool {
        self.node.and_then(|node| self.nodes.get(node)).is_some_and(NodeHandle::has_pushes)
    }

    /// The node that keeps the entry, if it pushes to this client.
    pub(crate) fn pushing_node(&self) -> Option<usize> {
        self.node.filter(|_| self.has_pushes())
    }

    /// Whether each node that can be reached has refused to take the entry, as one does whose user may not run the
    /// scripts.
    pub(crate) fn is_declined(&self) -> bool {
        let mut up = (0..).zip(self.nodes.iter()).filter(|(_, handle)| handle.is_up()).peekable();
        up.peek().is_some() && up.all(|(node, _)| self.has_declined(node))
    }
}

/// Whether a node has not taken the entry, and has said so.
fn is_refused(answer: &Result<Reply, NodeError>) -> bool {
    match answer {
        Ok(reply) => !matches!(reply, Reply::Queued { .. }),
        Err(error) => !error.may_have_run,
    }
}
