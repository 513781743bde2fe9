//! A state of the model: what the nodes keep, what the clients have asked for and were given, and
//! what is on its way between them.

use std::hash::{Hash, Hasher};

/// How many nodes there are.
pub(super) const NODES: usize = 3;
/// How many clients there are at most.
pub(super) const CLIENTS: usize = 3;
/// How many resources there are at most: a client asks for one of them, or for several as a set.
pub(super) const RESOURCES: usize = 2;
/// How often one client asks at most.
pub(super) const ASKS: usize = 3;

/// The places of the bits: of nodes or of resources.
pub(super) fn places(bits: u8) -> impl Iterator<Item = usize> {
    (0..8).filter(move |place| bits & (1 << place) != 0)
}

/// What names the holder in a key: the ask of a client by which it got the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Holder {
    pub(super) client: u8,
    pub(super) ask: u8,
}

/// How far one ask has come with one node. The number is that of the node's GRANT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) enum Leg {
    /// Nothing is on its way, and nothing of it counts.
    #[default]
    Nothing,
    /// GRANT is on its way.
    Granting,
    /// It was granted.
    Granted(u8),
    /// CONFIRM is on its way.
    Confirming(u8),
    /// The node is one of the quorum that makes the number final, or may become one.
    Counts(u8),
}

/// How far one ask has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) enum Phase {
    #[default]
    NotBegun,
    Granting,
    Confirming,
    /// The client was given the range.
    Given,
    Over,
}

/// One ask for numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Ask {
    pub(super) phase: Phase,
    /// For a lock that is held already.
    pub(super) renews: bool,
    /// The ask of the key that GRANT sets or wants to find.
    pub(super) key: u8,
    pub(super) floor: u8,
    /// The largest number of all ranges of each resource that were given before it began.
    pub(super) seen: [u8; RESOURCES],
    /// The first number of its range, once that was chosen.
    pub(super) first: u8,
}

/// The numbers of a range that were not handed out; none when `next` is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Rest {
    pub(super) next: u8,
    pub(super) last: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Client {
    pub(super) asks: [Ask; ASKS],
    /// How many asks have begun.
    pub(super) begun: u8,
    /// How many it may begin.
    pub(super) may_begin: u8,
    /// The last ask has not come to its end.
    pub(super) busy: bool,
    /// The ask of the lock that it holds.
    pub(super) holds: Option<u8>,
    pub(super) rest: Rest,
    /// The rest of the range before; used by [`OldRangeDies`](super::rules::Omission) alone.
    pub(super) old: Rest,
    /// The validity has run out and the client goes on: with all rules on, that ends the hold.
    pub(super) late: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Node {
    pub(super) keys: [Option<Holder>; RESOURCES],
    pub(super) counters: [u8; RESOURCES],
    /// Since a counter was changed, a tick has passed.
    pub(super) stale: [bool; RESOURCES],
    /// It restarted, and a tick has not passed since.
    pub(super) sits_out: bool,
    pub(super) legs: [[Leg; ASKS]; CLIENTS],
    /// A heal on its way, from each client: the ask of the key that it sets.
    pub(super) heals: [Option<u8>; CLIENTS],
}

impl Node {
    /// Whether it has the keys of all resources that a client `wants`.
    pub(super) fn has(&self, client: usize, ask: u8, wants: u8) -> bool {
        let is_its = |key: &Holder| usize::from(key.client) == client && key.ask == ask;
        places(wants).all(|resource| self.keys[resource].as_ref().is_some_and(is_its))
    }
}

/// What has gone wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Broken {
    /// Two ranges share a number, or lie the other way round than their grants.
    pub(super) disjoint: bool,
    /// A range begins before the end of a range that was given before it was asked for.
    pub(super) growing: bool,
    /// A number was handed on that is smaller than one handed out before.
    pub(super) handed: bool,
}

/// Everything that the future depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Core {
    pub(super) nodes: [Node; NODES],
    pub(super) clients: [Client; CLIENTS],
    /// The largest number of all ranges given so far for each resource.
    pub(super) last: [u8; RESOURCES],
    /// The largest number that a holder of each resource was given so far; counted where numbers are handed
    /// on.
    pub(super) top: [u8; RESOURCES],
    pub(super) now: u8,
    pub(super) heals: u8,
    pub(super) restarts: u8,
    pub(super) broken: Broken,
}

/// A state, in the order of names that stands for all the others, with the names that nodes and
/// clients had at the start: for a reader, not part of what is compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct State {
    pub(super) core: Core,
    pub(super) nodes: [u8; NODES],
    pub(super) clients: [u8; CLIENTS],
}

impl State {
    /// With the names in order.
    pub(super) fn new(core: Core) -> Self {
        let (nodes, clients) = ([0, 1, 2], [0, 1, 2]);
        Self { core, nodes, clients }
    }
}

/// The core alone: states that differ in names are the same.
impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.core.hash(hasher);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.core == other.core
    }
}

impl Eq for State {}
