//! What can happen next. Nodes and clients are meant by their place in the state.

use stateright::{Model, Property};

use super::{
    properties,
    rules::{Fence, Omission, QUORUM},
    state::{CLIENTS, Client, Core, Holder, Leg, NODES, Node, Phase, RESOURCES, State, places},
    symmetry,
};

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// A client asks all nodes for the lock, and proposes this number as the least.
    Ask { client: usize, floor: u8 },
    /// A holder asks them for a new range.
    AskAgain { client: usize, floor: u8 },
    /// A client reads the answers of these nodes, one bit each, and decides.
    Decide { client: usize, nodes: u8 },
    /// It reads the confirmations.
    Take(usize),
    /// It hands the next number to the next in its process.
    HandOn(usize),
    /// It does so from the range before; nothing without [`Omission::OldRangeDies`].
    HandOnOld(usize),
    /// It takes its last ask for failed.
    GiveUp(usize),
    /// It releases, or its validity has run out.
    LetGo(usize),
    /// Its validity has run out and it goes on; nothing without [`Omission::HandOverInValidity`].
    GoOnLate(usize),
    /// It sets its key again on a node, where that is on its way from now on.
    SendHeal { client: usize, node: usize },
    /// A node runs the heal.
    Heal { client: usize, node: usize },
    /// A node runs the GRANT of an ask.
    Grant { client: usize, ask: usize, node: usize },
    /// A node runs the CONFIRM of an ask.
    Confirm { client: usize, ask: usize, node: usize },
    /// A key of a node goes: it expires or is deleted.
    Expire { node: usize, resource: usize },
    /// A counter expires.
    Forget { node: usize, resource: usize },
    /// A node restarts without its data.
    Restart(usize),
    /// The longest ttl passes; this client's renewal was confirmed meanwhile.
    Tick { renewed: Option<usize> },
}

impl Model for Fence {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut core =
            Core { heals: self.bounds.heals, restarts: self.bounds.restarts, ..Core::default() };
        for (client, asks) in core.clients.iter_mut().zip(self.bounds.asks) {
            client.may_begin = *asks;
        }
        if self.bounds.held {
            let holder = &mut core.clients[0];
            (holder.begun, holder.holds, holder.asks[0].phase) = (1, Some(0), Phase::Over);
            let last = self.last(1);
            for resource in places(self.wants(0)) {
                for (node, counter) in core.nodes.iter_mut().zip([last, last, 0]) {
                    node.keys[resource] = Some(Holder { client: 0, ask: 0 });
                    node.counters[resource] = counter;
                }
                core.last[resource] = last;
            }
        }
        vec![symmetry::representative(&State::new(core), self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let core = &state.core;
        for (index, client) in core.clients.iter().enumerate() {
            self.choices_of(core, index, client, actions);
        }
        for (index, node) in core.nodes.iter().enumerate() {
            self.arrivals(core, index, node, actions);
        }
        if core.now < self.bounds.ticks {
            actions.push(Action::Tick { renewed: None });
            let holders = (0..CLIENTS).filter(|client| {
                let held = core.clients[*client].holds;
                let wants = self.wants(*client);
                let has = |node: &&Node, ask| node.has(*client, ask, wants);
                let keys = |ask| core.nodes.iter().filter(|node| has(node, ask)).count();
                held.is_some_and(|ask| keys(ask) >= QUORUM)
            });
            actions.extend(holders.map(|client| Action::Tick { renewed: Some(client) }));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = *last;
        self.step(&mut next.core, action);
        self.forget_what_is_without_effect(&mut next.core);
        Some(symmetry::representative(&next, self))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::properties(self)
    }
}

impl Fence {
    fn choices_of(&self, core: &Core, index: usize, client: &Client, actions: &mut Vec<Action>) {
        let may_begin = !client.busy && client.begun < client.may_begin;
        match client.holds {
            None if may_begin && (client.begun == 0 || !self.bounds.one_lock) => {
                let floors = self.floors(core.now).into_iter();
                actions.extend(floors.map(|floor| Action::Ask { client: index, floor }));
            }
            None => {}
            Some(_) => {
                if may_begin && self.bounds.renews && !client.late {
                    let floors = self.floors(core.now).into_iter();
                    actions.extend(floors.map(|floor| Action::AskAgain { client: index, floor }));
                }
                actions.push(Action::LetGo(index));
                if self.omits(Omission::HandOverInValidity) && !client.late {
                    actions.push(Action::GoOnLate(index));
                }
                if client.rest.next > 0 && !self.bounds.any_expiry {
                    actions.push(Action::HandOn(index));
                }
                if client.old.next > 0 {
                    actions.push(Action::HandOnOld(index));
                }
                // Never between a grant and its confirmation: rule 8.
                if core.heals > 0 && !client.busy {
                    let nodes = (0..NODES).filter(|node| core.nodes[*node].heals[index].is_none());
                    actions.extend(nodes.map(|node| Action::SendHeal { client: index, node }));
                }
            }
        }
        if client.busy {
            actions.push(Action::GiveUp(index));
            self.readings(core, index, actions);
        }
    }

    /// What a client that has asked may make of the answers.
    fn readings(&self, core: &Core, index: usize, actions: &mut Vec<Action>) {
        let ask = usize::from(core.clients[index].begun) - 1;
        let legs = core.nodes.map(|node| node.legs[index][ask]);
        let count = |wanted: fn(&Leg) -> bool| legs.iter().filter(|leg| wanted(leg)).count();
        match core.clients[index].asks[ask].phase {
            Phase::Granting => {
                let granted = |node: usize| matches!(legs[node], Leg::Granted(_));
                let some = (0..1_u8 << NODES).filter(|nodes| nodes.count_ones() as usize >= QUORUM);
                let all_granted = some.filter(|nodes| places(*nodes).all(granted));
                actions.extend(all_granted.map(|nodes| Action::Decide { client: index, nodes }));
            }
            Phase::Confirming if count(|leg| matches!(leg, Leg::Counts(_))) >= QUORUM => {
                actions.push(Action::Take(index));
            }
            _ => {}
        }
    }

    fn arrivals(&self, core: &Core, index: usize, node: &Node, actions: &mut Vec<Action>) {
        for (client, legs) in node.legs.iter().enumerate() {
            for (ask, leg) in legs.iter().enumerate() {
                match leg {
                    Leg::Granting => actions.push(Action::Grant { client, ask, node: index }),
                    Leg::Confirming(_) => {
                        actions.push(Action::Confirm { client, ask, node: index });
                    }
                    _ => {}
                }
            }
            if node.heals[client].is_some() {
                actions.push(Action::Heal { client, node: index });
            }
        }
        for resource in 0..RESOURCES {
            if let Some(key) = node.keys[resource] {
                let relied_on = core.clients[usize::from(key.client)].relies_on(key.ask);
                if self.bounds.any_expiry || !relied_on {
                    actions.push(Action::Expire { node: index, resource });
                }
            } else if self.bounds.forgetful && node.stale[resource] && node.counters[resource] > 0 {
                actions.push(Action::Forget { node: index, resource });
            }
        }
        if core.restarts > 0 {
            actions.push(Action::Restart(index));
        }
    }
}

impl Client {
    /// Whether its validity, or that of the attempt in flight, has not run out for this key.
    fn relies_on(&self, ask: u8) -> bool {
        let attempt = self.busy.then(|| self.asks[usize::from(self.begun) - 1].key);
        !self.late && (self.holds == Some(ask) || attempt == Some(ask))
    }
}
