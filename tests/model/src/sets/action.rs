//! What can happen next, and what comes of it.

use stateright::{Model, Property};

use super::{
    properties,
    rules::{Omission, Sets},
    state::{ATTEMPTS, Client, Leg, NODES, Node, Phase, QUORUM, RESOURCES, State},
};
use crate::check::Told;

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// A client joins the next queue.
    Join(usize),
    /// A client asks all nodes for its set.
    Ask(usize),
    /// A node runs the request, or a part of it.
    Grant { node: usize, client: usize, attempt: usize },
    /// A client reads a quorum of votes, and has the set.
    Take(usize),
    /// A holder asks all nodes to renew its set.
    Renew(usize),
    /// A node runs the renewal.
    Extend { node: usize, client: usize, attempt: usize },
    /// A holder reads a quorum of renewals, and relies on them from now on.
    Rely(usize),
    /// A client gives its attempt up, or releases its set: deletes go to all nodes.
    LetGo(usize),
    /// A node runs the deletes.
    Delete { node: usize, client: usize, attempt: usize },
    /// A key expires.
    Expire { node: usize, resource: usize },
    /// A key is lost.
    Lose { node: usize, resource: usize },
}

impl Model for Sets {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let client = Client { renewals: self.bounds.renewals, ..Client::default() };
        let clients = [client; super::state::CLIENTS];
        vec![State { clients, losses: self.bounds.losses, ..State::default() }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for client in 0..self.clients() {
            self.choices(state, client, actions);
        }
        for (index, node) in state.nodes.iter().enumerate() {
            self.arrivals(index, node, actions);
            for resource in 0..RESOURCES {
                let Some(key) = node.keys[resource] else { continue };
                if self.bounds.expiry && !state.is_relied_on(key) {
                    actions.push(Action::Expire { node: index, resource });
                }
                if state.losses > 0 && is_everywhere(state, resource) {
                    actions.push(Action::Lose { node: index, resource });
                }
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        self.step(&mut next, action);
        self.forget_what_is_without_effect(&mut next);
        // Nodes that change places make no difference.
        next.nodes.sort_unstable();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::properties(self)
    }
}

/// Whether a holder has this key on all nodes, and no renewal has begun: a loss leaves it a quorum.
fn is_everywhere(state: &State, resource: usize) -> bool {
    let Some(key) = state.nodes[0].keys[resource] else { return false };
    let client = usize::from(key.client);
    state.nodes.iter().all(|node| node.keys[resource] == Some(key))
        && state.clients[client].phase == Phase::Holding
        && state.clients[client].attempt == key.attempt
        && state.count(client, Leg::Granted) == NODES
}

impl Sets {
    /// Whether a client is the first in all queues that it has joined.
    fn is_first(&self, state: &State, client: usize) -> bool {
        let joined = usize::from(state.clients[client].joined);
        let mut queues = self.order(client).into_iter().take(joined);
        queues.all(|it| state.queues[it].first() == Some(&(client as u8)))
    }

    /// Whether a client may join its next queue.
    pub(super) fn may_join(&self, state: &State, client: usize) -> bool {
        let joined = usize::from(state.clients[client].joined);
        self.bounds.queues
            && self.may_begin(state, client)
            && joined < self.order(client).len()
            && (self.omits(Omission::OneAfterTheOther) || self.is_first(state, client))
    }

    /// Whether a client may ask.
    pub(super) fn may_ask(&self, state: &State, client: usize) -> bool {
        let joined = usize::from(state.clients[client].joined);
        let in_turn = joined == self.order(client).len() && self.is_first(state, client);
        self.may_begin(state, client) && (in_turn || !self.bounds.queues)
    }

    /// Whether a client has a try left.
    pub(super) fn may_begin(&self, state: &State, client: usize) -> bool {
        let client = &state.clients[client];
        client.phase == Phase::Idle && client.attempt < self.bounds.attempts
    }

    fn choices(&self, state: &State, client: usize, actions: &mut Vec<Action>) {
        if self.may_join(state, client) {
            actions.push(Action::Join(client));
        }
        if self.may_ask(state, client) {
            actions.push(Action::Ask(client));
        }
        match state.clients[client].phase {
            Phase::Idle => {}
            Phase::Asking => {
                if state.count(client, Leg::Granted) >= QUORUM {
                    actions.push(Action::Take(client));
                }
                actions.push(Action::LetGo(client));
            }
            Phase::Holding => {
                if state.clients[client].renewals > 0 {
                    actions.push(Action::Renew(client));
                }
                if state.count(client, Leg::Renewed) >= QUORUM && !state.clients[client].renewed {
                    actions.push(Action::Rely(client));
                }
                actions.push(Action::LetGo(client));
            }
        }
    }

    fn arrivals(&self, index: usize, node: &Node, actions: &mut Vec<Action>) {
        for client in 0..self.clients() {
            for attempt in 0..ATTEMPTS {
                let place = (index, client, attempt);
                let (node_at, client, attempt) = place;
                match node.legs[client][attempt] {
                    Leg::Asked { .. } => {
                        actions.push(Action::Grant { node: node_at, client, attempt });
                    }
                    Leg::Renewing => {
                        actions.push(Action::Extend { node: node_at, client, attempt })
                    }
                    // Behind what was sent before, on the same connection (rule 5).
                    _ if node.deletes[client][attempt] => {
                        actions.push(Action::Delete { node: node_at, client, attempt });
                    }
                    _ => {}
                }
            }
        }
    }

    fn step(&self, state: &mut State, action: Action) {
        match action {
            Action::Join(client) => {
                let joined = usize::from(state.clients[client].joined);
                state.queues[self.order(client)[joined]].push(client as u8);
                state.clients[client].joined += 1;
            }
            Action::Ask(client) if self.bounds.queues => {
                state.clients[client].phase = Phase::Holding;
                state.clients[client].served = true;
            }
            Action::Ask(client) => {
                state.clients[client].phase = Phase::Asking;
                let attempt = usize::from(state.clients[client].attempt);
                for node in &mut state.nodes {
                    node.legs[client][attempt] = Leg::Asked { looked: 0, refused: false };
                }
            }
            Action::Grant { node, client, attempt } => self.grant(state, node, client, attempt),
            Action::Take(client) => {
                state.clients[client].phase = Phase::Holding;
                state.clients[client].served = true;
            }
            Action::Renew(client) => {
                state.clients[client].renewals -= 1;
                let attempt = usize::from(state.clients[client].attempt);
                for node in &mut state.nodes {
                    let leg = &mut node.legs[client][attempt];
                    if !matches!(leg, Leg::Asked { .. }) {
                        *leg = Leg::Renewing;
                    }
                }
            }
            Action::Extend { node, client, attempt } => self.renew(state, node, client, attempt),
            Action::Rely(client) => state.clients[client].renewed = true,
            Action::LetGo(client) => self.let_go(state, client),
            Action::Delete { node, client, attempt } => self.delete(state, node, client, attempt),
            Action::Expire { node, resource } => {
                state.nodes[node].keys[resource] = None;
                state.nodes[node].gone = true;
            }
            Action::Lose { node, resource } => {
                state.losses -= 1;
                state.nodes[node].keys[resource] = None;
                state.nodes[node].gone = true;
            }
        }
    }

    /// Drops answers that no client waits for, and deletes that find nothing.
    fn forget_what_is_without_effect(&self, state: &mut State) {
        let State { nodes, clients, .. } = state;
        for node in nodes {
            for (client, now) in clients.iter().enumerate() {
                for attempt in 0..ATTEMPTS {
                    let leg = &mut node.legs[client][attempt];
                    if leg.is_on_its_way() {
                        continue;
                    }
                    if now.phase == Phase::Idle || usize::from(now.attempt) != attempt {
                        *leg = Leg::Nothing;
                    }
                    if node.deletes[client][attempt] && self.of(node, client, attempt).is_empty() {
                        node.deletes[client][attempt] = false;
                    }
                }
            }
        }
    }

    /// The client relies on nothing any more, leaves the queues, and deletes what it has.
    fn let_go(&self, state: &mut State, client: usize) {
        let Client { attempt, renewals, served, .. } = state.clients[client];
        for node in &mut state.nodes {
            node.deletes[client][usize::from(attempt)] = !self.bounds.queues;
        }
        for queue in &mut state.queues {
            queue.retain(|it| usize::from(*it) != client);
        }
        let attempt = attempt + 1;
        state.clients[client] = Client { attempt, renewals, served, ..Client::default() };
    }
}

impl Told for Sets {
    fn clients(&self) -> usize {
        self.bounds.sets.len()
    }

    fn bounds(&self) -> String {
        self.bounds.to_string()
    }

    fn steps(&self, path: Vec<(State, Option<Action>)>) -> Vec<String> {
        path.into_iter().filter_map(|(_, action)| Some(words(action?))).collect()
    }
}

/// A step for a reader.
fn words(action: Action) -> String {
    let letter = |client: usize| char::from(b'A' + client as u8);
    let name = |resource: usize| char::from(b'a' + resource as u8);
    match action {
        Action::Join(client) => format!("{} joins its next queue", letter(client)),
        Action::Ask(client) => format!("{} asks all nodes", letter(client)),
        Action::Grant { client, .. } => {
            format!("a node runs the request of {}", letter(client))
        }
        Action::Take(client) => format!("{} reads a quorum, and has its set", letter(client)),
        Action::Renew(client) => format!("{} asks all nodes to renew", letter(client)),
        Action::Extend { client, .. } => {
            format!("a node runs the renewal of {}", letter(client))
        }
        Action::Rely(client) => format!("{} reads a quorum of renewals", letter(client)),
        Action::LetGo(client) => format!("{} lets go", letter(client)),
        Action::Delete { client, .. } => {
            format!("a node runs the deletes of {}", letter(client))
        }
        Action::Expire { resource, .. } => {
            format!("{} expires on a node", name(resource))
        }
        Action::Lose { resource, .. } => {
            format!("{} is lost on a node", name(resource))
        }
    }
}
