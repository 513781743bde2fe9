//! What can happen next. Nodes and clients are meant by their place in the state.

use stateright::{Model, Property};

use super::{
    properties,
    rules::{Omission, Protocol},
    state::{ATTEMPTS, CLIENTS, Client, Core, Leg, Phase, State, Token},
    symmetry,
};

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// All clocks move on, but for that of this client.
    Tick { missed_by: Option<usize> },
    /// A client asks all nodes.
    Ask(usize),
    /// It takes the attempt for failed.
    GiveUp(usize),
    /// It releases the lock.
    Release(usize),
    /// It extends by this ttl.
    Extend(usize, u8),
    /// It hands its lease to the next waiter in its process.
    HandOver(usize),
    /// It does so, and the next has gone; without [`Omission::HandOverToAWaiter`] it releases.
    HandOverToNobody(usize),
    /// The hold that has handed over releases; nothing without [`Omission::HandOverEndsRelease`].
    ReleaseAfterHandOver(usize),
    /// It takes an extension for failed; without [`Omission::NeverDelete`] that means nothing.
    TakeExtensionForFailed(usize),
    /// It does nothing any more.
    Stop(usize),
    /// A SET leaves the outbox.
    Send { node: usize, token: Token },
    /// A request reaches a node.
    Request { node: usize, token: Token, request: Request },
    /// An answer reaches a client.
    Answer { node: usize, token: Token, answer: Answer },
    /// A node restarts without its keys.
    Restart(usize),
    /// A node's clock is set ahead.
    Jump(usize),
    /// A node loses its keys and goes on.
    Lose(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(super) enum Request {
    // In the order in which a client sends them.
    Set,
    Extend(usize),
    Heal,
    Delete,
    BlindDelete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Granted,
    Renewed(usize),
    Missing(usize),
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut core = Core {
            restarts: self.bounds.restarts,
            stops: self.bounds.stops,
            jumps: self.bounds.jumps,
            losses: self.bounds.losses,
            ..Core::default()
        };
        for (client, tries) in core.clients.iter_mut().zip(self.bounds.attempts) {
            *client = Client {
                tries: *tries,
                lag: self.bounds.lag,
                waiting: self.bounds.waiters,
                ..Client::default()
            };
        }
        vec![symmetry::representative(&State::new(core), self.bounds.attempts.len())]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let core = &state.core;
        for (index, client) in core.clients.iter().enumerate() {
            self.choices_of(core, index, client, actions);
        }
        for (index, node) in core.nodes.iter().enumerate() {
            for token in tokens() {
                if node.links[usize::from(token.client)][usize::from(token.attempt)].unsent {
                    actions.push(Action::Send { node: index, token });
                }
                self.arrivals(core, index, token, actions);
            }
            if core.restarts > 0 {
                actions.push(Action::Restart(index));
            }
            if node.key.is_some() && core.jumps > 0 {
                actions.push(Action::Jump(index));
            }
            if node.key.is_some() && core.losses > 0 {
                actions.push(Action::Lose(index));
            }
        }
        if time_matters(core) {
            actions.push(Action::Tick { missed_by: None });
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = *last;
        self.step(&mut next.core, action);
        self.forget_what_is_without_effect(&mut next.core);
        Some(symmetry::representative(&next, self.bounds.attempts.len()))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::properties(&self.bounds)
    }
}

impl Protocol {
    fn choices_of(&self, core: &Core, index: usize, client: &Client, actions: &mut Vec<Action>) {
        match client.phase {
            Phase::Idle if client.tries > 0 => actions.push(Action::Ask(index)),
            Phase::Idle => {}
            Phase::Asking => actions.push(Action::GiveUp(index)),
            Phase::Holding => {
                actions.push(Action::Release(index));
                if client.left > 0 && client.begun < self.bounds.extensions {
                    let short = Some(self.bounds.short).filter(|short| *short > 0);
                    let ttls = short.into_iter().chain([self.bounds.ttl]);
                    actions.extend(ttls.map(|ttl| Action::Extend(index, ttl)));
                }
                if self.may_hand_over(client) {
                    actions.push(Action::HandOver(index));
                    if self.omits(Omission::HandOverToAWaiter) {
                        actions.push(Action::HandOverToNobody(index));
                    }
                }
                if self.omits(Omission::HandOverEndsRelease) && client.handed_over {
                    actions.push(Action::ReleaseAfterHandOver(index));
                }
                if self.omits(Omission::NeverDelete) && client.begun > 0 {
                    actions.push(Action::TakeExtensionForFailed(index));
                }
            }
        }
        let runs = client.phase != Phase::Idle;
        if runs && core.stops > 0 {
            actions.push(Action::Stop(index));
        }
        if runs && client.lag > 0 {
            actions.push(Action::Tick { missed_by: Some(index) });
        }
    }

    fn arrivals(&self, core: &Core, index: usize, token: Token, actions: &mut Vec<Action>) {
        let mut node = core.nodes[index];
        let link = *node.link(token);
        if link.is_requesting() {
            let mut requests = Vec::with_capacity(4);
            requests.extend(link.grant.then_some(Request::Set));
            let extends = link.legs.iter().enumerate().filter(|(_, leg)| leg.request > 0);
            requests.extend(extends.map(|(round, _)| Request::Extend(round)));
            requests.extend((link.heal > 0).then_some(Request::Heal));
            requests.extend(link.delete.then_some(Request::Delete));
            requests.extend(link.blind_delete.then_some(Request::BlindDelete));
            for (place, request) in requests.into_iter().enumerate() {
                if self.may_arrive(core, index, token, request, place == 0) {
                    actions.push(Action::Request { node: index, token, request });
                }
            }
        }
        let answers = link.granted.then_some(Answer::Granted).into_iter();
        let legs = link.legs.iter().enumerate();
        let answers = answers.chain(legs.flat_map(|(round, Leg { renewed, missing, .. })| {
            let renewed = renewed.then_some(Answer::Renewed(round));
            renewed.into_iter().chain(missing.then_some(Answer::Missing(round)))
        }));
        actions.extend(answers.map(|answer| Action::Answer { node: index, token, answer }));
    }

    /// Whether nothing that was sent before it has to arrive first.
    fn may_arrive(
        &self,
        core: &Core,
        index: usize,
        token: Token,
        request: Request,
        first: bool,
    ) -> bool {
        if !self.bounds.orderly {
            return true;
        }
        let overtakes = self.omits(Omission::SameConnection) && request >= Request::Delete;
        let links = &core.nodes[index].links[usize::from(token.client)];
        let earlier = &links[..usize::from(token.attempt)];
        // Renewals and deletes leave the outbox before what other claims have put there earlier.
        let behind = !self.bounds.outbox && earlier.iter().any(|link| link.is_requesting());
        overtakes || (first && !behind)
    }
}

/// Those that this model has room for.
pub(super) fn tokens() -> impl Iterator<Item = Token> {
    (0..CLIENTS as u8)
        .flat_map(|client| (0..ATTEMPTS as u8).map(move |attempt| Token { client, attempt }))
}

/// Whether there is anything that runs out.
fn time_matters(core: &Core) -> bool {
    core.nodes.iter().any(|node| node.key.is_some() || node.sits_out > 0)
        || core.clients.iter().any(|client| client.left > 0)
}
