//! States that differ only in which node or client is which have the same future: one of them
//! stands for all.

use super::{
    rules::Fence,
    state::{CLIENTS, Core, Holder, NODES, Node, State},
};

/// The other orders in which clients can be named; of two clients only the first.
const ORDERS: [[u8; CLIENTS]; 5] = [[1, 0, 2], [0, 2, 1], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// The state that stands for all that are the same as this one but for names.
pub(super) fn representative(state: &State, fence: &Fence) -> State {
    let clients = fence.bounds.asks.len();
    let orders = if clients < CLIENTS { &ORDERS[..clients / 2] } else { &ORDERS[..] };
    let mut first = sorted(state);
    let is_same = |order: &[u8; CLIENTS]| {
        (0..clients).all(|it| fence.wants(it) == fence.wants(order[it].into()))
    };
    for order in orders.iter().filter(|order| is_same(order)) {
        let other = sorted(&renamed(state, *order));
        if other.core < first.core {
            first = other;
        }
    }
    first
}

/// The client at `order[i]` becomes the `i`th.
fn renamed(state: &State, order: [u8; CLIENTS]) -> State {
    let pick = order.map(usize::from);
    let mut names = [0; CLIENTS];
    for (new, old) in (0..).zip(pick) {
        names[old] = new;
    }
    let holder = |key: Holder| Holder { client: names[usize::from(key.client)], ..key };
    let nodes = state.core.nodes.map(|node| Node {
        keys: node.keys.map(|key| key.map(holder)),
        legs: pick.map(|old| node.legs[old]),
        heals: pick.map(|old| node.heals[old]),
        ..node
    });
    let core = Core { nodes, clients: pick.map(|old| state.core.clients[old]), ..state.core };
    State { core, clients: pick.map(|old| state.clients[old]), ..*state }
}

/// A node's value holds all of its state, so sorting finds the first of all orders.
fn sorted(state: &State) -> State {
    let mut order: [usize; NODES] = [0, 1, 2];
    order.sort_unstable_by_key(|place| state.core.nodes[*place]);
    State {
        core: Core { nodes: order.map(|old| state.core.nodes[old]), ..state.core },
        nodes: order.map(|old| state.nodes[old]),
        ..*state
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use stateright::Model;

    use super::*;
    use crate::fence::{rules::Bounds, state::Leg};

    const FENCE: Fence =
        Fence { omission: None, bounds: Bounds { range: 2, heals: 0, ..Bounds::LEAST } };

    /// Everything that can be reached, with this done to each state.
    fn reached(fence: &Fence, stands_for: impl Fn(&State) -> State) -> HashSet<Core> {
        let mut seen = HashSet::new();
        let mut pending = fence.init_states();
        while let Some(state) = pending.pop() {
            let mut actions = Vec::new();
            fence.actions(&state, &mut actions);
            for action in actions {
                let mut next = state;
                fence.step(&mut next.core, action);
                let next = stands_for(&next);
                if seen.insert(next.core) {
                    pending.push(next);
                }
            }
        }
        seen
    }

    /// What is left of a state that is the same as many others.
    fn reduced(state: &State) -> State {
        let mut state = *state;
        FENCE.forget_what_is_without_effect(&mut state.core);
        representative(&state, &FENCE)
    }

    #[test]
    fn a_representative_reaches_as_much_as_all_states_do() {
        let all = std::cell::RefCell::new(HashSet::new());
        let each = reached(&FENCE, |state| {
            all.borrow_mut().insert(reduced(state).core);
            *state
        });
        let one_for_all = reached(&FENCE, reduced);
        assert_eq!(one_for_all, *all.borrow());
        assert!(one_for_all.len() * 6 < each.len(), "{} of {}", one_for_all.len(), each.len());
    }

    #[test]
    fn a_difference_that_is_no_name_stays() {
        let mut one = State::new(Core::default());
        one.core.nodes[0].keys[0] = Some(Holder { client: 0, ask: 0 });
        one.core.nodes[1].legs[0][0] = Leg::Granted(1);
        let mut other = one;
        // The number is that of another client's ask.
        other.core.nodes[1].legs = [[Leg::Nothing; 3]; CLIENTS];
        other.core.nodes[1].legs[1][0] = Leg::Granted(1);
        assert_ne!(representative(&one, &FENCE), representative(&other, &FENCE));
        let mut renamed = other;
        renamed.core.nodes[0].keys[0] = Some(Holder { client: 1, ask: 0 });
        renamed.core.nodes.rotate_left(1);
        assert_eq!(representative(&one, &FENCE), representative(&renamed, &FENCE));
    }
}
