//! A place in the queue between processes, which one node keeps for each lock.
//!
//! The queue decides which client asks, never which client holds: a quorum grants the lock. A queue
//! that is lost, split or wrong disturbs the order for a moment and nothing else, so all of it is
//! soft state. Entries expire, refusals are passed over, and no answer of a queue is ever a vote.
//!
//! All clients compute the same node: the first that can be reached in the order of [`rank`]. A
//! release gives the turn to the first waiter there, and tells the waiter behind it that it is
//! next. Both are pushed, so the others need not ask. A waiter that is next looks for itself when
//! the turn was not used (`pace::grace`).

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;

use super::pace::LIFE;
use crate::{
    error::{NodeError, NodeErrorKind},
    metrics,
    node::{
        Action, Claim, Job, Listener, NodeHandle, Reply, ReplySink, ReplyTo, deliver, fnv1a,
        queue_keys,
    },
    quorum::Nodes,
    sync::Mutex,
};

/// A waiter listens to its keys anew after this many refreshes, because the keys expire. A push
/// that was lost without a trace costs no more than this.
const LISTEN_AGAIN: u32 = 8;

/// The rank of a node for a key: the node with the highest rank keeps the queue. It is the same in
/// every client that knows the server by its run id, whatever address the client uses.
fn rank(key: u64, node: u64) -> u64 {
    // The finalizer of SplitMix64: nodes differ in all bits of the result.
    let mut mixed = key ^ node.rotate_left(32);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The node that keeps the queue for this key, among the nodes that are connected and not
/// `refused`.
fn keeper(nodes: &[NodeHandle], key: &str, refused: &[usize]) -> Option<usize> {
    if let ([only], []) = (nodes, refused) {
        return only.is_up().then_some(0);
    }
    let key = fnv1a(key.as_bytes());
    let reached = nodes.iter().enumerate().filter(|(_, node)| node.is_up());
    let left = reached.filter(|(index, _)| !refused.contains(index));
    left.max_by_key(|(_, node)| rank(key, node.fingerprint())).map(|(index, _)| index)
}

/// The node on which a release of this key gives the turn to the next waiter.
pub(crate) fn queue_node(nodes: &[NodeHandle], key: &str) -> Option<usize> {
    keeper(nodes, key, &[])
}

/// The position of a waiter in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueuePosition {
    /// The number of waiters before it.
    pub(crate) ahead: u64,
    /// The remaining time of the lock on the node that keeps the queue. `None` when it is free
    /// there.
    pub(crate) left: Option<Duration>,
}

/// The pushes that a waiter gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Signal {
    /// The lock was released, and this waiter may take it.
    Turn,
    /// The turn went to the waiter before this one.
    Next,
    /// The connection to the node that keeps the queue has ended.
    Moved,
}

/// An entry in the queue. Dropping it takes it out and passes on a turn that was given.
pub(crate) struct Entry {
    nodes: Arc<Nodes>,
    /// The key of the lock, and the name of this waiter.
    claim: Arc<Claim>,
    keys: [Arc<str>; 2],
    wake: Arc<Wake>,
    /// Which node keeps the entry.
    node: Option<usize>,
    /// Zero before the first answer.
    place: u64,
    /// How often the waiter was reported alive since it last began to listen.
    said: u32,
    /// Every node that may have an entry.
    asked: Vec<usize>,
    /// The nodes that have refused to take the entry.
    declined: Vec<usize>,
    /// The turn came: the entry is out of the queue already.
    has_turn: bool,
    /// The turn came while the waiter was reported alive, which put the entry back.
    is_back: bool,
    _metered: metrics::Counted,
}

impl Entry {
    /// An entry under a `value` that no other waiter has.
    pub(crate) fn new(nodes: &Arc<Nodes>, key: &Arc<str>, value: String) -> Self {
        let claim = Arc::new(Claim::new(key, value));
        let keys = queue_keys::wake_keys(&claim).map(Arc::from);
        let wake = Arc::new(Wake { turn: Arc::clone(&keys[0]), ..Wake::default() });
        Self {
            nodes: Arc::clone(nodes),
            claim,
            keys,
            wake,
            node: None,
            place: 0,
            said: 0,
            asked: Vec::new(),
            declined: Vec::new(),
            has_turn: false,
            is_back: false,
            _metered: metrics::queued(),
        }
    }

    /// Joins the queue, or reports that the waiter is alive. `None` when no node takes the entry.
    pub(crate) async fn say(&mut self) -> Option<QueuePosition> {
        let mut refused = Vec::new();
        loop {
            // A node that comes back, or is first reached after the waiter has joined, keeps the
            // queue from then on. An entry that stayed where it is would be the front of a separate
            // queue, ahead of all clients that joined since.
            let node = self.keeper(&refused)?;
            if self.node != Some(node) {
                self.move_to(node);
            }
            match self.ask(node).await {
                Ok(Reply::Queued { place, ahead, left }) => {
                    self.place = place;
                    self.has_turn = false;
                    // A push comes before the answers to later commands.
                    self.is_back = self.wake.has_turn();
                    return Some(QueuePosition { ahead, left });
                }
                Ok(_) => return None,
                Err(error) => {
                    refused.push(node);
                    if error.kind == NodeErrorKind::Server {
                        self.declined.push(node);
                    }
                }
            }
        }
    }

    /// The node that keeps the queue now. A node that has refused the entry before is not asked each time:
    /// the entry stays where it is.
    fn keeper(&self, refused: &[usize]) -> Option<usize> {
        let Self { nodes, claim, declined, node, .. } = self;
        let stays = node
            .filter(|it| !refused.contains(it) && nodes.get(*it).is_some_and(NodeHandle::is_up));
        let best = keeper(nodes, &claim.key, refused)?;
        Some(stays.filter(|_| declined.contains(&best)).unwrap_or(best))
    }

    /// Moves the entry to another node, where it keeps its place. The node before is told when the
    /// waiter goes, if it has not forgotten the entry by then: the waiter may come back to it.
    fn move_to(&mut self, node: usize) {
        if let Some(before) = self.node.replace(node).and_then(|it| self.nodes.get(it)) {
            self.keys.iter().for_each(|key| before.stop_listening(key, &self.wake));
        }
        if let Some(handle) = self.nodes.get(node) {
            let wake = || -> Arc<dyn Listener> { Arc::<Wake>::clone(&self.wake) };
            self.keys.iter().for_each(|key| handle.listen(key, node, wake()));
        }
        if !self.asked.contains(&node) {
            self.asked.push(node);
        }
        self.said = 0;
    }

    async fn ask(&mut self, node: usize) -> Result<Reply, NodeError> {
        let told = self.wake.take_all();
        let listens = self.said == 0 || told || self.has_turn;
        self.said = if listens { 1 } else { (self.said + 1) % LISTEN_AGAIN };
        let action = Action::Join { place: self.place, life: LIFE, listens };
        let answer = Arc::<Answer>::default();
        let Some(handle) = self.nodes.get(node) else { return answer.wait().await };
        let reply_to = ReplyTo::new(&answer, node, handle.name());
        let early = handle.submit(Job::new(&self.claim, action), reply_to, handle.now());
        deliver(early);
        answer.wait().await
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
        if signal == Signal::Turn {
            self.has_turn = !std::mem::take(&mut self.is_back);
        }
        signal
    }

    /// Whether the turn came, so that the entry is out of the queue.
    pub(crate) fn has_turn(&self) -> bool {
        self.has_turn
    }

    /// Whether the node that keeps the entry pushes to this client.
    pub(crate) fn is_told(&self) -> bool {
        self.node.and_then(|node| self.nodes.get(node)).is_some_and(NodeHandle::tells_changes)
    }

    /// The waiter has the lock: nothing is passed on.
    pub(crate) fn acquired(mut self) {
        if self.has_turn {
            // The release that gave the turn took the entry out.
            let node = self.node;
            self.asked.retain(|asked| Some(*asked) != node);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(node) = self.node.and_then(|node| self.nodes.get(node)) {
            self.keys.iter().for_each(|key| node.stop_listening(key, &self.wake));
        }
        for node in std::mem::take(&mut self.asked) {
            let Some(handle) = self.nodes.get(node) else { continue };
            // The leave follows a join that is still on its way, on the same connection. An entry
            // that cannot be reached expires by itself.
            let reply_to = ReplyTo::new(&Arc::<Answer>::default(), node, handle.name());
            deliver(handle.submit(Job::new(&self.claim, Action::Leave), reply_to, handle.now()));
        }
    }
}

/// The pushes that a waiter has received.
#[derive(Debug)]
struct Wake {
    /// The key whose push gives the turn; the other one says that it is next.
    turn: Arc<str>,
    /// Signals that were not looked at yet, by importance.
    told: Mutex<[bool; 3]>,
    notify: Notify,
}

impl Default for Wake {
    fn default() -> Self {
        Self { turn: "".into(), told: Mutex::default(), notify: Notify::new() }
    }
}

impl Wake {
    fn tell(&self, signal: Signal) {
        self.told.lock()[signal as usize] = true;
        self.notify.notify_one();
    }

    /// Forgets all signals, since the node is about to be asked. Returns whether there were any.
    fn take_all(&self) -> bool {
        std::mem::take(&mut *self.told.lock()).contains(&true)
    }

    fn has_turn(&self) -> bool {
        self.told.lock()[Signal::Turn as usize]
    }

    fn take(&self) -> Option<Signal> {
        let mut told = self.told.lock();
        let mut by_importance = [Signal::Turn, Signal::Next, Signal::Moved].into_iter();
        by_importance.find(|signal| std::mem::take(&mut told[*signal as usize]))
    }

    async fn signal(&self) -> Signal {
        loop {
            if let Some(signal) = self.take() {
                return signal;
            }
            self.notify.notified().await;
        }
    }
}

impl Listener for Wake {
    fn changed(&self, _: usize, key: &str) {
        self.tell(if *key == *self.turn { Signal::Turn } else { Signal::Next });
    }

    fn freed(&self, _: usize) {}

    fn disconnected(&self, _: usize) {
        self.tell(Signal::Moved);
    }

    fn reconnected(self: Arc<Self>, _: usize, _: &Arc<str>) -> Option<(Job, ReplyTo)> {
        None
    }
}

/// The answer to one command. The task that waits for it may have gone.
#[derive(Debug, Default)]
struct Answer {
    result: Mutex<Option<Result<Reply, NodeError>>>,
    there: Notify,
}

impl Answer {
    /// `node_timeout` bounds every command where it is sent.
    async fn wait(&self) -> Result<Reply, NodeError> {
        loop {
            if let Some(result) = self.result.lock().take() {
                return result;
            }
            self.there.notified().await;
        }
    }
}

impl ReplySink for Answer {
    fn receive(self: Arc<Self>, _: usize, result: Result<Reply, NodeError>) {
        *self.result.lock() = Some(result);
        self.there.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queues_of_many_locks_are_spread_over_the_nodes() {
        let nodes: Vec<u64> = (0..5).map(|it| fnv1a(format!("run-{it}").as_bytes())).collect();
        let mut kept = [0_u32; 5];
        for key in 0..1000 {
            let key = fnv1a(format!("redlock:{key}").as_bytes());
            let best = (0..5).max_by_key(|node| rank(key, nodes[*node])).unwrap();
            kept[best] += 1;
        }
        assert!(kept.iter().all(|kept| (120..280).contains(kept)), "{kept:?}");
    }

    /// The order is fixed: clients of different versions must agree.
    #[test]
    fn the_order_of_the_nodes_is_fixed() {
        assert_eq!(fnv1a(b"redlock:a"), 16_458_218_217_413_237_854);
        let order = |key: &str| {
            let mut nodes = ["n0", "n1", "n2", "n3", "n4"];
            nodes.sort_by_key(|it| rank(fnv1a(key.as_bytes()), fnv1a(it.as_bytes())));
            nodes
        };
        assert_eq!(order("redlock:a"), order("redlock:a"));
        assert_ne!(order("redlock:a"), order("redlock:b"));
    }
}
