//! The network between clients and nodes, and all its faults.

mod connection;
mod event_queue;
mod node;
mod sight;
mod traffic;

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use redlock_core::seam::simulation::{Answers, Command, Connector, Lost};
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use self::{
    connection::SimConnector,
    event_queue::EventQueue,
    node::SimNode,
    traffic::{Message, Opening, Payload, Route},
};
pub(super) use self::{
    node::Refuses,
    sight::{Act, Witness},
    traffic::LinkQuality,
};
use super::locked;

/// Which way a link is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// What the client sends does not arrive.
    ToNode,
    /// What the node answers does not arrive.
    ToClient,
    /// Both.
    Both,
}

/// What a client may do on the nodes, by its protocol and its permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manners {
    /// The nodes push changes of keys to it (RESP3).
    pub pushes: bool,
    /// It may use the queues between processes.
    pub queues: bool,
}

impl Manners {
    /// Everything.
    pub(crate) const FULL: Self = Self { pushes: true, queues: true };
}

/// The nodes, and the ways to them. Clones are the same network.
#[derive(Clone)]
pub(crate) struct Network(Arc<Shared>);

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
    pub(crate) fn new(seed: u64, rates: &[f64], clients: usize, witness: Arc<dyn Witness>) -> Self {
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
    pub(crate) fn nodes(&self) -> usize {
        self.0.nodes
    }

    /// The true time since the network was made, in milliseconds.
    #[must_use]
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.0.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A node under its name, or under another one.
    pub(super) fn node(
        &self,
        client: usize,
        node: usize,
        is_alias: bool,
    ) -> (Arc<str>, Arc<dyn Connector>) {
        let name = Arc::clone(&locked(&self.0.state).nodes[node].name);
        let name = if is_alias { format!("{name}-alias").into() } else { name };
        let connector =
            SimConnector { network: self.clone(), client, node, name: Arc::clone(&name) };
        (name, Arc::new(connector))
    }

    /// Delivers what is under way, for ever.
    pub(crate) async fn run(self) {
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

    /// Delivers what is due. Returns when the next message is due.
    fn deliver(&self) -> Option<u64> {
        let now = self.now();
        let mut state = locked(&self.0.state);
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

    /// Changes the state, and wakes [`run`](Self::run) if a message is due earlier because of it.
    fn with<T>(&self, change: impl FnOnce(&mut EventQueue, u64) -> T) -> T {
        let now = self.now();
        let mut state = locked(&self.0.state);
        let result = change(&mut state, now);
        let wake = state.queue.peek().is_some_and(|due| due.at < state.asleep_until);
        drop(state);
        if wake {
            self.0.sooner.notify_one();
        }
        result
    }

    fn open(&self, client: usize, node: usize, opening: Opening) {
        self.with(|state, now| {
            let route = Route { client, node, connection: 0, life: 0 };
            let at = now + state.delay(&route);
            state.push(at, Message { route, payload: Payload::Open(opening) });
        });
    }

    fn call(&self, connection: u64, commands: Vec<Command>, tell: oneshot::Sender<Answers>) {
        self.with(|state, now| state.call(connection, commands, tell, now, &*self.0.witness));
    }

    /// The client closes its connection. What it has sent may still arrive, or not.
    fn close(&self, connection: u64) {
        let mut state = locked(&self.0.state);
        if state.connections.remove(&connection).is_some() && state.rng.percent(30) {
            state.silenced.insert(connection);
        }
    }

    /// Sets how messages fare between a client and a node from now on.
    pub(crate) fn quality(&self, client: usize, node: usize, quality: LinkQuality) {
        self.with(|state, _| state.link(client, node).quality = quality);
    }

    /// Sets what a client may do from now on; pushes, from its next connections on.
    pub(crate) fn manners(&self, client: usize, manners: Manners) {
        locked(&self.0.state).manners[client] = manners;
    }

    fn manners_of(&self, client: usize) -> Manners {
        locked(&self.0.state).manners[client]
    }

    /// Cuts a link: what is sent is held back.
    pub(crate) fn cut(&self, client: usize, node: usize, cut: Cut) {
        self.with(|state, _| {
            let link = state.link(client, node);
            link.cut_to_node |= cut != Cut::ToClient;
            link.cut_to_client |= cut != Cut::ToNode;
        });
    }

    /// Heals a link: what was held back arrives.
    pub(crate) fn heal(&self, client: usize, node: usize) {
        self.with(|state, now| {
            let link = state.link(client, node);
            (link.cut_to_node, link.cut_to_client) = (false, false);
            // Before all messages that are due now, because these were sent earlier.
            for message in std::mem::take(&mut link.held) {
                state.arrive(message, now, &*self.0.witness);
            }
        });
    }

    /// Breaks the connections between a client and a node. What is under way may arrive or not.
    pub(crate) fn reset(&self, client: usize, node: usize) {
        self.with(|state, _| state.reset(|route| route.client == client && route.node == node));
    }

    /// Breaks all connections of a client, as its crash does.
    pub(crate) fn crash(&self, client: usize) {
        self.with(|state, _| state.reset(|route| route.client == client));
    }

    /// Ends the process of a node.
    pub(crate) fn stop(&self, node: usize) {
        self.with(|state, now| {
            state.nodes[node].stop();
            state.hang_up_on(node, now);
        });
    }

    /// Starts another process of a node, without its data when `empty`.
    pub(crate) fn start(&self, node: usize, empty: bool) {
        self.with(|state, now| state.nodes[node].start(now, empty));
    }

    /// Deletes all keys of a node.
    pub(crate) fn flush(&self, node: usize) {
        self.with(|state, now| {
            let pushes = state.nodes[node].server.clear();
            state.tell(pushes, now, &*self.0.witness);
        });
    }

    /// Deletes all locks of a node, as if its clock were set ahead. Counters stay.
    pub(crate) fn flush_locks(&self, node: usize) {
        self.with(|state, now| {
            let (lost, pushes) = state.nodes[node].server.lose_locks();
            state.nodes[node].lost = lost;
            state.tell(pushes, now, &*self.0.witness);
        });
    }

    /// Locks that went from a node come back where no other lock is, as if their holder had set them
    /// again. Returns the first 64 bits of their tokens.
    #[must_use]
    pub(crate) fn bring_locks_back(&self, node: usize) -> Vec<u64> {
        self.with(|state, now| {
            let mut lost = std::mem::take(&mut state.nodes[node].lost);
            lost.retain(|lost| {
                let (is_back, pushes) = state.nodes[node].server.bring_back(lost);
                state.tell(pushes, now, &*self.0.witness);
                is_back
            });
            lost.iter().map(Lost::claim).collect()
        })
    }

    /// A node takes what arrives and does nothing about it.
    pub(crate) fn hang(&self, node: usize) {
        self.with(|state, _| state.nodes[node].hung = true);
    }

    /// A node that hung goes on, with everything that has arrived.
    pub(crate) fn resume(&self, node: usize) {
        self.with(|state, now| {
            state.nodes[node].hung = false;
            for message in std::mem::take(&mut state.nodes[node].inbox) {
                state.arrive(message, now, &*self.0.witness);
            }
        });
    }

    /// From now on, a node runs each batch `delay` milliseconds after it arrives.
    pub(crate) fn slow(&self, node: usize, delay: u64) {
        self.with(|state, _| state.nodes[node].delay = delay);
    }

    /// From now on, a node answers such commands with an error.
    pub(crate) fn refuse(&self, node: usize, refuses: Refuses) {
        self.with(|state, _| state.nodes[node].refuses = refuses);
    }

    /// Sets the clock of a node back: its keys live so much longer.
    pub(crate) fn set_back(&self, node: usize, by: Duration) {
        self.with(|state, now| {
            let pushes = state.nodes[node].server.set_back(by);
            state.tell(pushes, now, &*self.0.witness);
        });
    }

    /// The keys on a node.
    #[must_use]
    pub(crate) fn keys(&self, node: usize) -> Vec<String> {
        locked(&self.0.state).nodes[node].server.keys()
    }

    /// The keys on a node with the first 64 bits of the token of each of their holders.
    #[must_use]
    pub(crate) fn holders(&self, node: usize) -> Vec<(String, u64)> {
        locked(&self.0.state).nodes[node].server.holders()
    }

    /// How long a key has left on a node, if it is there, on the node's own clock.
    #[must_use]
    pub(crate) fn remaining(&self, node: usize, key: &str) -> Option<Duration> {
        locked(&self.0.state).nodes[node].server.remaining(key)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("nodes", &self.nodes()).finish_non_exhaustive()
    }
}
