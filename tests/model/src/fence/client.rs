//! What clients do.

use super::{
    action::Action,
    rules::{Fence, Omission, QUORUM},
    state::{Ask, Client, Core, Leg, Phase, RESOURCES, Rest, places},
};

impl Fence {
    pub(super) fn step(&self, core: &mut Core, action: Action) {
        match action {
            Action::Ask { client, floor } => self.ask(core, client, floor),
            Action::AskAgain { client, floor } => self.ask(core, client, floor),
            Action::Decide { client, nodes } => self.decide(core, client, nodes),
            Action::Take(client) => self.give(core, client),
            Action::HandOn(client) => {
                let number = take_next(&mut core.clients[client].rest);
                self.hand_on(core, client, number);
            }
            Action::HandOnOld(client) => {
                let number = take_next(&mut core.clients[client].old);
                self.hand_on(core, client, number);
            }
            Action::GiveUp(client) => give_up(core, client),
            Action::LetGo(client) => let_go(core, client),
            Action::GoOnLate(client) => {
                if core.clients[client].busy {
                    give_up(core, client);
                }
                core.clients[client].late = true;
            }
            Action::SendHeal { client, node } => {
                core.heals -= 1;
                core.nodes[node].heals[client] = core.clients[client].holds;
            }
            Action::Heal { client, node } => {
                core.nodes[node].heal(client, self.wants(client));
            }
            Action::Grant { client, ask, node } => self.grant(core, client, ask, node),
            Action::Confirm { client, ask, node } => self.confirm(core, client, ask, node),
            Action::Expire { node, resource } => core.nodes[node].keys[resource] = None,
            Action::Forget { node, resource } => core.nodes[node].counters[resource] = 0,
            Action::Restart(node) => self.restart(core, node),
            Action::Tick { renewed } => {
                core.now += 1;
                for client in (0..core.clients.len()).filter(|client| renewed != Some(*client)) {
                    let_go(core, client);
                }
                // The request of a renewed holder has failed all the same: no client waits so long.
                if let Some(client) = renewed.filter(|client| core.clients[*client].busy) {
                    give_up(core, client);
                }
                core.nodes.iter_mut().for_each(|node| {
                    node.sits_out = false;
                    node.stale = [self.bounds.forgetful; RESOURCES];
                });
            }
        }
    }

    /// GRANT goes to all nodes at once, to each of them once.
    fn ask(&self, core: &mut Core, index: usize, floor: u8) {
        let seen = core.last;
        let client = &mut core.clients[index];
        let ask = client.begun;
        let renews = client.holds.is_some();
        let key = client.holds.unwrap_or(ask);
        client.asks[usize::from(ask)] =
            Ask { phase: Phase::Granting, renews, key, floor, seen, first: 0 };
        (client.busy, client.begun) = (true, ask + 1);
        // A node that sits out is asked for no new lock: rule 16.
        for node in core.nodes.iter_mut().filter(|node| renews || !node.sits_out) {
            node.legs[index][usize::from(ask)] = Leg::Granting;
        }
    }

    /// The largest number of these answers is the first of the range. It is final when a quorum
    /// has returned it, and confirmed on all of these nodes otherwise.
    fn decide(&self, core: &mut Core, index: usize, nodes: u8) {
        let place = usize::from(core.clients[index].begun) - 1;
        let number = |leg: Leg| match leg {
            Leg::Granted(number) => number,
            _ => 0,
        };
        let numbers = core.nodes.map(|node| number(node.legs[index][place]));
        let first = places(nodes).map(|node| numbers[node]).max().unwrap_or(0);
        let same = places(nodes).filter(|node| numbers[*node] == first).count();
        let at_once = same >= QUORUM || self.omits(Omission::Confirm);
        for (node, number) in numbers.into_iter().enumerate() {
            let read = nodes & (1 << node) != 0;
            let leg = &mut core.nodes[node].legs[index][place];
            if *leg == Leg::Granting {
                continue;
            }
            *leg = match read {
                true if !at_once => Leg::Confirming(number),
                true if number == first || self.omits(Omission::Confirm) => Leg::Counts(number),
                _ => Leg::Nothing,
            };
        }
        let ask = &mut core.clients[index].asks[place];
        (ask.first, ask.phase) = (first, Phase::Confirming);
        if at_once {
            self.give(core, index);
        }
    }

    /// The range is the client's, and its first number goes to the hold that has asked.
    fn give(&self, core: &mut Core, index: usize) {
        let place = usize::from(core.clients[index].begun) - 1;
        self.judge(core, index, place);
        let client = &mut core.clients[index];
        let ask = &mut client.asks[place];
        ask.phase = Phase::Given;
        let (first, last) = (ask.first, self.last(ask.first));
        client.busy = false;
        client.holds = Some(ask.key);
        for resource in places(self.wants(index)) {
            core.last[resource] = core.last[resource].max(last);
        }
        if self.bounds.any_expiry {
            return;
        }
        if self.omits(Omission::OldRangeDies) {
            client.old = client.rest;
        }
        let next = if last > first { first + 1 } else { 0 };
        client.rest = if next > 0 { Rest { next, last } } else { Rest::default() };
        for resource in places(self.wants(index)) {
            core.top[resource] = core.top[resource].max(first);
        }
    }

    /// A number that is handed on is larger than all that were handed out before.
    fn hand_on(&self, core: &mut Core, index: usize, number: u8) {
        for resource in places(self.wants(index)) {
            core.broken.handed |= number <= core.top[resource];
            core.top[resource] = core.top[resource].max(number);
        }
    }

    /// Properties of the range that is about to be given.
    fn judge(&self, core: &mut Core, index: usize, place: usize) {
        let this = core.clients[index].asks[place];
        core.broken.growing |= places(self.wants(index)).any(|it| this.first <= this.seen[it]);
        for (client, asks) in core.clients.map(|client| client.asks).into_iter().enumerate() {
            for (ask, other) in asks.into_iter().enumerate() {
                if other.phase != Phase::Given || !self.share(index, client) {
                    continue;
                }
                let (one, two) = (this.first, other.first);
                core.broken.disjoint |= one <= self.last(two) && two <= self.last(one);
                let turned = core.nodes.iter().any(|node| {
                    match (node.legs[index][place], node.legs[client][ask]) {
                        (Leg::Counts(here), Leg::Counts(there)) => (here < there) != (one < two),
                        _ => false,
                    }
                });
                core.broken.disjoint |= turned;
            }
        }
    }
}

fn take_next(rest: &mut Rest) -> u8 {
    let number = rest.next;
    *rest = match number < rest.last {
        true => Rest { next: number + 1, ..*rest },
        false => Rest::default(),
    };
    number
}

fn give_up(core: &mut Core, index: usize) {
    let client = &mut core.clients[index];
    client.busy = false;
    client.asks[usize::from(client.begun) - 1].phase = Phase::Over;
}

/// The hold ends, and so does what was asked for.
fn let_go(core: &mut Core, index: usize) {
    if core.clients[index].busy {
        give_up(core, index);
    }
    let Client { asks, begun, may_begin, .. } = core.clients[index];
    core.clients[index] = Client { asks, begun, may_begin, ..Client::default() };
}
