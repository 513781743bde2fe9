//! A behaviour for a reader: what each client and node does, by the names of the start.

use super::{
    action::Action,
    rules::Fence,
    state::{Leg, RESOURCES, State, places},
};
use crate::check::Told;

impl Told for Fence {
    fn clients(&self) -> usize {
        self.bounds.asks.len()
    }

    fn bounds(&self) -> String {
        self.bounds.to_string()
    }

    fn steps(&self, path: Vec<(State, Option<Action>)>) -> Vec<String> {
        steps(self, path)
    }
}

fn steps(fence: &Fence, path: Vec<(State, Option<Action>)>) -> Vec<String> {
    path.windows(2)
        .filter_map(|pair| {
            let [(before, action), (after, _)] = pair else { return None };
            Some(words(fence, before, after, (*action)?))
        })
        .collect()
}

fn letter(name: u8) -> char {
    char::from(b'A' + name)
}

/// A resource.
fn name(resource: usize) -> char {
    char::from(b'a' + resource as u8)
}

/// What the counters of a node are.
fn counters(fence: &Fence, counters: &[u8; RESOURCES]) -> String {
    let wanted = fence.bounds.sets.iter().fold(0, |all, set| all | set);
    let each: Vec<String> =
        places(wanted).map(|it| format!("{} counts {}", name(it), counters[it])).collect();
    each.join(", ")
}

fn words(fence: &Fence, before: &State, after: &State, action: Action) -> String {
    let core = &before.core;
    let client = |place: usize| letter(before.clients[place]);
    let node = |place: usize| before.nodes[place] + 1;
    // The state of a node and of a client, which may have another place now.
    let node_after = |place: usize| {
        let same = after.nodes.iter().position(|name| *name == before.nodes[place]);
        after.core.nodes[same.unwrap_or(place)]
    };
    let last = |place: usize| usize::from(core.clients[place].begun).saturating_sub(1);
    let range = |first: u8| match fence.last(first) {
        last if last > first => format!("{first} to {last}"),
        _ => first.to_string(),
    };
    match action {
        Action::Ask { client: asks, floor: 0 } => format!("{} asks all nodes", client(asks)),
        Action::Ask { client: asks, floor } => {
            format!("{} asks all nodes, for at least {floor}", client(asks))
        }
        Action::AskAgain { client: asks, .. } => {
            format!("{} asks for a new range", client(asks))
        }
        Action::Decide { client: reads, nodes } => {
            let answers: Vec<String> = places(nodes)
                .map(|place| match core.nodes[place].legs[reads][last(reads)] {
                    Leg::Granted(number) => format!("{number} of node {}", node(place)),
                    _ => String::new(),
                })
                .collect();
            format!("{} reads {}", client(reads), answers.join(" and "))
        }
        Action::Take(takes) => {
            let first = core.clients[takes].asks[last(takes)].first;
            format!("{} reads the confirmations: {} is its own", client(takes), range(first))
        }
        Action::HandOn(hands) => {
            format!("{} hands on {}", client(hands), core.clients[hands].rest.next)
        }
        Action::HandOnOld(hands) => {
            let number = core.clients[hands].old.next;
            format!("{} hands on {number} of the range before", client(hands))
        }
        Action::GiveUp(gives_up) => format!("{} gives up what it has asked for", client(gives_up)),
        Action::LetGo(lets_go) => format!("{} lets go", client(lets_go)),
        Action::GoOnLate(late) => format!("the validity of {} runs out unseen", client(late)),
        Action::SendHeal { client: heals, node: place } => {
            format!("{} sends a heal to node {}", client(heals), node(place))
        }
        Action::Heal { client: heals, node: place } => {
            format!("node {}: heal of {}", node(place), client(heals))
        }
        Action::Grant { client: asks, ask, node: place } => {
            let (was, is) = (core.nodes[place], node_after(place));
            let granted = was.counters != is.counters || was.keys != is.keys;
            let counters = match granted {
                true => format!(", {}", counters(fence, &is.counters)),
                false => ", refused".to_owned(),
            };
            format!("node {}: GRANT of {}{}{counters}", node(place), client(asks), ask + 1)
        }
        Action::Confirm { client: asks, ask, node: place } => {
            let first = core.clients[asks].asks[ask].first;
            format!(
                "node {}: CONFIRM of {}{} for {}, {}",
                node(place),
                client(asks),
                ask + 1,
                range(first),
                counters(fence, &node_after(place).counters),
            )
        }
        Action::Expire { node: place, resource } => {
            format!("the key of {} on node {} goes", name(resource), node(place))
        }
        Action::Forget { node: place, resource } => {
            format!("the counter of {} on node {} expires", name(resource), node(place))
        }
        Action::Restart(place) => format!("node {} restarts empty", node(place)),
        Action::Tick { renewed: None } => "the longest ttl passes".to_owned(),
        Action::Tick { renewed: Some(holder) } => {
            format!("the longest ttl passes, and {} is renewed", client(holder))
        }
    }
}
