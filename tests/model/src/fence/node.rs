//! What nodes do.

use super::{
    rules::{Fence, Omission},
    state::{Ask, CLIENTS, Core, Holder, Leg, Node, Phase},
};

impl Node {
    /// Sets the key of a holder again where there is none.
    pub(super) fn heal(&mut self, client: usize) {
        let ask = self.heals[client].take();
        if let (None, Some(ask)) = (self.key, ask) {
            self.key = Some(Holder { client: client as u8, ask });
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
        let leg = &mut node.legs[client][place];
        *leg = Leg::Nothing;
        let granted = match renews {
            true => node.key == Some(Holder { client: client as u8, ask: key }),
            false => node.key.is_none(),
        };
        if !granted {
            return;
        }
        node.key = Some(Holder { client: client as u8, ask: key });
        let first = (node.counter + 1).max(floor);
        (node.counter, node.stale) = (self.last(first), false);
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
        let held = node.has(client, key) || self.omits(Omission::ConfirmCompares);
        let untouched = node.counter == self.last(number)
            || self.omits(Omission::ConfirmCompares)
            || self.omits(Omission::ConfirmChecksCounter);
        let confirmed = held && untouched;
        if confirmed {
            let whole = !self.omits(Omission::ConfirmWholeRange);
            let raised = if whole { self.last(first) } else { first };
            (node.counter, node.stale) = (node.counter.max(raised), false);
        }
        let waited_for = phase == Phase::Confirming;
        node.legs[client][place] =
            if confirmed && waited_for { Leg::Counts(number) } else { Leg::Nothing };
    }

    /// What was on its way goes with the connections; what was answered may still be read.
    pub(super) fn restart(&self, core: &mut Core, index: usize) {
        core.restarts -= 1;
        let node = &mut core.nodes[index];
        (node.key, node.counter, node.stale) = (None, 0, false);
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
        let may_heal = core.heals > 0 && core.clients[client].holds == Some(key);
        for node in &mut core.nodes {
            let may_own = may_heal || node.has(client, key) || node.may_get(client, key);
            let leg = &mut node.legs[client][place];
            let without_effect = match *leg {
                Leg::Granting => renews && !may_own,
                Leg::Granted(_) => phase != Phase::Granting,
                Leg::Confirming(number) => {
                    let refused = !may_own || node.counter != self.last(number);
                    let strict = !self.omits(Omission::ConfirmCompares)
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
        let asked = core.clients.iter().filter(|client| client.busy);
        let under_way = asked.map(|client| client.asks[usize::from(client.begun) - 1].seen).min();
        for client in 0..CLIENTS {
            for place in 0..usize::from(core.clients[client].begun) {
                let ask = &mut core.clients[client].asks[place];
                if ask.phase == Phase::Given && under_way.is_none_or(|seen| seen >= ask.first) {
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
                    *ask = Ask { phase: Phase::Over, seen: 0, ..kept };
                }
            }
        }
        let more = core.clients.iter().any(|client| client.begun < client.may_begin);
        if !more {
            core.last = 0;
        }
    }
}
