//! What nodes do.

use super::{
    rules::{Fence, Omission},
    state::{Ask, CLIENTS, Core, Holder, Leg, Node, Phase, RESOURCES, places},
};

impl Node {
    /// Sets the keys of a holder again where there are none, unless another client has one of them.
    pub(super) fn heal(&mut self, client: usize, wants: u8) {
        let Some(ask) = self.heals[client].take() else { return };
        let key = Holder { client: client as u8, ask };
        let is_foreign = |resource: usize| self.keys[resource].is_some_and(|it| it != key);
        if !places(wants).any(is_foreign) {
            places(wants).for_each(|resource| self.keys[resource] = Some(key));
        }
    }

    /// Whether this client's key may come back by what is on its way.
    fn may_get(&self, client: usize, ask: u8) -> bool {
        self.heals[client] == Some(ask) || self.legs[client][usize::from(ask)] == Leg::Granting
    }
}

impl Fence {
    /// For a new lock the key must be free, for a new range it must be the client's.
    pub(super) fn grant(&self, core: &mut Core, client: usize, place: usize, index: usize) {
        let Ask { phase, renews, key, floor, .. } = core.clients[client].asks[place];
        let node = &mut core.nodes[index];
        let wants = self.wants(client);
        let granted = match renews {
            true => node.has(client, key, wants),
            false => places(wants).all(|resource| node.keys[resource].is_none()),
        };
        let leg = &mut node.legs[client][place];
        *leg = Leg::Nothing;
        if !granted {
            return;
        }
        // Larger than all that any of the counters has given out.
        let counted = if self.omits(Omission::AllCounters) { 1 } else { RESOURCES };
        let numbers = places(wants).take(counted).map(|resource| node.counters[resource] + 1);
        let first = numbers.max().unwrap_or(0).max(floor);
        for resource in places(wants) {
            node.keys[resource] = Some(Holder { client: client as u8, ask: key });
            (node.counters[resource], node.stale[resource]) = (self.last(first), false);
        }
        *leg = match phase {
            Phase::Granting => Leg::Granted(first),
            Phase::Confirming if self.omits(Omission::LateGrantIgnored) => Leg::Counts(first),
            _ => Leg::Nothing,
        };
    }

    /// Raises the counter, where the key is still the client's and nothing was granted since.
    pub(super) fn confirm(&self, core: &mut Core, client: usize, place: usize, index: usize) {
        let Ask { phase, key, first, .. } = core.clients[client].asks[place];
        let node = &mut core.nodes[index];
        let Leg::Confirming(number) = node.legs[client][place] else { return };
        let wants = self.wants(client);
        let held = node.has(client, key, wants) || self.omits(Omission::ConfirmCompares);
        let checked = if self.omits(Omission::ConfirmChecksAll) { 1 } else { RESOURCES };
        let untouched = places(wants)
            .take(checked)
            .all(|resource| node.counters[resource] == self.last(number))
            || self.omits(Omission::ConfirmCompares)
            || self.omits(Omission::ConfirmChecksCounter);
        let confirmed = held && untouched;
        if confirmed {
            let whole = !self.omits(Omission::ConfirmWholeRange);
            let raised = if whole { self.last(first) } else { first };
            for resource in places(wants) {
                node.counters[resource] = node.counters[resource].max(raised);
                node.stale[resource] = false;
            }
        }
        let waited_for = phase == Phase::Confirming;
        node.legs[client][place] =
            if confirmed && waited_for { Leg::Counts(number) } else { Leg::Nothing };
    }

    /// What was on its way goes with the connections; what was answered may still be read.
    pub(super) fn restart(&self, core: &mut Core, index: usize) {
        core.restarts -= 1;
        let node = &mut core.nodes[index];
        (node.keys, node.counters) = ([None; RESOURCES], [0; RESOURCES]);
        node.stale = [false; RESOURCES];
        node.sits_out = !self.omits(Omission::Quarantine);
        node.heals = [None; CLIENTS];
        for leg in node.legs.as_flattened_mut() {
            if matches!(leg, Leg::Granting | Leg::Confirming(_)) {
                *leg = Leg::Nothing;
            }
        }
    }

    /// Drops requests that can change nothing any more and whose answers no client waits for. The
    /// behaviours stay the same, with fewer states.
    pub(super) fn forget_what_is_without_effect(&self, core: &mut Core) {
        for client in 0..CLIENTS {
            for place in 0..usize::from(core.clients[client].begun) {
                self.forget_legs(core, client, place);
            }
        }
        self.forget_ends(core);
    }

    fn forget_legs(&self, core: &mut Core, client: usize, place: usize) {
        let Ask { phase, renews, key, .. } = core.clients[client].asks[place];
        let wants = self.wants(client);
        let may_heal = core.heals > 0 && core.clients[client].holds == Some(key);
        for node in &mut core.nodes {
            let may_own = may_heal || node.has(client, key, wants) || node.may_get(client, key);
            let leg = &mut node.legs[client][place];
            let without_effect = match *leg {
                Leg::Granting => renews && !may_own,
                Leg::Granted(_) => phase != Phase::Granting,
                Leg::Confirming(number) => {
                    let mut all = places(wants);
                    let refused = !may_own || all.any(|it| node.counters[it] != self.last(number));
                    let strict = !self.omits(Omission::ConfirmCompares)
                        && !self.omits(Omission::ConfirmChecksAll)
                        && !self.omits(Omission::ConfirmChecksCounter);
                    refused && strict
                }
                Leg::Counts(_) => !matches!(phase, Phase::Confirming | Phase::Given),
                Leg::Nothing => true,
            };
            if without_effect {
                *leg = Leg::Nothing;
            }
        }
    }

    /// A range that was given need not be compared with a range that is asked for later: the later
    /// range must be larger than all that were given before.
    fn forget_ends(&self, core: &mut Core) {
        let clients = core.clients;
        // What each client had seen when it asked for what is under way.
        let seen = |client: usize| {
            let it = &clients[client];
            it.busy.then(|| it.asks[usize::from(it.begun) - 1].seen)
        };
        for client in 0..CLIENTS {
            for place in 0..usize::from(core.clients[client].begun) {
                let ask = &mut core.clients[client].asks[place];
                let is_before = |other: usize| {
                    let both = self.wants(client) & self.wants(other);
                    seen(other).is_none_or(|seen| {
                        both == 0 || places(both).any(|resource| seen[resource] >= ask.first)
                    })
                };
                if ask.phase == Phase::Given && (0..CLIENTS).all(is_before) {
                    ask.phase = Phase::Over;
                    core.nodes.iter_mut().for_each(|node| {
                        let leg = &mut node.legs[client][place];
                        if matches!(leg, Leg::Counts(_)) {
                            *leg = Leg::Nothing;
                        }
                    });
                }
                let ask = &mut core.clients[client].asks[place];
                let pending =
                    core.nodes.iter().any(|node| node.legs[client][place] != Leg::Nothing);
                if ask.phase == Phase::Over {
                    let kept = if pending { *ask } else { Ask::default() };
                    *ask = Ask { phase: Phase::Over, seen: [0; RESOURCES], ..kept };
                }
            }
        }
        let more = core.clients.iter().any(|client| client.begun < client.may_begin);
        if !more {
            core.last = [0; RESOURCES];
        }
    }
}
