//! What can happen next.

use stateright::{Model, Property};

use super::{
    properties,
    rules::{Role, Roles},
    state::{CLIENTS, Client, Leg, Node, State},
};
use crate::check::Told;

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// A client asks all nodes.
    Ask(usize),
    /// A node runs the request.
    Grant { node: usize, client: usize },
    /// A client reads a quorum of votes, and has the lock.
    Take(usize),
    /// A holder asks all nodes to renew.
    Renew(usize),
    /// A node runs the renewal.
    Extend { node: usize, client: usize },
    /// A holder reads a quorum of renewals, and relies on them from now on.
    Rely(usize),
    /// The validity of a client ends.
    End(usize),
    /// A holder hands the lock over.
    HandOver(usize),
    /// A client gives up, or releases: deletes go to all nodes.
    LetGo(usize),
    /// A node runs the delete.
    Delete { node: usize, client: usize },
    /// What a node has of a client expires.
    Expire { node: usize, client: usize },
    /// A node restarts without its keys.
    Restart(usize),
}

impl Model for Roles {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let client = Client { renewals: self.bounds.renewals, ..Client::default() };
        let clients = [client; CLIENTS];
        vec![State { clients, restarts: self.bounds.restarts, ..State::default() }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for client in self.all() {
            self.choices(state, client, actions);
        }
        for (index, node) in state.nodes.iter().enumerate() {
            self.arrivals(index, node, actions);
            let expiring = self.all().filter(|it| self.may_expire(state, node, *it));
            actions.extend(expiring.map(|client| Action::Expire { node: index, client }));
            if state.restarts > 0 {
                actions.push(Action::Restart(index));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        self.step(&mut next, action);
        self.forget(&mut next);
        // Nodes that change places make no difference.
        next.nodes.sort_unstable();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::properties(self)
    }
}

impl Roles {
    fn arrivals(&self, node: usize, it: &Node, actions: &mut Vec<Action>) {
        for client in self.all() {
            match it.legs[client] {
                Leg::Asked => actions.push(Action::Grant { node, client }),
                Leg::Renewing => actions.push(Action::Extend { node, client }),
                // Behind what was sent before, on the same connection (rule 5).
                _ if it.deletes[client] => {
                    actions.push(Action::Delete { node, client });
                }
                _ => {}
            }
        }
    }

    fn step(&self, state: &mut State, action: Action) {
        match action {
            Action::Ask(client) => Self::ask(state, client),
            Action::Grant { node, client } => self.grant(state, node, client),
            Action::Take(client) => self.take(state, client),
            Action::Renew(client) => Self::renew(state, client),
            Action::Extend { node, client } => Self::extend(state, node, client),
            Action::Rely(client) => Self::rely(state, client),
            Action::End(client) => state.clients[client].over = true,
            Action::HandOver(client) => Self::hand_over(state, client),
            Action::LetGo(client) => Self::let_go(state, client),
            Action::Delete { node, client } => self.delete(state, node, client),
            Action::Expire { node, client } => self.expire(state, node, client),
            Action::Restart(node) => self.restart(state, node),
        }
    }

    /// A step for a reader.
    fn words(&self, action: Action) -> String {
        let name = |client: usize| {
            let letter = char::from(b'A' + client as u8);
            match self.role(client) {
                Role::Writer => format!("writer {letter}"),
                Role::Reader => format!("reader {letter}"),
                Role::Giver => format!("giver {letter}"),
                Role::Adopter => format!("adopter {letter}"),
            }
        };
        match action {
            Action::Ask(client) => format!("{} asks all nodes", name(client)),
            Action::Grant { client, .. } => format!("a node runs the request of {}", name(client)),
            Action::Take(client) => format!("{} reads a quorum, and has the lock", name(client)),
            Action::Renew(client) => format!("{} asks all nodes to renew", name(client)),
            Action::Extend { client, .. } => format!("a node runs the renewal of {}", name(client)),
            Action::Rely(client) => format!("{} reads a quorum of renewals", name(client)),
            Action::End(client) => format!("the validity of {} ends", name(client)),
            Action::HandOver(client) => format!("{} hands the lock over", name(client)),
            Action::LetGo(client) => format!("{} lets go", name(client)),
            Action::Delete { client, .. } => format!("a node runs the delete of {}", name(client)),
            Action::Expire { client, .. } => format!("the key of {} expires", name(client)),
            Action::Restart(_) => "a node restarts empty".to_owned(),
        }
    }
}

impl Told for Roles {
    fn clients(&self) -> usize {
        self.bounds.roles.len()
    }

    fn bounds(&self) -> String {
        self.bounds.to_string()
    }

    fn steps(&self, path: Vec<(State, Option<Action>)>) -> Vec<String> {
        path.into_iter().filter_map(|(_, action)| Some(self.words(action?))).collect()
    }
}
