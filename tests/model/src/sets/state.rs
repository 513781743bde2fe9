//! A state of the model.

/// How many nodes there are.
pub(super) const NODES: usize = 3;
/// The smallest number of nodes that is a quorum.
pub(super) const QUORUM: usize = 2;
/// How many resources there are.
pub(super) const RESOURCES: usize = 3;
/// How many clients there are at most.
pub(super) const CLIENTS: usize = 3;
/// How often one client tries at most.
pub(super) const ATTEMPTS: usize = 2;

/// A key on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) client: u8,
    pub(super) attempt: u8,
    /// Whether a renewal has found it.
    pub(super) renewed: bool,
}

/// How far one attempt has come with one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) enum Leg {
    #[default]
    Nothing,
    /// The request is on its way. Where a node sets key by key, it has looked at `looked` keys.
    Asked {
        looked: u8,
        refused: bool,
    },
    Granted,
    Refused,
    /// It was granted, and a renewal is on its way.
    Renewing,
    /// The node has renewed it.
    Renewed,
    /// The renewal was refused.
    NotRenewed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Node {
    pub(super) keys: [Option<Key>; RESOURCES],
    pub(super) legs: [[Leg; ATTEMPTS]; CLIENTS],
    /// Deletes on their way, behind the request of the same attempt.
    pub(super) deletes: [[bool; ATTEMPTS]; CLIENTS],
    /// Keys were lost or have expired here: then parts of sets may stay.
    pub(super) gone: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) enum Phase {
    #[default]
    Idle,
    Asking,
    Holding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Client {
    pub(super) phase: Phase,
    /// The attempt that is in progress, or comes next.
    pub(super) attempt: u8,
    /// The renewals that it may still send.
    pub(super) renewals: u8,
    /// It relies on a renewal.
    pub(super) renewed: bool,
    /// It has had the locks.
    pub(super) served: bool,
    /// How many queues it stands in.
    pub(super) joined: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct State {
    pub(super) nodes: [Node; NODES],
    pub(super) clients: [Client; CLIENTS],
    pub(super) losses: u8,
    /// The clients in the queue of each resource.
    pub(super) queues: [Vec<u8>; RESOURCES],
}

impl Leg {
    /// A request is on its way.
    pub(super) fn is_on_its_way(self) -> bool {
        matches!(self, Self::Asked { .. } | Self::Renewing)
    }
}

impl State {
    /// The legs of the attempt of a client.
    pub(super) fn legs(&self, client: usize) -> [Leg; NODES] {
        let attempt = usize::from(self.clients[client].attempt);
        std::array::from_fn(|node| self.nodes[node].legs[client][attempt])
    }

    /// How many nodes have answered like this.
    pub(super) fn count(&self, client: usize, leg: Leg) -> usize {
        self.legs(client).into_iter().filter(|it| *it == leg).count()
    }

    /// Whether a client may rely on this key.
    pub(super) fn is_relied_on(&self, key: Key) -> bool {
        let client = &self.clients[usize::from(key.client)];
        client.phase != Phase::Idle
            && client.attempt == key.attempt
            && (key.renewed || !client.renewed)
    }
}
