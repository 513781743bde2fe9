//! What must hold in every state, and what has to happen in some, or the model says nothing.

use stateright::Property;

use super::{
    rules::{Omission, Sets},
    state::{Leg, Phase, RESOURCES, State},
};

/// No two clients rely on one resource.
pub(crate) const EXCLUSIVE: &str = "two hold one resource";
/// A node has all of a set or nothing of it, unless something was lost there.
pub(crate) const WHOLE: &str = "a node has part of a set";
/// When nothing is on its way and no client holds anything, no key is left.
pub(crate) const LEFT: &str = "a key of a set is left";
/// Some client that waits may go on.
pub(crate) const CIRCLE: &str = "clients wait in a circle";

pub(super) fn properties(sets: &Sets) -> Vec<Property<Sets>> {
    let bounds = &sets.bounds;
    let mut properties = vec![
        Property::always(EXCLUSIVE, exclusive),
        Property::always(LEFT, |sets, state: &State| !is_quiet(sets, state) || is_empty(state)),
        Property::always(CIRCLE, |sets, state: &State| !is_stuck(sets, state)),
        Property::sometimes("each client was served", |sets: &Sets, state: &State| {
            state.clients[..sets.clients()].iter().all(|client| client.served)
        }),
    ];
    // Without this rule a node breaks it at once. What comes of that is the question.
    if !sets.omits(Omission::AllOrNone) {
        properties.push(Property::always(WHOLE, whole));
    }
    if bounds.renewals > 0 {
        properties.push(Property::sometimes("a set was renewed", |_, state: &State| {
            state.clients.iter().any(|client| client.renewed)
        }));
    }
    if bounds.losses > 0 {
        properties
            .push(Property::sometimes("a key was lost", |_, state: &State| state.losses == 0));
    }
    if !bounds.queues {
        properties.push(Property::sometimes("a set was refused", |_, state: &State| {
            let legs = state.nodes.iter().flat_map(|node| node.legs.as_flattened());
            legs.into_iter().any(|leg| *leg == Leg::Refused)
        }));
    }
    properties
}

fn exclusive(sets: &Sets, state: &State) -> bool {
    let holders = |resource: usize| {
        let holds = |client: &usize| state.clients[*client].phase == Phase::Holding;
        (0..sets.clients()).filter(holds).filter(|it| sets.wants(*it, resource)).count()
    };
    (0..RESOURCES).all(|resource| holders(resource) <= 1)
}

fn whole(sets: &Sets, state: &State) -> bool {
    state.nodes.iter().filter(|node| !node.gone).all(|node| {
        node.keys.iter().flatten().all(|key| {
            let (client, attempt) = (usize::from(key.client), usize::from(key.attempt));
            let wanted = (0..RESOURCES).filter(|it| sets.wants(client, *it)).count();
            // What is left of a release is told apart.
            sets.of(node, client, attempt).len() == wanted || !state.is_relied_on(*key)
        })
    })
}

/// Whether nothing is on its way, and no client asks for anything or holds it.
fn is_quiet(sets: &Sets, state: &State) -> bool {
    let idle = state.clients[..sets.clients()].iter().all(|it| it.phase == Phase::Idle);
    let at_rest = state.nodes.iter().all(|node| {
        let on_its_way = node.legs.as_flattened().iter().any(|leg| leg.is_on_its_way());
        !on_its_way && !node.deletes.as_flattened().contains(&true)
    });
    idle && at_rest
}

fn is_empty(state: &State) -> bool {
    state.nodes.iter().all(|node| node.keys.iter().all(Option::is_none))
}

/// Whether clients wait, and none of them may go on although no client asks for anything or holds it.
fn is_stuck(sets: &Sets, state: &State) -> bool {
    let mut clients = 0..sets.clients();
    let idle = clients.clone().all(|it| state.clients[it].phase == Phase::Idle);
    let waits = clients.clone().any(|it| sets.may_begin(state, it));
    idle && waits && !clients.any(|it| sets.may_join(state, it) || sets.may_ask(state, it))
}
