//! The messages under way between clients and nodes, in one queue.
//!
//! A connection is TCP: first in, first out, and what cannot get through is sent again later. So a
//! cut holds messages back until it is healed, a node that hangs runs what has arrived once it goes
//! on, and commands outlive the connection on which they were sent.

use std::{
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    sync::Arc,
};

use redlock_core::{
    NodeError, NodeErrorKind,
    seam::simulation::{Answers, Command, Identity, Kind, Push, Pushes, node_error, passing_error},
};
use tokio::sync::oneshot;

use super::{
    super::rng::Rng,
    Manners,
    connection::End,
    node::SimNode,
    sight::{Act, Witness},
    traffic::{Due, Link, Message, Opening, Payload, Route},
};

/// Everything that is in flight, and between which ends.
pub(super) struct EventQueue {
    pub(super) rng: Rng,
    pub(super) nodes: Vec<SimNode>,
    /// By client, then node.
    links: Vec<Link>,
    /// By client.
    pub(super) manners: Vec<Manners>,
    pub(super) connections: BTreeMap<u64, Pipe>,
    /// Connections whose last messages to the node were lost.
    pub(super) silenced: BTreeSet<u64>,
    pub(super) queue: BinaryHeap<Due>,
    next: u64,
    pub(super) asleep_until: u64,
}

/// A connection that its client has not closed.
pub(super) struct Pipe {
    pub(super) route: Route,
    end: Arc<End>,
    pushes: Pushes,
    calls: BTreeMap<u64, oneshot::Sender<Answers>>,
    /// When the last message of each direction arrives: none overtakes it.
    last_to_node: u64,
    last_to_client: u64,
    /// The last call that the node has run.
    last_run: u64,
}

impl EventQueue {
    pub(super) fn new(seed: u64, nodes: Vec<SimNode>, clients: usize) -> Self {
        Self {
            rng: Rng::new(seed),
            links: (0..nodes.len() * clients).map(|_| Link::new()).collect(),
            manners: vec![Manners::FULL; clients],
            nodes,
            connections: BTreeMap::new(),
            silenced: BTreeSet::new(),
            queue: BinaryHeap::new(),
            next: 0,
            asleep_until: 0,
        }
    }

    pub(super) fn link(&mut self, client: usize, node: usize) -> &mut Link {
        &mut self.links[client * self.nodes.len() + node]
    }

    pub(super) fn delay(&mut self, route: &Route) -> u64 {
        let quality = self.link(route.client, route.node).quality;
        quality.delay(&mut self.rng)
    }

    pub(super) fn push(&mut self, at: u64, message: Message) {
        self.next += 1;
        self.queue.push(Due { at, number: self.next, message });
    }

    pub(super) fn call(
        &mut self,
        connection: u64,
        mut commands: Vec<Command>,
        tell: oneshot::Sender<Answers>,
        now: u64,
        witness: &dyn Witness,
    ) {
        // Dropping the sender is how the caller learns that the connection is broken.
        let Some(route) = self.connections.get(&connection).map(|pipe| pipe.route) else { return };
        for command in &commands {
            witness.sent(&Act::new(route.client, connection, route.node, command));
        }
        let losses = self.link(route.client, route.node).quality.losses;
        let breaks = losses > 0 && self.rng.below(1000) < losses;
        if breaks && self.rng.percent(50) {
            // Only the first commands are written.
            let sent = commands.len();
            commands.truncate(self.rng.index(sent + 1));
            if commands.len() < sent {
                witness.cut_short(route.client, route.node);
            }
        }
        let at = now + self.delay(&route);
        self.next += 1;
        let call = self.next;
        if let Some(pipe) = self.connections.get_mut(&connection) {
            pipe.last_to_node = pipe.last_to_node.max(at);
            pipe.calls.insert(call, tell);
            let at = pipe.last_to_node;
            self.push(at, Message { route, payload: Payload::Call { call, commands } });
        }
        if breaks {
            self.reset(|other| other.connection == connection);
        }
    }

    pub(super) fn reset(&mut self, broken: impl Fn(&Route) -> bool) {
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
            self.nodes[pipe.route.node].server.forget(connection);
            pipe.end.hang_up();
        }
    }

    /// Hangs up every connection to an earlier process of a node.
    pub(super) fn hang_up_on(&mut self, node: usize, now: u64) {
        let life = self.nodes[node].life;
        let stale = |route: &Route| route.node == node && route.life != life;
        let routes: Vec<Route> =
            self.connections.values().map(|pipe| pipe.route).filter(stale).collect();
        for route in routes {
            self.answer(route, Payload::Hangup, now);
        }
    }

    /// Sends something back to the client, behind all that was sent before.
    fn answer(&mut self, route: Route, payload: Payload, now: u64) {
        let at = now + self.delay(&route);
        if let Some(pipe) = self.connections.get_mut(&route.connection) {
            pipe.last_to_client = pipe.last_to_client.max(at);
            let at = pipe.last_to_client;
            self.push(at, Message { route, payload });
        }
    }

    pub(super) fn arrive(&mut self, message: Message, now: u64, witness: &dyn Witness) {
        let Message { route, payload } = message;
        let link = self.link(route.client, route.node);
        if (link.cut_to_node && payload.goes_to_node())
            || (link.cut_to_client && payload.goes_to_client())
        {
            link.held.push_back(Message { route, payload });
            return;
        }
        match payload {
            Payload::Open(opening) => self.admit(route, opening, now),
            Payload::Opened(opening, result) => self.opened(route, opening, result, witness),
            Payload::Call { call, commands } => {
                let node = &mut self.nodes[route.node];
                if self.silenced.contains(&route.connection) || node.life != route.life {
                    self.answer(route, Payload::Hangup, now);
                    return;
                }
                let message = Message { route, payload: Payload::Run { call, commands } };
                let behind = node.busy_until.filter(|until| *until >= now);
                if node.delay == 0 && behind.is_none() {
                    self.arrive(message, now, witness);
                } else {
                    let at = (now + node.delay).max(behind.unwrap_or_default());
                    node.busy_until = Some(at);
                    self.push(at, message);
                }
            }
            Payload::Run { call, commands } => self.run(route, call, commands, now, witness),
            Payload::Answer { call, replies } => {
                if let Some(pipe) = self.connections.get_mut(&route.connection)
                    && let Some(tell) = pipe.calls.remove(&call)
                {
                    // The caller may have given up.
                    let _ = tell.send(replies);
                    witness.answered(route.client, route.node);
                }
            }
            Payload::Push { key } => {
                if let Some(pipe) = self.connections.get(&route.connection) {
                    pipe.pushes.changed(&key);
                }
            }
            Payload::Hangup => self.drop_pipe(route.connection),
        }
    }

    /// A client opens a connection to a node.
    fn admit(&mut self, mut route: Route, opening: Opening, now: u64) {
        let node = &mut self.nodes[route.node];
        if node.hung {
            node.inbox.push_back(Message { route, payload: Payload::Open(opening) });
            return;
        }
        let result = if node.up {
            Ok(node.identity(now))
        } else {
            Err(node_error(&node.name, NodeErrorKind::Down, "connection refused"))
        };
        route.life = node.life;
        let at = now + self.delay(&route);
        self.push(at, Message { route, payload: Payload::Opened(opening, result) });
    }

    /// A client is told whether its connection is open.
    fn opened(
        &mut self,
        mut route: Route,
        opening: Opening,
        result: Result<Identity, NodeError>,
        witness: &dyn Witness,
    ) {
        let opened = result.map(|identity| {
            self.next += 1;
            route.connection = self.next;
            let end = Arc::new(End::default());
            let pipe = Pipe {
                route,
                end: Arc::clone(&end),
                pushes: opening.pushes.clone(),
                calls: BTreeMap::new(),
                last_to_node: 0,
                last_to_client: 0,
                last_run: 0,
            };
            self.connections.insert(route.connection, pipe);
            if self.nodes[route.node].life != route.life {
                // The process of the node has ended meanwhile.
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
            node.inbox.push_back(Message { route, payload: Payload::Run { call, commands } });
            return;
        }
        if let Some(pipe) = self.connections.get_mut(&route.connection) {
            assert!(pipe.last_run < call, "call {call} was overtaken on its connection");
            pipe.last_run = call;
        }
        let manners = self.manners[route.client];
        let refused = |name: &Arc<str>| {
            let reason = "NOPERM this user has no permissions to run the script";
            node_error(name, NodeErrorKind::Server, reason)
        };
        let mut replies = Vec::with_capacity(commands.len());
        let mut pushes = Vec::new();
        for mut command in commands {
            if !manners.queues {
                if matches!(command.kind(), Kind::Join | Kind::Leave) {
                    replies.push(Err(refused(&node.name)));
                    continue;
                }
                command.wake_no_client();
            }
            if let Some(reason) = node.refuses.reason(&command) {
                replies.push(Err(passing_error(&node.name, reason)));
                continue;
            }
            let act = Act::new(route.client, route.connection, route.node, &command);
            node.show(&act, witness);
            let (reply, told) = node.server.run(&command, route.connection);
            pushes.extend(told);
            witness.executed(&act, reply.outcome());
            replies.push(Ok(reply));
        }
        self.answer(route, Payload::Answer { call, replies }, now);
        self.tell(pushes, now, witness);
    }

    /// Tells connections that keys have changed which they watch.
    pub(super) fn tell(&mut self, pushes: Vec<Push>, now: u64, witness: &dyn Witness) {
        for Push { to, key } in pushes {
            let Some(route) = self.connections.get(&to).map(|pipe| pipe.route) else { continue };
            let lost = self.link(route.client, route.node).quality.lost_pushes;
            if !self.manners[route.client].pushes || lost > 0 && self.rng.below(1000) < lost {
                continue;
            }
            witness.pushed(route.client, route.node, &key);
            self.answer(route, Payload::Push { key }, now);
        }
    }
}
