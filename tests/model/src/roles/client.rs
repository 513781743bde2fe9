//! What clients do.

use super::{
    action::Action,
    rules::{Omission, Role, Roles},
    state::{Client, Leg, NODES, Phase, State},
};

/// The smallest number of nodes that is a quorum.
const QUORUM: usize = NODES / 2 + 1;

impl Roles {
    /// Whether a client relies on the lock.
    pub(super) fn relies(&self, client: &Client) -> bool {
        let valid = !client.over || self.omits(Omission::ValidityAtEachRead);
        let holds = match client.phase {
            Phase::Holding => true,
            Phase::Handed if self.omits(Omission::GiverEnds) => true,
            Phase::Handed => self.omits(Omission::GiverStopsRenewing) && client.renewed,
            _ => false,
        };
        holds && valid
    }

    /// What a client may do next.
    pub(super) fn choices(&self, state: &State, client: usize, actions: &mut Vec<Action>) {
        let it = &state.clients[client];
        if it.is_counting() {
            actions.push(Action::End(client));
        }
        match it.phase {
            Phase::Idle if self.may_ask(state, client) => actions.push(Action::Ask(client)),
            Phase::Asking => {
                if self.may_take(state, client) {
                    actions.push(Action::Take(client));
                }
                actions.push(Action::LetGo(client));
            }
            Phase::Holding => {
                self.renewing(state, client, actions);
                if self.role(client) == Role::Giver && !it.over {
                    actions.push(Action::HandOver(client));
                }
                actions.push(Action::LetGo(client));
            }
            Phase::Handed if self.omits(Omission::GiverStopsRenewing) => {
                self.renewing(state, client, actions);
            }
            Phase::Idle | Phase::Handed | Phase::Through => {}
        }
    }

    fn renewing(&self, state: &State, client: usize, actions: &mut Vec<Action>) {
        let it = &state.clients[client];
        let late = self.omits(Omission::ExtendInTime);
        if it.renewals > 0 && !it.over {
            actions.push(Action::Renew(client));
        }
        if state.count(client, Leg::Renewed) >= self.quorum() && !it.renewed && (!it.over || late) {
            actions.push(Action::Rely(client));
        }
    }

    fn quorum(&self) -> usize {
        if self.omits(Omission::Majority) { 1 } else { QUORUM }
    }

    fn may_ask(&self, state: &State, client: usize) -> bool {
        // There is a lease only once the giver has handed it over.
        self.role(client) != Role::Adopter || self.is_lease_valid(state)
    }

    fn may_take(&self, state: &State, client: usize) -> bool {
        let in_time = !state.clients[client].over || self.omits(Omission::ValidityAtGrant);
        let adopts = self.role(client) == Role::Adopter;
        state.count(client, Leg::Granted) >= self.quorum()
            && in_time
            && (!adopts || self.is_lease_valid(state) || self.omits(Omission::AdoptInTime))
    }

    fn is_lease_valid(&self, state: &State) -> bool {
        let giver = self.giver().map(|giver| &state.clients[giver]);
        giver.is_some_and(|giver| giver.phase == Phase::Handed && !giver.over)
    }

    pub(super) fn take(&self, state: &mut State, client: usize) {
        let number = self.giver().map(|giver| self.number(state, client, giver));
        let it = &mut state.clients[client];
        it.phase = Phase::Holding;
        it.served = true;
        // A late quorum that counts is a validity that begins anew.
        it.over = false;
        it.number = number.unwrap_or_default();
    }

    /// The number of a new hold. The counters of the nodes are one here: their model is `fence`.
    fn number(&self, state: &mut State, client: usize, giver: usize) -> u8 {
        if self.role(client) == Role::Adopter {
            let number = state.clients[giver].number;
            state.stale |= number < state.number;
            return number + u8::from(self.omits(Omission::NumberStays));
        }
        state.number += 1;
        state.number
    }

    pub(super) fn ask(state: &mut State, client: usize) {
        state.clients[client].phase = Phase::Asking;
        state.nodes.iter_mut().for_each(|node| node.legs[client] = Leg::Asked);
    }

    pub(super) fn renew(state: &mut State, client: usize) {
        state.clients[client].renewals -= 1;
        for node in &mut state.nodes {
            // A request that is on its way will be granted too late for the renewal.
            if node.legs[client] != Leg::Asked {
                node.legs[client] = Leg::Renewing;
            }
        }
    }

    pub(super) fn rely(state: &mut State, client: usize) {
        state.clients[client].renewed = true;
        state.clients[client].over = false;
    }

    /// The client hands its lock over, with the nodes that have not answered it.
    pub(super) fn hand_over(state: &mut State, client: usize) {
        state.clients[client].phase = Phase::Handed;
        state.nodes.iter_mut().for_each(|node| node.unconfirmed = node.legs[client] == Leg::Asked);
    }

    /// The client relies on nothing any more, and deletes what it has.
    pub(super) fn let_go(state: &mut State, client: usize) {
        state.clients[client].phase = Phase::Through;
        state.nodes.iter_mut().for_each(|node| node.deletes[client] = true);
    }
}
