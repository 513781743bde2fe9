//! The commands to a node.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    token::Token,
};

/// The keys of a lock and the value with which one attempt asks for them.
pub(crate) struct Claim {
    /// The key of a lock on one resource; the first key of a set, in the order of all clients.
    pub(crate) key: Arc<str>,
    /// The other keys of a set, in that order. A node does each action on all keys or on none.
    pub(crate) rest: Box<[Arc<str>]>,
    /// `token.client_name`, ASCII: native compare commands pass through lossy UTF-8 in redis 1.x
    /// (rule 1). Never printed (rule 19).
    pub(crate) value: String,
    /// The claim of a reader: others may have the key, too.
    pub(crate) shared: bool,
    /// The claim of a client that has a permit or asks for it. The key alone does not tell: a lock may have
    /// any name.
    pub(crate) permit: bool,
    /// The place in the queue between clients of a reader, or of a writer that waits for readers. Zero
    /// without a place. Readers behind a writer that waits get no lock.
    pub(crate) place: u64,
    /// It takes over keys that another client has given away, and may ask for them again. A lock is asked for with a new
    /// claim each time.
    pub(crate) adopts: bool,
    /// The client that asks was given a turn. That turn is over when the lock is released.
    pub(crate) has_turn: bool,
    /// The nodes, by their places, to which the grant was sent.
    pub(crate) is_sent: AtomicU64,
    /// The nodes, by their places, to which a join of the waiter was sent: they may have given it a turn since.
    pub(crate) has_joined: AtomicU64,
    /// The waiter has left the queue, or the writer has lowered its barrier: what would put it there again is
    /// not sent any more.
    pub(crate) has_left: AtomicBool,
}

impl Claim {
    /// A claim on one key.
    pub(crate) fn new(key: &Arc<str>, value: String) -> Self {
        Self {
            key: Arc::clone(key),
            rest: Box::default(),
            value,
            shared: false,
            permit: false,
            place: 0,
            adopts: false,
            has_turn: false,
            is_sent: AtomicU64::new(0),
            has_joined: AtomicU64::new(0),
            has_left: AtomicBool::new(false),
        }
    }

    /// Notes that the grant is sent to this node. A claim is granted once a node, unless it [`adopts`](Self::adopts).
    pub(super) fn mark_sent(&self, node: usize) {
        if node < BITS {
            self.is_sent.fetch_or(bit(node), Ordering::AcqRel);
        }
    }

    /// Whether the grant was sent to this node. Of a node without a bit that is unknown. A grant that waits in the
    /// lane of such a node was not sent, as it is sent once. An adoption that waits there may have been sent before.
    pub(super) fn is_sent(&self, node: usize) -> bool {
        if node < BITS {
            self.is_sent.load(Ordering::Acquire) & bit(node) != 0
        } else {
            self.adopts
        }
    }

    /// Notes that a join of the waiter is sent to this node.
    pub(super) fn mark_joined(&self, node: usize) {
        self.has_joined.fetch_or(bit(node), Ordering::AcqRel);
    }

    pub(super) fn has_joined(&self, node: usize) -> bool {
        self.has_joined.load(Ordering::Acquire) & bit(node) != 0
    }

    /// Notes that the waiter, or the barrier, goes.
    pub(super) fn mark_left(&self) {
        self.has_left.store(true, Ordering::Release);
    }

    pub(super) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Acquire)
    }

    /// Whether it has several keys.
    pub(crate) fn is_set(&self) -> bool {
        !self.rest.is_empty()
    }

    /// All its keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        std::iter::once(&self.key).chain(&self.rest)
    }

    /// How many keys it has.
    pub(crate) fn len(&self) -> usize {
        1 + self.rest.len()
    }
}

/// How many nodes have a bit of their own.
const BITS: usize = 64;

/// The bit of a node. A client of more nodes than there are bits has the same one for several.
fn bit(node: usize) -> u64 {
    1 << (node % BITS)
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("key", &self.key)
            .field("rest", &self.rest)
            .finish_non_exhaustive()
    }
}

/// Some of the keys of a claim, by their places in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KeySet(u64);

impl KeySet {
    pub(crate) const NONE: Self = Self(0);
    /// The only key of a claim, or the first.
    pub(crate) const FIRST: Self = Self(1);
    /// A claim has at most this many keys.
    pub(crate) const MAX: usize = 64;

    /// The first place if `is_there`.
    pub(crate) fn first(is_there: bool) -> Self {
        Self(u64::from(is_there))
    }

    pub(crate) fn add(&mut self, place: usize) {
        debug_assert!(place < Self::MAX);
        self.0 |= 1 << place;
    }

    pub(crate) fn has(self, place: usize) -> bool {
        place < Self::MAX && self.0 & (1 << place) != 0
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// One thing to do on one node.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    pub(crate) claim: Arc<Claim>,
    pub(crate) action: Action,
}

/// What a node pushes to a waiter, each once, to the [`Watchers`](super::Watchers).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listens {
    /// Nothing more than it was asked for before.
    Nothing,
    /// That it is the waiter's turn, or will be soon.
    Turn,
    /// That it is the waiter's turn, or will be soon, and that the lock has changed.
    TurnAndLock,
}

/// The action of a [`Command`] on its claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Set the key if it is free, for this long: `SET key value NX PX ttl`. A vote for a new lock.
    Grant { ttl: Duration },
    /// Set the key like [`Grant`](Self::Grant), and draw numbers from the counter beside it. Sent at
    /// most once a node for each claim: a second one would draw other numbers.
    GrantFenced { ttl: Duration, draw: Draw },
    /// If the key has a value with this token, or our value already, give it our value and let it live for at least this
    /// long: a lock that another process handed over. A vote like [`Grant`](Self::Grant).
    Adopt { ttl: Duration, from: Token },
    /// Set the key again for a lock that a quorum has confirmed, on a node where it went missing
    /// (rule 8).
    Heal { ttl: Duration },
    /// If the key has our value, let it live for at least this long from now. Never shortens
    /// (rule 7).
    Extend { ttl: Duration },
    /// Extend the key like [`Extend`](Self::Extend), and draw more numbers from the counter beside
    /// it.
    Redraw { ttl: Duration, draw: Draw },
    /// Raise the counter to the last number of our range, whose numbers are larger than what this
    /// node gave. Done only if the key has our value, and if the counter has given out nothing
    /// since it gave numbers to us.
    Confirm(Raise),
    /// If the key has our value, delete it. Of the keys whose queue this node keeps (`wakes`), also
    /// give the turn to the front of the queue.
    Release { wakes: KeySet },
    /// If the key has our value, let it live for exactly this long: the release of a `min_hold`
    /// that is not used up, the only action that may shorten (rule 7). It may also lengthen the key, by
    /// the time from its `SET` to the quorum. Made of a [`CleanUp`](super::CleanUp) when it is sent.
    Shorten { rest: Duration },
    /// Tell whether the key is there and for how long, and report the next change of it (once, to
    /// the [`Watchers`](super::Watchers)). Nothing is compared and nothing is set.
    Watch,
    /// Stand in the queue before the key under the claim's value: at the end, or at an earlier
    /// place. Repeating it shows that the waiter is alive.
    Join {
        /// The place in the queue; zero for the end.
        place: u64,
        /// How long the entry outlives a waiter that has stopped reporting.
        life: Duration,
        /// What the node is to push from now on.
        listens: Listens,
        /// The waiter would share the lock with readers: the node says whether it may do so now.
        reads: bool,
    },
    /// Leave the queue before the key, and pass on a turn that came. A waiter that leaves `again` has
    /// nothing to pass on if it is not in the queue: it may have done so before.
    Leave { again: bool },
    /// Find a permit of `count` that is free on this node, the permit with the number `from` first, and up to `most` in
    /// all. Where other clients wait, or have asked a moment ago, it is told of its share of the free ones. The
    /// `asker` is the client. They are kept for it for this long, until it has set their keys.
    FindPermits { count: u32, from: u32, most: u32, asker: u64, keeps: Duration },
    /// Have new readers of the key wait behind this writer, for this long.
    RaiseBarrier {
        life: Duration,
        /// It is to stand where there are no readers, too.
        insists: bool,
    },
    /// Take a [`RaiseBarrier`](Self::RaiseBarrier) back.
    LowerBarrier,
    /// Tell what is known of the key and of the queue before it, with the first waiters: at `most` so many, or all of
    /// them if that is 0. Nothing changes.
    Inspect { most: u64 },
    /// Give the key our value whatever value it has, and leave its expiry as it is. The holder is
    /// refused at its next renewal, and no client gets the lock before the holder's time is over.
    TakeAway,
    /// Delete the key whatever value it has. Where this node keeps the queue of the lock, also give
    /// the turn to its front (`wakes`).
    Clear { wakes: bool },
}

impl Action {
    /// Whether it takes back what earlier commands of its claim have set. A barrier does not count: its writer goes on.
    pub(crate) fn removes(self) -> bool {
        matches!(self, Self::Release { .. } | Self::Shorten { .. } | Self::Leave { .. })
    }

    /// Whether it renews a key or sets it again. Such a command is handed in under the lock of its hold.
    pub(super) fn renews(self) -> bool {
        matches!(self, Self::Extend { .. } | Self::Heal { .. })
    }

    /// For how long it lets the key live. `None` for an action that sets no expiry.
    pub(crate) fn ttl(self) -> Option<Duration> {
        match self {
            Self::Grant { ttl }
            | Self::GrantFenced { ttl, .. }
            | Self::Adopt { ttl, .. }
            | Self::Heal { ttl }
            | Self::Extend { ttl }
            | Self::Redraw { ttl, .. }
            | Self::Shorten { rest: ttl } => Some(ttl),
            Self::Confirm(_)
            | Self::Release { .. }
            | Self::Watch
            | Self::Join { .. }
            | Self::Leave { .. }
            | Self::FindPermits { .. }
            | Self::RaiseBarrier { .. }
            | Self::LowerBarrier
            | Self::Inspect { .. }
            | Self::TakeAway
            | Self::Clear { .. } => None,
        }
    }
}

/// The request of a command that draws numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Draw {
    /// The first number is at least this much: the wall clock of the client in microseconds. A counter
    /// that was lost does not start small.
    pub(crate) floor: u64,
    /// How many numbers.
    pub(crate) count: u32,
    /// How long the counter lives from now on.
    pub(crate) life: Duration,
}

/// The request of a command that confirms numbers. A node confirms only a number that it gave to
/// this claim, and only if it has given out no number since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Raise {
    /// The value that the counter has to have: the last number that this node gave to the claim.
    pub(crate) from: u64,
    /// The value that the counter is raised to: the last number of the range.
    pub(crate) to: u64,
    /// How long the counter lives from now on.
    pub(crate) life: Duration,
}
