//! What nodes do.

use super::{
    rules::{Omission, Sets},
    state::{Key, Leg, Node, RESOURCES, State},
};

impl Sets {
    /// Runs the request of an attempt, or its next part.
    pub(super) fn grant(&self, state: &mut State, node: usize, client: usize, attempt: usize) {
        let node = &mut state.nodes[node];
        let key = Key { client: client as u8, attempt: attempt as u8, renewed: false };
        let Leg::Asked { looked, refused } = node.legs[client][attempt] else { return };
        let wanted = |resource: &usize| self.wants(client, *resource);
        if self.omits(Omission::OneStep) {
            let mut rest = (usize::from(looked)..RESOURCES).filter(wanted);
            let Some(resource) = rest.next() else { return };
            let is_free = node.keys[resource].is_none();
            if is_free {
                node.keys[resource] = Some(key);
            }
            let refused = refused || !is_free;
            node.legs[client][attempt] = match (rest.next(), refused) {
                (Some(next), _) => Leg::Asked { looked: next as u8, refused },
                (None, true) => Leg::Refused,
                (None, false) => Leg::Granted,
            };
            return;
        }
        let free = |resource: &usize| node.keys[*resource].is_none();
        let all_free = (0..RESOURCES).filter(wanted).all(|resource| free(&resource));
        let some: Vec<usize> = (0..RESOURCES).filter(wanted).filter(free).collect();
        let granted = all_free || self.omits(Omission::AllOrNone) && !some.is_empty();
        if granted {
            some.into_iter().for_each(|resource| node.keys[resource] = Some(key));
        }
        node.legs[client][attempt] = if granted { Leg::Granted } else { Leg::Refused };
    }

    /// Renews a set, if all of it is there.
    pub(super) fn renew(&self, state: &mut State, node: usize, client: usize, attempt: usize) {
        let node = &mut state.nodes[node];
        let ours = self.of(node, client, attempt);
        let wanted = (0..RESOURCES).filter(|it| self.wants(client, *it)).count();
        let all = ours.len() == wanted || self.omits(Omission::RenewAll) && !ours.is_empty();
        if all {
            for resource in ours {
                node.keys[resource] = node.keys[resource].map(|key| Key { renewed: true, ..key });
            }
        }
        node.legs[client][attempt] = if all { Leg::Renewed } else { Leg::NotRenewed };
    }

    /// Deletes what is there of a set.
    pub(super) fn delete(&self, state: &mut State, node: usize, client: usize, attempt: usize) {
        let node = &mut state.nodes[node];
        let first = (0..RESOURCES).find(|it| self.wants(client, *it));
        for resource in self.of(node, client, attempt) {
            if !self.omits(Omission::ReleaseAll) || Some(resource) == first {
                node.keys[resource] = None;
            }
        }
        node.deletes[client][attempt] = false;
        node.legs[client][attempt] = Leg::Nothing;
    }

    /// The resources whose keys this attempt has on a node.
    pub(super) fn of(&self, node: &Node, client: usize, attempt: usize) -> Vec<usize> {
        let is_its =
            |key: &Key| (usize::from(key.client), usize::from(key.attempt)) == (client, attempt);
        (0..RESOURCES).filter(|it| node.keys[*it].as_ref().is_some_and(is_its)).collect()
    }
}
