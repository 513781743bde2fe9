//! A state of the model: what the nodes keep, what the clients believe, and what is on its way
//! between each of them.

use std::hash::{Hash, Hasher};

use super::pack::Packed;

/// How many nodes there are.
pub(super) const NODES: usize = 3;
/// How many clients there are at most.
pub(super) const CLIENTS: usize = 3;
/// How often one client tries at most.
pub(super) const ATTEMPTS: usize = 2;
/// How often one hold is extended at most.
pub(super) const ROUNDS: usize = 2;

/// What names the holder in a key: one of an attempt of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) client: u8,
    pub(super) attempt: u8,
}

/// The lock on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) token: Token,
    /// Until it expires.
    pub(super) left: u8,
}

/// One extension, between one client and one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Leg {
    /// The ttl of the request on its way; zero when there is none.
    pub(super) request: u8,
    /// On its way back: renewed.
    pub(super) renewed: bool,
    /// On its way back: there is no such key.
    pub(super) missing: bool,
    /// The client has counted this node's yes.
    pub(super) counted: bool,
    /// The client knows that the key is missing there.
    pub(super) gap: bool,
}

/// Everything between one attempt of a client and one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Link {
    /// In the outbox of the client: a SET NX that was not sent.
    pub(super) unsent: bool,
    /// On its way: SET NX.
    pub(super) grant: bool,
    /// On its way back: granted.
    pub(super) granted: bool,
    /// The client has counted this node's grant.
    pub(super) counted: bool,
    /// A SET was sent there, or waits in the outbox, so that a delete has to follow.
    pub(super) asked: bool,
    /// On its way: compare and delete.
    pub(super) delete: bool,
    /// On its way: delete whatever is there.
    pub(super) blind_delete: bool,
    /// The ttl of a heal on its way; zero when there is none.
    pub(super) heal: u8,
    pub(super) legs: [Leg; ROUNDS],
}

impl Link {
    /// Whether anything is on its way that can put a key there, or may yet be.
    pub(super) fn may_set(&self) -> bool {
        self.unsent || self.grant || self.heal > 0
    }

    /// Whether anything is on its way to the node.
    pub(super) fn is_requesting(&self) -> bool {
        self.grant
            || self.heal > 0
            || self.delete
            || self.blind_delete
            || self.legs.iter().any(|leg| leg.request > 0)
    }

    /// No client is left that reads the answers.
    pub(super) fn drop_answers(&mut self) {
        (self.granted, self.counted) = (false, false);
        self.legs = self.legs.map(|leg| Leg { request: leg.request, ..Leg::default() });
    }
}

/// One node, with all that is on its way to it and from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Node {
    pub(super) key: Option<Key>,
    /// How much longer no new lock is asked of it.
    pub(super) sits_out: u8,
    pub(super) links: [[Link; ATTEMPTS]; CLIENTS],
}

impl Node {
    pub(super) fn link(&mut self, token: Token) -> &mut Link {
        &mut self.links[usize::from(token.client)][usize::from(token.attempt)]
    }

    pub(super) fn has(&self, token: Token) -> bool {
        self.key.is_some_and(|key| key.token == token)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    /// It wants nothing, or not yet.
    #[default]
    Idle,
    /// It has asked and has no quorum yet.
    Asking,
    /// It was given the lock.
    Holding,
}

/// One extension, as the client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Round {
    /// What is left of the validity that it would give.
    pub(super) left: u8,
    pub(super) confirmed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Client {
    pub(super) phase: Phase,
    /// The present attempt, or the next.
    pub(super) attempt: u8,
    /// How often it may still begin to try.
    pub(super) tries: u8,
    /// What is left of the validity.
    pub(super) left: u8,
    /// How many extensions of this hold have begun.
    pub(super) begun: u8,
    pub(super) rounds: [Round; ROUNDS],
    /// Another client was given the lock since this hold began.
    pub(super) broken: bool,
    /// How many ticks its clock may still miss.
    pub(super) lag: u8,
    /// How many others in this process wait for what it holds.
    pub(super) waiting: u8,
    /// A hold that has handed over is still there; with all rules on, that means nothing.
    pub(super) handed_over: bool,
}

impl Client {
    /// Without its names, the same for every client that is through.
    pub(super) fn end(&mut self) {
        let Self { tries, attempt, mut lag, mut waiting, .. } = *self;
        if tries == 0 {
            (lag, waiting) = (0, 0);
        }
        *self = Self { tries, attempt, lag, waiting, ..Self::default() };
    }
}

/// Everything that the future depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Core {
    pub(super) nodes: [Node; NODES],
    pub(super) clients: [Client; CLIENTS],
    /// How much may still go wrong.
    pub(super) restarts: u8,
    pub(super) stops: u8,
    pub(super) jumps: u8,
    pub(super) losses: u8,
}

/// A state, in the order of names that stands for all the others, with the names that nodes and
/// clients had at the start: for a reader, not part of what is compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    pub(super) core: Core,
    /// The same in few words.
    pub(super) packed: Packed,
    pub(super) nodes: [u8; NODES],
    pub(super) clients: [u8; CLIENTS],
}

impl State {
    /// With the names in order, and not yet in words.
    pub(super) fn new(core: Core) -> Self {
        let (nodes, clients) = ([0, 1, 2], [0, 1, 2]);
        Self { core, packed: Packed::default(), nodes, clients }
    }
}

/// The words alone: states that differ in names are the same.
impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.packed.hash(hasher);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.packed == other.packed
    }
}

impl Eq for State {}
