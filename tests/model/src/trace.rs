//! A behaviour for a reader: the steps of each client and node, by the names of the start.

use super::{
    action::{Action, Answer, Request},
    check::Told,
    rules::Protocol,
    state::{Core, State, Token},
};

impl Told for Protocol {
    fn clients(&self) -> usize {
        self.bounds.attempts.len()
    }

    fn bounds(&self) -> String {
        self.bounds.to_string()
    }

    fn steps(&self, path: Vec<(State, Option<Action>)>) -> Vec<String> {
        steps(self, path)
    }
}

/// A line for each step, with the clients that rely on the lock after it.
fn steps(protocol: &Protocol, path: Vec<(State, Option<Action>)>) -> Vec<String> {
    let relying = |state: &State| -> String {
        let clients = state.core.clients.iter().zip(state.clients);
        let mut names: Vec<char> = clients
            .flat_map(|(client, name)| vec![letter(name); protocol.relying(client)])
            .collect();
        names.sort_unstable();
        names.into_iter().collect()
    };
    path.windows(2)
        .filter_map(|pair| {
            let [(before, action), (after, _)] = pair else { return None };
            let holders = relying(after);
            let holders = if holders.is_empty() { String::new() } else { format!("  [{holders}]") };
            Some(format!("{}{holders}", words(before, (*action)?)))
        })
        .collect()
}

fn letter(name: u8) -> char {
    char::from(b'A' + name)
}

fn words(state: &State, action: Action) -> String {
    let client = |place: usize| letter(state.clients[place]);
    let node = |place: usize| state.nodes[place] + 1;
    let holder =
        |token: Token| format!("{}{}", client(usize::from(token.client)), token.attempt + 1);
    match action {
        Action::Tick { missed_by: None } => "a tick".to_owned(),
        Action::Tick { missed_by: Some(slow) } => format!("a tick that {} misses", client(slow)),
        Action::Ask(asks) => format!("{} asks all nodes", client(asks)),
        Action::GiveUp(gives_up) => format!("{} gives up", client(gives_up)),
        Action::Release(releases) => format!("{} releases", client(releases)),
        Action::Extend(extends, ttl) => format!("{} extends by {ttl}", client(extends)),
        Action::HandOver(gives) => format!("{} hands over in its process", client(gives)),
        Action::HandOverToNobody(gives) => {
            format!("{} hands over to a waiter that has gone", client(gives))
        }
        Action::ReleaseAfterHandOver(releases) => {
            format!("the hold of {} that has handed over releases", client(releases))
        }
        Action::TakeExtensionForFailed(fails) => {
            format!("{} takes its extension for failed", client(fails))
        }
        Action::Stop(stops) => format!("{} stops for good", client(stops)),
        Action::Send { node: place, token } => {
            format!("the SET of {} leaves for node {}", holder(token), node(place))
        }
        Action::Request { node: place, token, request } => {
            let what = match request {
                Request::Set => "SET",
                Request::Extend(_) => "extend",
                Request::Heal => "heal",
                Request::Delete => "delete",
                Request::BlindDelete => "delete of whatever is there",
            };
            let before = has(&state.core, place, &holder);
            format!("node {}{before}: {what} of {}", node(place), holder(token))
        }
        Action::Answer { node: place, token, answer } => {
            let what = match answer {
                Answer::Granted => "granted",
                Answer::Renewed(_) => "renewed",
                Answer::Missing(_) => "missing",
            };
            format!("{} hears from node {}: {what}", holder(token), node(place))
        }
        Action::Restart(place) => format!("node {} restarts empty", node(place)),
        Action::Jump(place) => format!("the clock of node {} is set ahead", node(place)),
        Action::Lose(place) => format!("node {} loses its keys", node(place)),
    }
}

fn has(core: &Core, place: usize, holder: &impl Fn(Token) -> String) -> String {
    let key = core.nodes[place].key;
    key.map_or_else(String::new, |key| format!(" ({}, {} left)", holder(key.token), key.left))
}
