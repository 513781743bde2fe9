//! What must hold in every state, and what has to happen in some, or the model says nothing.

use stateright::Property;

use super::{
    action::tokens,
    client::is_current,
    rules::{Bounds, Protocol},
    state::State,
};

/// No two clients rely on the lock at once.
pub(super) const EXCLUSIVE: &str = "two hold";
/// No client relies on a lock that another client was given meanwhile.
pub(super) const UNBROKEN: &str = "held by another meanwhile";
/// A claim that is done, and has nothing on its way, has no key anywhere.
pub(super) const CLEAN: &str = "a key is left";

pub(super) fn properties(bounds: &Bounds) -> Vec<Property<Protocol>> {
    let mut properties = vec![
        Property::always(EXCLUSIVE, exclusive),
        Property::always(UNBROKEN, unbroken),
        Property::sometimes(
            "all clients have tried, and one holds",
            |protocol, State { core, .. }| {
                core.clients.iter().all(|client| client.tries == 0)
                    && core.clients.iter().any(|client| protocol.relies(client))
            },
        ),
    ];
    if bounds.waiters > 0 {
        properties.push(Property::sometimes("handed over", |protocol, State { core, .. }| {
            core.clients.iter().any(|client| client.handed_over && protocol.relies(client))
        }));
    }
    if bounds.outbox {
        let name = "held while a SET of it was not sent";
        properties.push(Property::sometimes(name, |protocol, State { core, .. }| {
            tokens().filter(|token| is_current(core, *token)).any(|token| {
                let (client, attempt) = (usize::from(token.client), usize::from(token.attempt));
                protocol.relies(&core.clients[client])
                    && core.nodes.iter().any(|node| node.links[client][attempt].unsent)
            })
        }));
    }
    if bounds.orderly {
        properties.push(Property::always(CLEAN, clean));
    }
    if bounds.extensions > 0 {
        properties.push(Property::sometimes("extended", |_, State { core, .. }| {
            core.clients.iter().any(|client| client.rounds[0].confirmed)
        }));
        properties.push(Property::sometimes("healed", |_, State { core, .. }| {
            let links = core.nodes.iter().flat_map(|node| node.links.as_flattened());
            links.into_iter().any(|link| link.heal > 0)
        }));
    }
    properties
}

fn exclusive(protocol: &Protocol, state: &State) -> bool {
    state.core.clients.iter().map(|client| protocol.relying(client)).sum::<usize>() <= 1
}

fn unbroken(protocol: &Protocol, state: &State) -> bool {
    !state.core.clients.iter().any(|client| client.broken && protocol.relies(client))
}

fn clean(_: &Protocol, state: &State) -> bool {
    let core = &state.core;
    core.nodes.iter().all(|node| {
        tokens().filter(|token| node.has(*token) && !is_current(core, *token)).all(|token| {
            let links = &node.links[usize::from(token.client)];
            links[usize::from(token.attempt)].is_requesting()
        })
    })
}
