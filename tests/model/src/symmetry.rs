//! States that differ only in which node or client is which have the same future: one of them
//! stands for all. With three nodes and three clients that is one state in up to 36.

use super::{
    pack,
    state::{CLIENTS, Core, Key, NODES, Node, State, Token},
};

/// The other orders in which clients can be named; of two clients only the first.
pub(crate) const ORDERS: [[u8; CLIENTS]; 5] =
    [[1, 0, 2], [0, 2, 1], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// The new name of each client when the client at `order[i]` becomes the `i`th.
pub(crate) fn names(order: [u8; CLIENTS]) -> [u8; CLIENTS] {
    let mut names = [0; CLIENTS];
    for (new, old) in (0..).zip(order) {
        names[usize::from(old)] = new;
    }
    names
}

/// The state that stands for all that are the same as this one but for names. What it is in words
/// need not be known yet.
pub(super) fn representative(state: &State, clients: usize) -> State {
    let orders = if clients < CLIENTS { &ORDERS[..1] } else { &ORDERS[..] };
    let others = orders.iter().map(|order| sorted(&renamed(state, *order)));
    others.fold(sorted(state), |first, it| if it.packed < first.packed { it } else { first })
}

/// The client at `order[i]` becomes the `i`th.
fn renamed(state: &State, order: [u8; CLIENTS]) -> State {
    let (pick, names) = (order.map(usize::from), names(order));
    let key = |key: Key| Key {
        token: Token { client: names[usize::from(key.token.client)], ..key.token },
        ..key
    };
    let nodes = state.core.nodes.map(|node| Node {
        key: node.key.map(key),
        links: pick.map(|old| node.links[old]),
        ..node
    });
    let core = Core { nodes, clients: pick.map(|old| state.core.clients[old]), ..state.core };
    State { core, clients: pick.map(|old| state.clients[old]), ..*state }
}

/// A node's value holds all of its state, so sorting finds the first of all orders.
fn sorted(state: &State) -> State {
    let mut order: [usize; NODES] = [0, 1, 2];
    let words = state.core.nodes.map(|node| pack::node(&node));
    order.sort_unstable_by_key(|place| words[*place]);
    let core = Core { nodes: order.map(|old| state.core.nodes[old]), ..state.core };
    State {
        core,
        packed: pack::state(&core, order.map(|old| words[old])),
        nodes: order.map(|old| state.nodes[old]),
        clients: state.clients,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use stateright::Model;

    use super::*;
    use crate::{
        pack::Packed,
        rules::{Bounds, Protocol},
        state::{Client, Phase},
    };

    /// A state in which every node and every client is different.
    fn odd() -> State {
        let mut core = Core::default();
        for (client, left) in core.clients.iter_mut().zip(1..) {
            *client = Client { phase: Phase::Holding, left, ..Client::default() };
        }
        for (index, node) in core.nodes.iter_mut().enumerate() {
            let client = u8::try_from(index).unwrap();
            node.key = Some(Key { token: Token { client, attempt: 0 }, left: 3 });
            node.links[(index + 1) % CLIENTS][0].delete = true;
        }
        State::new(core)
    }

    #[test]
    fn all_namings_of_a_state_have_one_representative() {
        let first = representative(&odd(), CLIENTS);
        for order in ORDERS {
            let mut other = renamed(&odd(), order);
            other.core.nodes.rotate_left(1);
            assert_eq!(representative(&other, CLIENTS), first, "{order:?}");
        }
    }

    /// Everything that can be reached, with this done to each state.
    fn reached(protocol: &Protocol, stands_for: impl Fn(&State) -> State) -> HashSet<Packed> {
        let mut seen = HashSet::new();
        let mut pending = protocol.init_states();
        while let Some(state) = pending.pop() {
            let mut actions = Vec::new();
            protocol.actions(&state, &mut actions);
            for action in actions {
                let mut next = state;
                protocol.step(&mut next.core, action);
                protocol.forget_what_is_without_effect(&mut next.core);
                let next = stands_for(&next);
                if seen.insert(next.packed) {
                    pending.push(next);
                }
            }
        }
        seen
    }

    #[test]
    fn a_representative_reaches_as_much_as_all_states_do() {
        let protocol = Protocol { omission: None, bounds: Bounds::LEAST };
        let all = std::cell::RefCell::new(HashSet::new());
        let each = reached(&protocol, |state| {
            all.borrow_mut().insert(representative(state, 2).packed);
            let words = state.core.nodes.map(|node| pack::node(&node));
            State { packed: pack::state(&state.core, words), ..*state }
        });
        let one_for_all = reached(&protocol, |state| representative(state, 2));
        assert_eq!(one_for_all, *all.borrow());
        assert!(one_for_all.len() * 6 < each.len(), "{} of {}", one_for_all.len(), each.len());
    }

    #[test]
    fn a_difference_that_is_no_name_stays() {
        let mut other = odd();
        // The delete is on its way to a node that has this client's key, and not another's.
        other.core.nodes[0].links[1][0].delete = false;
        other.core.nodes[0].links[0][0].delete = true;
        assert_ne!(representative(&other, CLIENTS), representative(&odd(), CLIENTS));
    }

    #[test]
    fn names_go_with_what_they_name() {
        let state = representative(&odd(), CLIENTS);
        for (client, name) in state.core.clients.iter().zip(state.clients) {
            assert_eq!(client.left, name + 1);
        }
        for (node, name) in state.core.nodes.iter().zip(state.nodes) {
            let holder = node.key.map(|key| state.clients[usize::from(key.token.client)]);
            assert_eq!(holder, Some(name));
        }
    }
}
