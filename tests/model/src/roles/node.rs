//! What nodes do.

use super::{
    rules::{Omission, Role, Roles},
    state::{Awaited, Entry, Leg, Node, Phase, State},
};

impl Roles {
    /// Runs the request of a client.
    pub(super) fn grant(&self, state: &mut State, node: usize, client: usize) {
        let node = &mut state.nodes[node];
        let votes = node.votes() || self.omits(Omission::Quarantine);
        let granted = match self.role(client) {
            Role::Writer | Role::Giver => votes && self.is_free_for_writer(node),
            Role::Reader => votes && self.is_free_for_reader(node),
            Role::Adopter => self.adopts(node),
        };
        let counts = self.role(client) != Role::Adopter
            || !node.unconfirmed
            || self.omits(Omission::AdoptCountsConfirmed);
        if granted {
            node.entries[client] = Entry::Set;
            if self.omits(Omission::OwnExpiry) && self.role(client) == Role::Reader {
                node.last = client as u8;
            }
        }
        node.legs[client] = if granted && counts { Leg::Granted } else { Leg::Refused };
    }

    fn is_free_for_writer(&self, node: &Node) -> bool {
        let sees =
            |it: usize| self.role(it) != Role::Reader || !self.omits(Omission::WriterSeesReaders);
        !node.present().any(sees)
    }

    fn is_free_for_reader(&self, node: &Node) -> bool {
        let is_reader = |it: usize| self.role(it) == Role::Reader;
        self.omits(Omission::ReaderSeesWriter) || node.present().all(is_reader)
    }

    /// Gives the lock another value, if it has that of the giver.
    fn adopts(&self, node: &mut Node) -> bool {
        let Some(giver) = self.giver() else { return false };
        if self.omits(Omission::AdoptCompares) {
            node.entries = Default::default();
            return true;
        }
        let found = node.entries[giver] != Entry::Nothing;
        if found && !self.omits(Omission::AdoptReplaces) {
            node.entries[giver] = Entry::Nothing;
        }
        found
    }

    /// Renews what the node has of a client.
    pub(super) fn extend(state: &mut State, node: usize, client: usize) {
        let node = &mut state.nodes[node];
        let found = node.entries[client] != Entry::Nothing;
        if found {
            node.entries[client] = Entry::Renewed;
        }
        node.legs[client] = if found { Leg::Renewed } else { Leg::NotRenewed };
    }

    /// Deletes what the node has of a client.
    pub(super) fn delete(&self, state: &mut State, node: usize, client: usize) {
        let node = &mut state.nodes[node];
        let reads = self.role(client) == Role::Reader;
        for (other, entry) in node.entries.iter_mut().enumerate().take(self.all().end) {
            let all_readers = self.omits(Omission::OwnRelease) && reads;
            let goes = other == client
                || all_readers && self.role(other) == Role::Reader
                || self.omits(Omission::CompareOnRelease) && !reads;
            if goes {
                *entry = Entry::Nothing;
            }
        }
        node.deletes[client] = false;
        node.legs[client] = Leg::Nothing;
    }

    /// Whether what a node has of a client may expire.
    pub(super) fn may_expire(&self, state: &State, node: &Node, client: usize) -> bool {
        if node.entries[client] == Entry::Nothing || !self.bounds.expiry {
            return false;
        }
        let together = self.omits(Omission::OwnExpiry) && self.role(client) == Role::Reader;
        let decides = if together { usize::from(node.last) } else { client };
        !state.is_kept(decides, node.entries[decides])
    }

    pub(super) fn expire(&self, state: &mut State, node: usize, client: usize) {
        let node = &mut state.nodes[node];
        let together = self.omits(Omission::OwnExpiry) && self.role(client) == Role::Reader;
        for (other, entry) in node.entries.iter_mut().enumerate().take(self.all().end) {
            if other == client || together && self.role(other) == Role::Reader {
                *entry = Entry::Nothing;
            }
        }
    }

    /// The node loses its keys, and sits out until all validity that began before has ended.
    pub(super) fn restart(&self, state: &mut State, node: usize) {
        state.restarts -= 1;
        let clients = state.clients;
        let node = &mut state.nodes[node];
        node.entries = Default::default();
        for (client, it) in clients.iter().enumerate().filter(|(_, it)| it.is_counting()) {
            let renews = it.renewals < self.bounds.renewals;
            node.awaited[client] = if renews { Awaited::End } else { Awaited::EndOrRenewal };
        }
    }

    /// Drops what makes no difference any more.
    pub(super) fn forget(&self, state: &mut State) {
        let State { nodes, clients, .. } = state;
        for node in nodes {
            for client in self.all() {
                let now = &clients[client];
                let waits = match node.awaited[client] {
                    Awaited::Nothing => false,
                    Awaited::EndOrRenewal => now.is_counting() && !now.renewed,
                    Awaited::End => now.is_counting(),
                };
                if !waits {
                    node.awaited[client] = Awaited::Nothing;
                }
                if now.phase == Phase::Through && !node.legs[client].is_on_its_way() {
                    node.legs[client] = Leg::Nothing;
                    let own = node.entries[client] != Entry::Nothing;
                    let anything =
                        self.omits(Omission::OwnRelease) || self.omits(Omission::CompareOnRelease);
                    node.deletes[client] &= own || anything;
                }
            }
        }
    }
}
