//! What must hold in every state, and what has to happen in some, or the model says nothing.

use stateright::Property;

use super::{
    rules::{Fence, QUORUM},
    state::{Leg, Phase, State},
};

/// Ranges are disjoint and follow the order of their grants.
pub(crate) const DISJOINT: &str = "one number twice, or out of order";
/// A range lies behind all that were given before it was asked for.
pub(crate) const GROWING: &str = "a later number is no larger";
/// A number that is handed on is larger than all that were handed out before.
pub(crate) const HANDED: &str = "a number handed on is no larger";

pub(super) fn properties(fence: &Fence) -> Vec<Property<Fence>> {
    let bounds = &fence.bounds;
    let mut properties = vec![
        Property::always(DISJOINT, |_, State { core, .. }: &State| !core.broken.disjoint),
        Property::always(GROWING, |_, State { core, .. }: &State| !core.broken.growing),
        Property::always(HANDED, |_, State { core, .. }: &State| !core.broken.handed),
        Property::sometimes("every ask has begun, and one holds", |_, state: &State| {
            let clients = &state.core.clients;
            clients.iter().all(|client| client.begun == client.may_begin)
                && clients.iter().any(|client| client.holds.is_some())
        }),
        Property::sometimes("a quorum has confirmed", confirmed),
    ];
    if bounds.renews {
        properties.push(Property::sometimes("a new range was granted", new_range));
    }
    if bounds.range > 1 && !bounds.any_expiry {
        properties.push(Property::sometimes("a range was used up", |_, state: &State| {
            let mut clients = state.core.clients.iter();
            clients.any(|client| client.holds.is_some() && client.rest.next == 0)
        }));
    }
    if bounds.restarts > 0 {
        properties.push(Property::sometimes(
            "a node that restarted has granted",
            |_, state: &State| {
                let core = &state.core;
                core.restarts == 0
                    && core.nodes.iter().any(|node| {
                        let granted = |leg: &Leg| matches!(leg, Leg::Granted(_));
                        !node.sits_out && node.legs.as_flattened().iter().any(granted)
                    })
            },
        ));
    }
    properties
}

fn confirmed(_: &Fence, state: &State) -> bool {
    let core = &state.core;
    core.clients.iter().enumerate().filter(|(_, client)| client.busy).any(|(index, client)| {
        let ask = usize::from(client.begun) - 1;
        let counts =
            core.nodes.iter().filter(|node| matches!(node.legs[index][ask], Leg::Counts(_)));
        client.asks[ask].phase == Phase::Confirming && counts.count() >= QUORUM
    })
}

fn new_range(_: &Fence, state: &State) -> bool {
    let core = &state.core;
    core.clients.iter().enumerate().filter(|(_, client)| client.busy).any(|(index, client)| {
        let ask = usize::from(client.begun) - 1;
        let granted =
            core.nodes.iter().filter(|node| matches!(node.legs[index][ask], Leg::Granted(_)));
        client.asks[ask].renews && granted.count() >= QUORUM
    })
}
