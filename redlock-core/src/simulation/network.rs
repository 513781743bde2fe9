//! The network between clients and nodes, and all its faults.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use super::{
    connection::SimConnector,
    event_queue::EventQueue,
    node::SimNode,
    sight::{self, Witness},
    traffic::{LinkQuality, Message, Opening, Payload, Route},
};
use crate::{
    error::NodeError,
    node::{Command, NodeSpec, Reply},
};

/// Which way a link is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// What the client sends does not arrive.
    ToNode,
    /// What the node answers does not arrive.
    ToClient,
    /// Both.
    Both,
}

/// What the nodes let a client do, as its protocol and its permissions have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manners {
    /// They push changes of keys to it: RESP3.
    pub pushes: bool,
    /// It may use the queues between processes.
    pub queues: bool,
}

impl Manners {
    /// Everything.
    pub const FULL: Self = Self { pushes: true, queues: true };
}

/// The nodes, and the ways to them. Clones are the same network.
#[derive(Clone)]
pub struct Network(Arc<Shared>);

struct Shared {
    origin: Instant,
    nodes: usize,
    state: Mutex<EventQueue>,
    /// Something arrives earlier than [`Network::run`] sleeps.
    sooner: Notify,
    witness: Arc<dyn Witness>,
}

impl Network {
    /// A network of nodes whose clocks go at these rates, for up to `clients` clients. Needs a
    /// runtime with paused time, and [`run`](Self::run) in a task of it.
    pub fn new(seed: u64, rates: &[f64], clients: usize, witness: Arc<dyn Witness>) -> Self {
        let nodes: Vec<_> =
            rates.iter().enumerate().map(|(node, rate)| SimNode::new(node, *rate)).collect();
        Self(Arc::new(Shared {
            origin: Instant::now(),
            nodes: nodes.len(),
            sooner: Notify::new(),
            witness,
            state: Mutex::new(EventQueue::new(seed, nodes, clients)),
        }))
    }

    /// How many nodes there are.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.0.nodes
    }

    /// The true time since the network was made, in milliseconds.
    #[must_use]
    pub fn now(&self) -> u64 {
        u64::try_from(self.0.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A node under its name, or under another one.
    pub(super) fn spec(&self, client: usize, node: usize, is_alias: bool) -> NodeSpec {
        let name = Arc::clone(&self.0.state.lock().nodes[node].name);
        let name = if is_alias { format!("{name}-alias").into() } else { name };
        let connector =
            SimConnector { network: self.clone(), client, node, name: Arc::clone(&name) };
        NodeSpec { name, connector: Arc::new(connector) }
    }

    /// Delivers what is under way, for ever.
    pub async fn run(self) {
        loop {
            let until = self.deliver();
            let until = until.map(|at| self.0.origin + Duration::from_millis(at));
            tokio::select! {
                biased;
                () = self.0.sooner.notified() => {}
                () = tokio::time::sleep_until(until.unwrap_or(self.0.origin)), if until.is_some() => {}
            }
        }
    }

    /// Delivers what is due, and answers when the rest is.
    fn deliver(&self) -> Option<u64> {
        let now = self.now();
        let mut state = self.0.state.lock();
        state.asleep_until = 0;
        while let Some(due) = state.queue.peek()
            && due.at <= now
        {
            if let Some(due) = state.queue.pop() {
                state.arrive(due.message, now, &*self.0.witness);
            }
        }
        let next = state.queue.peek().map(|due| due.at);
        state.asleep_until = next.unwrap_or(u64::MAX);
        next
    }

    /// Changes the state, and sees to it that what comes of it is delivered.
    fn with<T>(&self, change: impl FnOnce(&mut EventQueue, u64) -> T) -> T {
        let now = self.now();
        let mut state = self.0.state.lock();
        let result = change(&mut state, now);
        let wake = state.queue.peek().is_some_and(|due| due.at < state.asleep_until);
        drop(state);
        if wake {
            self.0.sooner.notify_one();
        }
        result
    }

    pub(super) fn open(&self, client: usize, node: usize, opening: Opening) {
        self.with(|state, now| {
            let route = Route { client, node, connection: 0, life: 0 };
            let at = now + state.delay(&route);
            state.push(at, Message { route, payload: Payload::Open(opening) });
        });
    }

    pub(super) fn call(
        &self,
        connection: u64,
        commands: Vec<Command>,
        tell: oneshot::Sender<Vec<Result<Reply, NodeError>>>,
    ) {
        self.with(|state, now| state.call(connection, commands, tell, now, &*self.0.witness));
    }

    /// The client closes its connection. What it has sent may still arrive, or not.
    pub(super) fn close(&self, connection: u64) {
        let mut state = self.0.state.lock();
        if state.connections.remove(&connection).is_some() && state.rng.percent(30) {
            state.silenced.insert(connection);
        }
    }

    /// Sets how messages fare between a client and a node from now on.
    pub fn quality(&self, client: usize, node: usize, quality: LinkQuality) {
        self.with(|state, _| state.link(client, node).quality = quality);
    }

    /// Sets what a client may do from now on; pushes, from its next connections on.
    pub fn manners(&self, client: usize, manners: Manners) {
        self.0.state.lock().manners[client] = manners;
    }

    pub(super) fn manners_of(&self, client: usize) -> Manners {
        self.0.state.lock().manners[client]
    }

    /// Cuts a link: what is sent is held back.
    pub fn cut(&self, client: usize, node: usize, cut: Cut) {
        self.with(|state, _| {
            let link = state.link(client, node);
            link.cut_to_node |= cut != Cut::ToClient;
            link.cut_to_client |= cut != Cut::ToNode;
        });
    }

    /// Heals a link: what was held back arrives.
    pub fn heal(&self, client: usize, node: usize) {
        self.with(|state, now| {
            let link = state.link(client, node);
            (link.cut_to_node, link.cut_to_client) = (false, false);
            // Ahead of whatever is due now: it was sent before.
            for message in std::mem::take(&mut link.held) {
                state.arrive(message, now, &*self.0.witness);
            }
        });
    }

    /// Breaks the connections between a client and a node. What is under way may arrive or not.
    pub fn reset(&self, client: usize, node: usize) {
        self.with(|state, _| state.reset(|route| route.client == client && route.node == node));
    }

    /// Breaks all connections of a client, as its crash does.
    pub fn crash(&self, client: usize) {
        self.with(|state, _| state.reset(|route| route.client == client));
    }

    /// Ends the process of a node.
    pub fn stop(&self, node: usize) {
        self.with(|state, now| {
            state.nodes[node].stop();
            state.hang_up_on(node, now);
        });
    }

    /// Starts another process of a node, without its data when `empty`.
    pub fn start(&self, node: usize, empty: bool) {
        self.with(|state, now| state.nodes[node].start(now, empty));
    }

    /// Deletes all keys of a node.
    pub fn flush(&self, node: usize) {
        self.with(|state, now| {
            let pushes = state.nodes[node].memory.flush();
            state.tell(pushes, now, &*self.0.witness);
        });
    }

    /// Deletes all locks of a node, as a clock does that is set ahead. Counters stay.
    pub fn flush_locks(&self, node: usize) {
        self.with(|state, now| {
            let pushes = state.nodes[node].memory.flush_locks();
            state.tell(pushes, now, &*self.0.witness);
        });
    }

    /// Locks that went from a node come back where no other lock is, as if their holder had set them
    /// again. Returns their keys and the first 64 bits of their tokens.
    #[must_use]
    pub fn bring_locks_back(&self, node: usize) -> Vec<(String, u64)> {
        let back = self.with(|state, _| state.nodes[node].memory.bring_locks_back());
        back.into_iter().map(|(key, value)| (key.to_string(), sight::number_of(&value))).collect()
    }

    /// A node takes what arrives and does nothing about it.
    pub fn hang(&self, node: usize) {
        self.with(|state, _| state.nodes[node].hung = true);
    }

    /// A node that hung goes on, with everything that has arrived.
    pub fn resume(&self, node: usize) {
        self.with(|state, now| {
            state.nodes[node].hung = false;
            for message in std::mem::take(&mut state.nodes[node].inbox) {
                state.arrive(message, now, &*self.0.witness);
            }
        });
    }

    /// A node runs each batch so many milliseconds after it arrives, from now on.
    pub fn slow(&self, node: usize, delay: u64) {
        self.with(|state, _| state.nodes[node].delay = delay);
    }

    /// The keys on a node.
    #[must_use]
    pub fn keys(&self, node: usize) -> Vec<String> {
        self.0.state.lock().nodes[node].memory.keys()
    }

    /// How long a key has left on a node, if it is there, on the node's own clock.
    #[must_use]
    pub fn remaining(&self, node: usize, key: &str) -> Option<Duration> {
        self.0.state.lock().nodes[node].memory.remaining(key)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("nodes", &self.nodes()).finish_non_exhaustive()
    }
}
