//! What clients do.

use super::{
    action::{Action, Answer},
    rules::{Omission, Protocol},
    state::{Client, Core, Link, Phase, Round, Token},
};

/// The token of the attempt or hold of this client.
fn token(core: &Core, client: usize) -> Token {
    let attempt = core.clients[client].attempt;
    Token { client: client as u8, attempt }
}

fn links(core: &mut Core, token: Token) -> impl Iterator<Item = &mut Link> {
    core.nodes.iter_mut().map(move |node| node.link(token))
}

/// Whether the client is still about this token.
pub(super) fn is_current(core: &Core, token: Token) -> bool {
    let client = &core.clients[usize::from(token.client)];
    client.phase != Phase::Idle && client.attempt == token.attempt
}

impl Protocol {
    pub(super) fn step(&self, core: &mut Core, action: Action) {
        match action {
            Action::Tick { missed_by } => self.tick(core, missed_by),
            Action::Ask(client) => self.ask(core, client),
            Action::GiveUp(client) | Action::Release(client) => self.end(core, client),
            Action::Extend(client, ttl) => self.extend(core, client, ttl),
            Action::HandOver(client) => self.hand_over(&mut core.clients[client]),
            Action::HandOverToNobody(client) => {
                let token = token(core, client);
                links(core, token).for_each(|link| link.asked = false);
                self.end(core, client);
            }
            // The command is the same, and the client goes on all the same.
            Action::TakeExtensionForFailed(client) | Action::ReleaseAfterHandOver(client) => {
                let token = token(core, client);
                links(core, token).for_each(|link| link.delete = true);
            }
            Action::Stop(client) => {
                let token = token(core, client);
                links(core, token).for_each(|link| {
                    link.drop_answers();
                    (link.asked, link.unsent) = (false, false);
                });
                core.clients[client] = Client::default();
                core.stops -= 1;
            }
            Action::Send { node, token } => {
                let link = core.nodes[node].link(token);
                (link.unsent, link.grant) = (false, true);
            }
            Action::Request { node, token, request } => self.arrive(core, node, token, request),
            Action::Answer { node, token, answer } => self.answered(core, node, token, answer),
            Action::Restart(node) => self.restart(core, node),
            Action::Jump(node) => {
                core.jumps -= 1;
                core.nodes[node].age();
            }
            Action::Lose(node) => {
                core.losses -= 1;
                core.nodes[node].key = None;
            }
        }
    }

    /// Whether the client relies on the lock.
    pub(super) fn relies(&self, client: &Client) -> bool {
        client.phase == Phase::Holding && (client.left > 0 || self.omits(Omission::ClockAtEachRead))
    }

    /// How many holds in the client's process rely on the lock.
    pub(super) fn relying(&self, client: &Client) -> usize {
        let before = client.handed_over && self.omits(Omission::HandOverEndsHold);
        if self.relies(client) { 1 + usize::from(before) } else { 0 }
    }

    /// Whether a waiter in the process waits for the lease, and the lease can be relied on: its
    /// last renewal was confirmed, or it had none.
    pub(super) fn may_hand_over(&self, client: &Client) -> bool {
        let renewals = &client.rounds[..usize::from(client.begun)];
        let confirmed = renewals.last().is_none_or(|renewal| renewal.confirmed);
        client.waiting > 0
            && client.left > 0
            && (confirmed || self.omits(Omission::HandOverConfirmed))
    }

    /// The lease stays as it is: the previous hold has ended, and the next hold reads the rest.
    fn hand_over(&self, client: &mut Client) {
        client.waiting -= 1;
        client.handed_over = true;
        if self.omits(Omission::HandOverConfirmed) {
            let renewals = &client.rounds[..usize::from(client.begun)];
            let last = renewals.last().map_or(0, |renewal| renewal.left);
            client.left = client.left.max(last);
        }
        if self.omits(Omission::HandOverKeepsDeadline) {
            client.left = self.validity(self.bounds.ttl);
        }
    }

    fn tick(&self, core: &mut Core, missed_by: Option<usize>) {
        core.nodes.iter_mut().for_each(|node| {
            node.age();
            node.sits_out = node.sits_out.saturating_sub(1);
        });
        for client in 0..core.clients.len() {
            if missed_by == Some(client) {
                core.clients[client].lag -= 1;
            } else {
                self.age(core, client);
            }
        }
    }

    fn age(&self, core: &mut Core, index: usize) {
        let client = &mut core.clients[index];
        let not_started = client.phase == Phase::Asking && self.omits(Omission::ClockBeforeSend);
        if client.phase == Phase::Idle || not_started {
            return;
        }
        client.left = client.left.saturating_sub(1);
        for round in &mut client.rounds {
            round.left = round.left.saturating_sub(1);
        }
        if client.left > 0 {
            return;
        }
        // An ended hold is released at once: its deletes may take any time all the same.
        let waits = match client.phase {
            Phase::Idle => true,
            Phase::Asking => self.omits(Omission::ValidityAtGrant),
            Phase::Holding => {
                let late = client.rounds.iter().any(|round| round.left > 0 && !round.confirmed);
                self.omits(Omission::ClockAtEachRead)
                    || (late && self.omits(Omission::ExtendInTime))
            }
        };
        if !waits {
            self.end(core, index);
        }
    }

    fn ask(&self, core: &mut Core, index: usize) {
        let client = &mut core.clients[index];
        client.phase = Phase::Asking;
        client.tries -= 1;
        client.left = self.validity(self.bounds.ttl);
        let token = token(core, index);
        for node in core.nodes.iter_mut().filter(|node| node.sits_out == 0) {
            let link = node.link(token);
            (link.grant, link.asked) = (!self.bounds.outbox, true);
            link.unsent = self.bounds.outbox;
        }
    }

    /// An attempt or a hold is over, for whatever reason: every node to which a SET was sent gets
    /// a delete.
    fn end(&self, core: &mut Core, index: usize) {
        let held = core.clients[index].phase == Phase::Holding;
        let compare = if held { Omission::CompareOnRelease } else { Omission::CompareOnCleanUp };
        let blind = self.omits(compare);
        let clean = held || !self.omits(Omission::CleanUp);
        let keep_answers = self.omits(Omission::NothingAfterRelease);
        let current = token(core, index);
        for link in links(core, current) {
            // Nothing of it ever got there.
            let withdrawn = link.unsent && !self.omits(Omission::WithdrawUnsent);
            if withdrawn {
                link.unsent = false;
            }
            if link.asked && clean && !withdrawn {
                link.blind_delete |= blind;
                link.delete |= !blind;
            }
            link.asked = false;
            let missing = link.legs.map(|leg| leg.missing && keep_answers);
            link.drop_answers();
            link.legs.iter_mut().zip(missing).for_each(|(leg, missing)| leg.missing = missing);
        }
        let client = &mut core.clients[index];
        client.end();
        client.attempt = match self.omits(Omission::FreshToken) || client.tries == 0 {
            true => 0,
            false => client.attempt + 1,
        };
    }

    fn extend(&self, core: &mut Core, index: usize, ttl: u8) {
        let current = token(core, index);
        let client = &mut core.clients[index];
        let begun = usize::from(client.begun);
        client.begun += 1;
        client.rounds[begun] = Round { left: self.validity(ttl), confirmed: false };
        let overtakes = self.omits(Omission::RenewalBehindSet);
        let asked = links(core, current).filter(|link| !link.unsent || overtakes);
        asked.for_each(|link| link.legs[begun].request = ttl);
    }

    fn answered(&self, core: &mut Core, node: usize, token: Token, answer: Answer) {
        let index = usize::from(token.client);
        let link = core.nodes[node].link(token);
        match answer {
            Answer::Granted => {
                (link.granted, link.counted) = (false, true);
                self.count_grants(core, index, token);
            }
            Answer::Renewed(round) => {
                (link.legs[round].renewed, link.legs[round].counted) = (false, true);
                self.count_extensions(core, index, token, round);
            }
            Answer::Missing(round) => {
                link.legs[round].missing = false;
                if !is_current(core, token) {
                    // Behind the release.
                    core.nodes[node].link(token).heal = self.bounds.ttl;
                    return;
                }
                let link = core.nodes[node].link(token);
                link.legs[round].gap = true;
                if self.omits(Omission::HealAfterQuorum) {
                    link.legs[round].counted = true;
                    self.count_extensions(core, index, token, round);
                }
                self.heal(core, index, token, round);
            }
        }
    }

    fn count_grants(&self, core: &mut Core, index: usize, token: Token) {
        let grants = links(core, token).filter(|link| link.counted).count();
        let client = &mut core.clients[index];
        if client.phase != Phase::Asking || grants < self.quorum() {
            return;
        }
        client.phase = Phase::Holding;
        if self.omits(Omission::ValidityAtGrant) {
            client.left = client.left.max(1);
        }
        links(core, token).for_each(|link| (link.granted, link.counted) = (false, false));
        // A client that was given the lock before and still acts on it has been interrupted.
        let others = core.clients.iter_mut().enumerate().filter(|(other, _)| *other != index);
        for (_, other) in others.filter(|(_, other)| other.phase == Phase::Holding) {
            other.broken = true;
        }
    }

    fn count_extensions(&self, core: &mut Core, index: usize, token: Token, round: usize) {
        let votes = links(core, token).filter(|link| link.legs[round].counted).count();
        let enough = if self.omits(Omission::ExtendOverAll) { 1 } else { self.quorum() };
        let client = &mut core.clients[index];
        let in_time = client.left > 0 || self.omits(Omission::ExtendInTime);
        if votes < enough || client.rounds[round].confirmed || !in_time {
            return;
        }
        client.rounds[round].confirmed = true;
        client.left = client.left.max(client.rounds[round].left);
        links(core, token).for_each(|link| {
            (link.legs[round].renewed, link.legs[round].counted) = (false, false);
        });
        self.heal(core, index, token, round);
    }

    /// Sets the key again where a confirmed round has found it missing, for no longer than there.
    fn heal(&self, core: &mut Core, index: usize, token: Token, round: usize) {
        let Round { left, confirmed } = core.clients[index].rounds[round];
        let ttl = left + self.drift();
        if (!confirmed && !self.omits(Omission::HealAfterQuorum)) || left == 0 {
            return;
        }
        for link in links(core, token).filter(|link| link.legs[round].gap) {
            link.legs[round].gap = false;
            link.heal = link.heal.max(ttl);
            link.asked |= !self.omits(Omission::CleanUpOfHeal);
        }
    }
}
