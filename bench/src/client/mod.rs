//! The contestants: ways to take a lock on the same nodes, and what they are measured against.

mod bare;
mod fenced;
mod kinds;
mod mutex;
mod ours;
mod peer;
mod polling;
mod program;
mod queued;
mod rslock;
mod sets;
mod sockets;

use std::{future::Future, time::Duration};

use self::ours::Ours;
pub(crate) use self::peer::Peer;

/// How long a lock lives on its nodes when it is not renewed. The default of redlock-core.
const TTL: Duration = Duration::from_secs(30);

/// Why something did not work; counted, and shown for the first.
pub(crate) type Failure = String;

/// One way to take a lock. Clones share their connections.
pub(crate) trait Client: Clone + Send + Sync + 'static {
    /// The state of a lock that is held.
    type Held: Send + 'static;

    /// The prefix of a resource in its key.
    const PREFIX: &str = "";

    /// How many tasks may hold one resource at once.
    const TOGETHER: u64 = 1;

    /// A client as a program makes it when it starts.
    fn open(urls: &[String]) -> impl Future<Output = Self> + Send;

    /// Another client of the same nodes, with connections of its own. The nodes' answers take this
    /// long.
    fn another(&self, urls: &[String], round_trip: Duration) -> impl Future<Output = Self> + Send {
        Self::open_far(urls, round_trip)
    }

    /// A client of nodes whose answers take this long.
    fn open_far(urls: &[String], _round_trip: Duration) -> impl Future<Output = Self> + Send {
        Self::open(urls)
    }

    /// Waits until every node is connected.
    fn ready(&self) -> impl Future<Output = ()> + Send;

    /// Waits until the lock is held.
    fn lock(&self, resource: &str) -> impl Future<Output = Result<Self::Held, Failure>> + Send;

    /// Returns when the release is confirmed.
    fn release(&self, held: Self::Held) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Work that can be done with any client.
pub(crate) trait Visit {
    /// The result of the work.
    type Output;

    /// Does the work with one client.
    fn with<C: Client>(self) -> Self::Output;
}

/// Names a [`Client`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// redlock-core through its public interface, with its defaults.
    Ours,
    /// redlock-core with its defaults and a fencing token.
    Fenced,
    /// rslock with its defaults.
    Rslock,
    /// The least work that is still Redlock, over redis-rs.
    Bare,
    /// The least work over plain sockets.
    Sockets,
    /// [`Bare`](Self::Bare) behind a queue inside the process.
    Queued,
    /// redlock-core asked for a set of locks in one step.
    Set,
    /// redlock-core asked for the locks of a set one after the other.
    Ordered,
    /// redlock-core, as one of the readers of a lock.
    Reader,
    /// redlock-core, three times in four as a reader and else as the writer.
    Mixed,
    /// redlock-core, for one of four permits.
    Permit,
    /// redlock-core, for a lock that the body under it enters again.
    Nested,
    /// redlock-core, for a lock that is handed over once.
    Moved,
    /// redlock-core, for a term as leader.
    Leader,
    /// A mutex inside the process and no nodes at all: what a hold itself allows.
    Mutex,
    /// A lock of another language, in a process of its own.
    Peer(Peer),
}

impl Which {
    /// The clients that can be chosen. The mutex is always included as the measure.
    pub(crate) const ALL: [Self; 18] = [
        Self::Mutex,
        Self::Ours,
        Self::Fenced,
        Self::Rslock,
        Self::Bare,
        Self::Sockets,
        Self::Queued,
        Self::Ordered,
        Self::Set,
        Self::Reader,
        Self::Mixed,
        Self::Permit,
        Self::Nested,
        Self::Moved,
        Self::Leader,
        Self::Peer(Peer::NodeRedlock),
        Self::Peer(Peer::Redsync),
        Self::Peer(Peer::Redisson),
    ];

    /// The name in tables, files and arguments.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Fenced => "fenced",
            Self::Rslock => "rslock",
            Self::Bare => "bare",
            Self::Sockets => "sockets",
            Self::Queued => "queued",
            Self::Set => "set",
            Self::Ordered => "ordered",
            Self::Reader => "reader",
            Self::Mixed => "mixed",
            Self::Permit => "permit",
            Self::Nested => "nested",
            Self::Moved => "moved",
            Self::Leader => "leader",
            Self::Mutex => "mutex",
            Self::Peer(peer) => peer.name(),
        }
    }

    /// The client of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|which| which.name() == name)
    }

    /// Calls the visitor with this client.
    ///
    /// # Panics
    ///
    /// For a [`Peer`]: no Rust code can call it. Workloads that name peers run their programs.
    pub(crate) fn visit<V: Visit>(self, visitor: V) -> V::Output {
        match self {
            Self::Ours => visitor.with::<Ours<ours::Plain>>(),
            Self::Fenced => visitor.with::<Ours<fenced::Fenced>>(),
            Self::Rslock => visitor.with::<rslock::Rslock>(),
            Self::Bare => visitor.with::<bare::Bare>(),
            Self::Sockets => visitor.with::<sockets::Sockets>(),
            Self::Set => visitor.with::<Ours<sets::Set>>(),
            Self::Ordered => visitor.with::<Ours<sets::Ordered>>(),
            Self::Reader => visitor.with::<Ours<kinds::Reader>>(),
            Self::Mixed => visitor.with::<Ours<kinds::Mixed>>(),
            Self::Permit => visitor.with::<Ours<kinds::Permit>>(),
            Self::Nested => visitor.with::<Ours<kinds::Nested>>(),
            Self::Moved => visitor.with::<Ours<kinds::Moved>>(),
            Self::Leader => visitor.with::<Ours<kinds::Leader>>(),
            Self::Queued => visitor.with::<queued::Queued>(),
            Self::Mutex => visitor.with::<mutex::Mutex>(),
            Self::Peer(peer) => panic!("{} runs in a process of its own", peer.name()),
        }
    }
}
