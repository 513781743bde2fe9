//! What must hold in every state, and what has to happen in some, or the model says nothing.

use stateright::Property;

use super::{
    rules::{Role, Roles},
    state::{Entry, Phase, State},
};

/// A client that holds alone relies on the lock while another client does.
pub(super) const EXCLUSIVE: &str = "two hold that exclude each other";
/// A number is smaller than one that was given before.
pub(super) const GROWING: &str = "held by another meanwhile";
/// Two clients have the same number, and neither took the lock over from the other one.
pub(super) const DISTINCT: &str = "one number twice";
/// When nothing is on its way and all clients are through, a key is left.
pub(super) const LEFT: &str = "a key is left";

pub(super) fn properties(roles: &Roles) -> Vec<Property<Roles>> {
    let has = |role: Role| roles.bounds.roles.contains(&role);
    let mut properties = vec![
        Property::always(EXCLUSIVE, exclusive),
        Property::always(GROWING, |_, state: &State| !state.stale),
        Property::always(DISTINCT, distinct),
        Property::sometimes(
            "all clients but adopters were served",
            |roles: &Roles, state: &State| {
                let mut clients = roles.all().filter(|it| roles.role(*it) != Role::Adopter);
                clients.all(|it| state.clients[it].served)
            },
        ),
    ];
    if !roles.bounds.expiry {
        properties.push(Property::always(LEFT, |roles, state: &State| {
            !is_quiet(roles, state) || is_empty(state)
        }));
    }
    if roles.bounds.roles.iter().filter(|it| **it == Role::Reader).count() > 1 {
        properties.push(Property::sometimes("two readers hold", |roles, state: &State| {
            roles.all().filter(|it| roles.relies(&state.clients[*it])).count() > 1
        }));
    }
    if has(Role::Adopter) {
        properties.push(Property::sometimes("taken over", |roles: &Roles, state: &State| {
            let mut adopters = roles.all().filter(|it| roles.role(*it) == Role::Adopter);
            adopters.any(|it| state.clients[it].served)
        }));
    }
    if roles.bounds.renewals > 0 {
        properties.push(Property::sometimes("renewed", |_, state: &State| {
            state.clients.iter().any(|client| client.renewed)
        }));
    }
    if roles.bounds.restarts > 0 {
        properties
            .push(Property::sometimes("a node that restarted votes again", |_, state: &State| {
                state.restarts == 0 && state.nodes.iter().all(|node| node.votes())
            }));
    }
    properties
}

fn exclusive(roles: &Roles, state: &State) -> bool {
    let holders: Vec<_> = roles.all().filter(|it| roles.relies(&state.clients[*it])).collect();
    holders.len() <= 1 || holders.iter().all(|it| roles.role(*it) == Role::Reader)
}

fn distinct(roles: &Roles, state: &State) -> bool {
    let number = |it: usize| state.clients[it].number;
    let numbered = || roles.all().filter(|it| number(*it) > 0);
    numbered().all(|one| {
        let twins = numbered().filter(|other| *other > one && number(*other) == number(one));
        twins.into_iter().all(|other| {
            let roles = [roles.role(one), roles.role(other)];
            roles.contains(&Role::Giver) && roles.contains(&Role::Adopter)
        })
    })
}

/// Whether nothing is on its way, and no client asks for anything or holds it.
fn is_quiet(roles: &Roles, state: &State) -> bool {
    let at_rest = state.nodes.iter().all(|node| {
        !node.legs.iter().any(|leg| leg.is_on_its_way()) && !node.deletes.contains(&true)
    });
    let idle = |it: usize| matches!(state.clients[it].phase, Phase::Idle | Phase::Through);
    at_rest && roles.all().all(idle)
}

fn is_empty(state: &State) -> bool {
    state.nodes.iter().all(|node| node.entries.iter().all(|it| *it == Entry::Nothing))
}
