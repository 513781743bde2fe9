//! A state of the model.

/// How many nodes there are.
pub(super) const NODES: usize = 3;
/// How many clients there are at most.
pub(super) const CLIENTS: usize = 4;

/// What a node has of a client: the key itself, or a member of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) enum Entry {
    #[default]
    Nothing,
    /// As it was set.
    Set,
    /// A renewal has found it.
    Renewed,
}

/// How far a client has come with one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) enum Leg {
    #[default]
    Nothing,
    /// The request is on its way.
    Asked,
    Granted,
    Refused,
    /// A renewal is on its way.
    Renewing,
    /// The node has renewed it.
    Renewed,
    /// The renewal was refused.
    NotRenewed,
}

/// What a node that restarted waits for, of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) enum Awaited {
    #[default]
    Nothing,
    /// The end of its validity, or that it relies on a renewal.
    EndOrRenewal,
    /// The end of its validity.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Node {
    pub(super) entries: [Entry; CLIENTS],
    pub(super) legs: [Leg; CLIENTS],
    /// Deletes on their way, behind the requests of the same client.
    pub(super) deletes: [bool; CLIENTS],
    pub(super) awaited: [Awaited; CLIENTS],
    /// It had not answered the giver when the lock was handed over.
    pub(super) unconfirmed: bool,
    /// The reader that was set last, where that matters.
    pub(super) last: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) enum Phase {
    #[default]
    Idle,
    Asking,
    Holding,
    /// It has handed the lock over.
    Handed,
    /// It has let go.
    Through,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Client {
    pub(super) phase: Phase,
    /// Its validity has ended.
    pub(super) over: bool,
    /// The renewals that it may still send.
    pub(super) renewals: u8,
    /// It relies on a renewal.
    pub(super) renewed: bool,
    /// It has had the lock.
    pub(super) served: bool,
    /// The number of its hold, where numbers are given.
    pub(super) number: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct State {
    pub(super) nodes: [Node; NODES],
    pub(super) clients: [Client; CLIENTS],
    pub(super) restarts: u8,
    /// The last number that was given.
    pub(super) number: u8,
    /// A number was given that is smaller than one before.
    pub(super) stale: bool,
}

impl Leg {
    /// A request is on its way.
    pub(super) fn is_on_its_way(self) -> bool {
        matches!(self, Self::Asked | Self::Renewing)
    }
}

impl Client {
    /// Its keys count for something: it asks, holds, or has handed over.
    pub(super) fn is_counting(&self) -> bool {
        matches!(self.phase, Phase::Asking | Phase::Holding | Phase::Handed) && !self.over
    }
}

impl Node {
    /// What it has, by client.
    pub(super) fn present(&self) -> impl Iterator<Item = usize> + '_ {
        (0..CLIENTS).filter(|it| self.entries[*it] != Entry::Nothing)
    }

    /// Whether it votes for new locks.
    pub(super) fn votes(&self) -> bool {
        self.awaited.iter().all(|it| *it == Awaited::Nothing)
    }
}

impl State {
    /// How many nodes have answered a client like this.
    pub(super) fn count(&self, client: usize, leg: Leg) -> usize {
        self.nodes.iter().filter(|node| node.legs[client] == leg).count()
    }

    /// Whether a node keeps what it has of a client, as the assumptions on clocks say.
    pub(super) fn is_kept(&self, client: usize, entry: Entry) -> bool {
        let client = &self.clients[client];
        client.is_counting() && (entry == Entry::Renewed || !client.renewed)
    }
}
