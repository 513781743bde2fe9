//! The network between clients and nodes: one queue of what is under way, and all its faults.
//!
//! A connection is TCP: first in, first out, and what cannot get through is sent again later. So a
//! cut holds messages back until it is healed, a node that hangs runs what has arrived once it goes
//! on, and commands outlive the connection on which they were sent.

use std::{
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    fmt,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use super::{
    connection::{End, SimConnector},
    node::SimNode,
    rng::Rng,
    sight::{Act, Witness},
    traffic::{Due, Freight, Link, Load, Opening, Route, Weather},
};
use crate::{
    error::{NodeError, NodeErrorKind},
    node::{Command, NodeSpec, Push, Reply, Watchers},
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

/// The nodes, and the ways to them. Clones are the same network.
#[derive(Clone)]
pub struct Network(Arc<Shared>);

struct Shared {
    origin: Instant,
    nodes: usize,
    state: Mutex<State>,
    /// Something arrives earlier than [`Network::run`] sleeps.
    sooner: Notify,
    witness: Arc<dyn Witness>,
}

struct State {
    rng: Rng,
    nodes: Vec<SimNode>,
    /// By client, then node.
    links: Vec<Link>,
    connections: BTreeMap<u64, Pipe>,
    /// Connections whose last words were lost.
    silenced: BTreeSet<u64>,
    queue: BinaryHeap<Due>,
    next: u64,
    asleep_until: u64,
}

/// A connection that its client has not closed.
struct Pipe {
    route: Route,
    end: Arc<End>,
    watchers: Arc<Watchers>,
    calls: BTreeMap<u64, oneshot::Sender<Vec<Reply>>>,
    /// When the last message of each direction arrives: none overtakes it.
    last_to_node: u64,
    last_to_client: u64,
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
            state: Mutex::new(State {
                rng: Rng::new(seed),
                links: (0..nodes.len() * clients).map(|_| Link::new()).collect(),
                nodes,
                connections: BTreeMap::new(),
                silenced: BTreeSet::new(),
                queue: BinaryHeap::new(),
                next: 0,
                asleep_until: 0,
            }),
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

    pub(super) fn spec(&self, client: usize, node: usize) -> NodeSpec {
        let name = Arc::clone(&self.0.state.lock().nodes[node].name);
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
                state.arrive(due.freight, now, &*self.0.witness);
            }
        }
        let next = state.queue.peek().map(|due| due.at);
        state.asleep_until = next.unwrap_or(u64::MAX);
        next
    }

    /// Changes the state, and sees to it that what comes of it is delivered.
    fn with<T>(&self, change: impl FnOnce(&mut State, u64) -> T) -> T {
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
            state.push(at, Freight { route, load: Load::Open(opening) });
        });
    }

    pub(super) fn call(
        &self,
        connection: u64,
        commands: Vec<Command>,
        tell: oneshot::Sender<Vec<Reply>>,
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
    pub fn weather(&self, client: usize, node: usize, weather: Weather) {
        self.with(|state, _| state.link(client, node).weather = weather);
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
            for freight in std::mem::take(&mut link.held) {
                state.arrive(freight, now, &*self.0.witness);
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
            state.tell(pushes, now);
        });
    }

    /// A node takes what arrives and does nothing about it.
    pub fn hang(&self, node: usize) {
        self.with(|state, _| state.nodes[node].hung = true);
    }

    /// A node that hung goes on, with everything that has arrived.
    pub fn resume(&self, node: usize) {
        self.with(|state, now| {
            state.nodes[node].hung = false;
            for freight in std::mem::take(&mut state.nodes[node].inbox) {
                state.arrive(freight, now, &*self.0.witness);
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

impl State {
    fn link(&mut self, client: usize, node: usize) -> &mut Link {
        &mut self.links[client * self.nodes.len() + node]
    }

    fn delay(&mut self, route: &Route) -> u64 {
        let weather = self.link(route.client, route.node).weather;
        weather.delay(&mut self.rng)
    }

    fn push(&mut self, at: u64, freight: Freight) {
        self.next += 1;
        self.queue.push(Due { at, number: self.next, freight });
    }

    fn call(
        &mut self,
        connection: u64,
        commands: Vec<Command>,
        tell: oneshot::Sender<Vec<Reply>>,
        now: u64,
        witness: &dyn Witness,
    ) {
        // Dropping the sender is how the caller learns that the connection is broken.
        let Some(route) = self.connections.get(&connection).map(|pipe| pipe.route) else { return };
        for command in &commands {
            witness.sent(&Act::new(route.client, connection, route.node, command));
        }
        let at = now + self.delay(&route);
        self.next += 1;
        let call = self.next;
        if let Some(pipe) = self.connections.get_mut(&connection) {
            pipe.last_to_node = pipe.last_to_node.max(at);
            pipe.calls.insert(call, tell);
            let at = pipe.last_to_node;
            self.push(at, Freight { route, load: Load::Call { call, commands } });
        }
        let losses = self.link(route.client, route.node).weather.losses;
        if losses > 0 && self.rng.below(1000) < losses {
            self.reset(|other| other.connection == connection);
        }
    }

    fn reset(&mut self, broken: impl Fn(&Route) -> bool) {
        let gone: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, pipe)| broken(&pipe.route))
            .map(|(number, _)| *number)
            .collect();
        for number in gone {
            if self.rng.percent(50) {
                self.silenced.insert(number);
            }
            self.drop_pipe(number);
        }
    }

    fn drop_pipe(&mut self, connection: u64) {
        if let Some(pipe) = self.connections.remove(&connection) {
            self.nodes[pipe.route.node].memory.forget(connection);
            pipe.end.hang_up();
        }
    }

    /// Tells everybody who is connected to an earlier process of a node.
    fn hang_up_on(&mut self, node: usize, now: u64) {
        let life = self.nodes[node].life;
        let stale = |route: &Route| route.node == node && route.life != life;
        let routes: Vec<Route> =
            self.connections.values().map(|pipe| pipe.route).filter(stale).collect();
        for route in routes {
            self.answer(route, Load::Hangup, now);
        }
    }

    /// Sends something back to the client, behind all that was sent before.
    fn answer(&mut self, route: Route, load: Load, now: u64) {
        let at = now + self.delay(&route);
        if let Some(pipe) = self.connections.get_mut(&route.connection) {
            pipe.last_to_client = pipe.last_to_client.max(at);
            let at = pipe.last_to_client;
            self.push(at, Freight { route, load });
        }
    }

    fn arrive(&mut self, freight: Freight, now: u64, witness: &dyn Witness) {
        let Freight { route, load } = freight;
        let link = self.link(route.client, route.node);
        if (link.cut_to_node && load.goes_to_node())
            || (link.cut_to_client && load.goes_to_client())
        {
            link.held.push_back(Freight { route, load });
            return;
        }
        match load {
            Load::Open(opening) => self.admit(route, opening, now),
            Load::Opened(opening, result) => self.opened(route, opening, result, witness),
            Load::Call { call, commands } => {
                let node = &mut self.nodes[route.node];
                if self.silenced.contains(&route.connection) || node.life != route.life {
                    self.answer(route, Load::Hangup, now);
                    return;
                }
                let at = (now + node.delay).max(node.busy_until);
                node.busy_until = at;
                let freight = Freight { route, load: Load::Run { call, commands } };
                if at == now {
                    self.arrive(freight, now, witness);
                } else {
                    self.push(at, freight);
                }
            }
            Load::Run { call, commands } => self.run(route, call, commands, now, witness),
            Load::Answer { call, replies } => {
                if let Some(pipe) = self.connections.get_mut(&route.connection)
                    && let Some(tell) = pipe.calls.remove(&call)
                {
                    // Whoever asked may have given up.
                    let _ = tell.send(replies);
                    witness.answered(route.client, route.node);
                }
            }
            Load::Push { key } => {
                if let Some(pipe) = self.connections.get(&route.connection) {
                    pipe.watchers.changed(&key);
                }
            }
            Load::Hangup => self.drop_pipe(route.connection),
        }
    }

    /// A client knocks at a node.
    fn admit(&mut self, mut route: Route, opening: Opening, now: u64) {
        let node = &mut self.nodes[route.node];
        if node.hung {
            node.inbox.push_back(Freight { route, load: Load::Open(opening) });
            return;
        }
        let result = if node.up {
            Ok(node.identity(now))
        } else {
            Err(NodeError::new(&node.name, NodeErrorKind::Down, "connection refused"))
        };
        route.life = node.life;
        let at = now + self.delay(&route);
        self.push(at, Freight { route, load: Load::Opened(opening, result) });
    }

    /// A client hears that its knock was answered.
    fn opened(
        &mut self,
        mut route: Route,
        opening: Opening,
        result: Result<crate::node::Identity, NodeError>,
        witness: &dyn Witness,
    ) {
        let opened = result.map(|identity| {
            self.next += 1;
            route.connection = self.next;
            let end = Arc::new(End::default());
            let pipe = Pipe {
                route,
                end: Arc::clone(&end),
                watchers: Arc::clone(&opening.watchers),
                calls: BTreeMap::new(),
                last_to_node: 0,
                last_to_client: 0,
            };
            self.connections.insert(route.connection, pipe);
            if self.nodes[route.node].life != route.life {
                // It has died meanwhile.
                end.hang_up();
            }
            (route.connection, end, identity)
        });
        let connected = opened.is_ok();
        if opening.tell.send(opened).is_err() {
            self.connections.remove(&route.connection);
        } else if connected {
            witness.connected(route.client, route.node);
        }
    }

    /// A node runs commands.
    fn run(
        &mut self,
        route: Route,
        call: u64,
        commands: Vec<Command>,
        now: u64,
        witness: &dyn Witness,
    ) {
        let node = &mut self.nodes[route.node];
        if node.life != route.life {
            return;
        }
        if node.hung {
            node.inbox.push_back(Freight { route, load: Load::Run { call, commands } });
            return;
        }
        let (replies, pushes) = node.memory.execute(&commands, route.connection);
        for (command, reply) in commands.iter().zip(&replies) {
            let act = Act::new(route.client, route.connection, route.node, command);
            witness.executed(&act, (*reply).into());
        }
        self.answer(route, Load::Answer { call, replies }, now);
        self.tell(pushes, now);
    }

    /// Tells connections that keys have changed which they watch.
    fn tell(&mut self, pushes: Vec<Push>, now: u64) {
        for Push { to, key } in pushes {
            if let Some(route) = self.connections.get(&to).map(|pipe| pipe.route) {
                self.answer(route, Load::Push { key }, now);
            }
        }
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("nodes", &self.nodes()).finish_non_exhaustive()
    }
}
