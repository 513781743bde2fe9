//! One independent Redis master: what it can be asked, and what connects to it.
//!
//! Everything above talks to nodes through one seam: [`Command`]s go out, each gets one
//! [`Reply`] or one [`NodeError`]. Below the seam are real servers ([`redis`]) and servers inside
//! this process ([`memory`]); the state machine that supervises a connection is shared by both.

mod backoff;
mod expiry;
mod handle;
pub(crate) mod memory;
mod outbox;
#[cfg(test)]
mod outbox_tests;
mod outcome;
mod pipe;
mod quarantine;
pub(crate) mod queue_keys;
pub(crate) mod redis;
mod round_trip;
mod strikes;
mod supervisor;
#[cfg(test)]
mod tests;
mod watchers;

use std::{fmt, sync::Arc, time::Duration};

pub(crate) use expiry::Expected;
use futures_util::future::BoxFuture;
pub(crate) use handle::{Context, NodeHandle, Standing, fnv1a};
pub use handle::{NodeHealth, NodeState};
pub(crate) use quarantine::Identity;
pub use quarantine::Restarts;
pub(crate) use watchers::{Listener, Watchers};

use self::memory::MemoryNode;
#[cfg(redlock_sim)]
pub(crate) use self::memory::data::Push;
use crate::{
    clock::Moment,
    error::{LockError, NodeError},
};

/// The key of a lock and the value with which one attempt asks for it.
pub(crate) struct Claim {
    pub(crate) key: Arc<str>,
    /// `token.client_name`, ASCII: native compare commands pass through lossy UTF-8 in redis 1.x
    /// (rule 1). Never printed (rule 19).
    pub(crate) value: String,
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").field("key", &self.key).finish_non_exhaustive()
    }
}

/// One thing to do on one node.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    pub(crate) claim: Arc<Claim>,
    pub(crate) action: Action,
}

/// What a [`Command`] does with its claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Set the key if it is free, for this long: `SET key value NX PX ttl`. A vote for a new lock.
    Grant { ttl: Duration },
    /// Set the key again for a lock that a quorum has confirmed, on a node where it went missing
    /// (rule 8).
    Heal { ttl: Duration },
    /// If the key has our value, let it live for at least this long from now. Never shortens
    /// (rule 7).
    Extend { ttl: Duration },
    /// If the key has our value, delete it. Where this node keeps the queue of the lock, also give
    /// the turn to its front (`wakes`).
    Release { wakes: bool },
    /// If the key has our value, let it live for exactly this long: the release of a `min_hold`
    /// that is not used up, the only action that may shorten (rule 7). Made of a [`CleanUp`] when it
    /// is sent.
    Shorten { rest: Duration },
    /// Tell whether the key is there and for how long, and when that changes (once, to the
    /// [`Watchers`]). Nothing is compared and nothing is set.
    Watch,
    /// Stand in the queue before the key under the claim's value: at the end, or at an earlier
    /// place. Repeating it shows that the waiter is alive.
    Join {
        /// The place in the queue; zero for the end.
        place: u64,
        /// How long the entry outlives a waiter that has stopped reporting.
        life: Duration,
        /// The node is to push the turn (once, to the [`Watchers`]).
        listens: bool,
    },
    /// Leave the queue before the key, and pass on a turn that came.
    Leave,
}

/// A command with what its node needs to know to see it through.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) claim: Arc<Claim>,
    pub(crate) action: Action,
    /// Set for a job that removes a key, whose action is [`Action::Release`]: the job goes on after
    /// its asker has its answer (rule 5).
    pub(crate) clean_up: Option<CleanUp>,
    /// Set for an extension of a key that this node has confirmed before.
    pub(crate) expected: Option<Expected>,
}

/// How long and how thoroughly to clean up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CleanUp {
    /// When the first SET of the claim may have been sent.
    pub(crate) since: Moment,
    /// When the key has expired by itself.
    pub(crate) until: Moment,
    /// Until when `min_hold` keeps the key: it is shortened to that instead of deleted.
    pub(crate) keep_until: Option<Moment>,
    /// It was confirmed on a newer connection than that of its SET: this is the second time there,
    /// and the last.
    pub(crate) repeated: bool,
    /// The SET may still wait in the outbox of the node.
    pub(crate) may_be_unsent: bool,
}

impl CleanUp {
    /// Whether the key goes at once, as nothing is left of a `min_hold`.
    fn deletes(&self, now: Moment) -> bool {
        self.keep_until.is_none_or(|until| until <= now)
    }
}

impl Job {
    /// A job that is done once it is answered.
    pub(crate) fn new(claim: &Arc<Claim>, action: Action) -> Self {
        Self { claim: Arc::clone(claim), action, clean_up: None, expected: None }
    }

    /// The command to send at `now`. What is left of a `min_hold` is counted here and not
    /// earlier: a job that is sent late, or once more, must not lengthen the key.
    fn command(&self, now: Moment) -> Command {
        let rest = self.clean_up.and_then(|it| it.keep_until).map(|until| until.since(now));
        let action = match rest {
            Some(rest) if !rest.is_zero() => Action::Shorten { rest },
            Some(_) | None => self.action,
        };
        Command { claim: Arc::clone(&self.claim), action }
    }
}

/// What a node answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Done: granted, healed, released.
    Done,
    /// The key is there, and extended if it was asked to be; this much was left of it before.
    There { left: Duration },
    /// There is no such key.
    Missing,
    /// The key is there and has another client's value.
    Foreign,
    /// The key is not there any more, whether or not it had our value until now (`deleted`), and the
    /// turn went to a waiter in the queue.
    Woke { deleted: bool },
    /// Stands in the queue.
    Queued {
        /// The place, to join at again.
        place: u64,
        /// The number of waiters before it.
        ahead: u64,
        /// What is left of the lock on this node; `None` when the key is not there.
        left: Option<Duration>,
    },
    /// The queue takes no more entries.
    Full,
}

/// Opens connections to one node.
pub(crate) trait Connector: Send + Sync + 'static {
    /// Opens a connection that is ready for commands: it is authenticated, its database is chosen,
    /// and its server is a master that was asked for its identity. The caller bounds the time.
    /// Dropping the future gives the attempt up. Pushes about watched keys go to `watchers`.
    fn connect(&self, watchers: &Arc<Watchers>) -> BoxFuture<'_, Result<Opened, NodeError>>;
}

/// A connection, and the process at its other end.
pub(crate) type Opened = (Box<dyn Connection>, Identity);

/// One connection to one node. Commands run on the node in the order in which they were sent.
pub(crate) trait Connection: Send + 'static {
    /// The sender of the connection's commands, usable from any thread.
    fn sender(&self) -> Arc<dyn Sender>;

    /// Whether the server pushes changes of keys that are watched.
    fn tells(&self) -> bool;

    /// Asks the node whether it is alive.
    fn ping(&mut self) -> BoxFuture<'static, Result<(), NodeError>>;

    /// Resolves when the connection has broken, commands under way or not.
    ///
    /// Called once. The future may carry the bytes of the connection: a task must wait for it, and
    /// if that task also waits for answers, it must poll this future first.
    fn closed(&mut self) -> BoxFuture<'static, NodeError>;
}

/// The sending end of a [`Connection`].
pub(crate) trait Sender: Send + Sync + 'static {
    /// Sends commands in one go and answers one result each, in order.
    ///
    /// The commands are on their way, behind all earlier ones, once the future has been polled
    /// for the first time. Dropping it later gives up the answers, not the commands. When the
    /// connection is broken, every result without an answer is
    /// [`Disconnected`](crate::NodeErrorKind::Disconnected).
    fn send(&self, commands: Vec<Command>) -> BoxFuture<'static, Vec<Result<Reply, NodeError>>>;

    /// Whether the task that waits for the end of the connection is woken by answers, even to
    /// commands that it has not sent itself.
    fn wakes_reader(&self) -> bool;
}

/// How to build the [`Connector`] of a node, decided at `build()`.
#[derive(Clone)]
pub(crate) struct NodeSpec {
    /// `host:port` or the path of a socket, without credentials.
    pub(crate) name: Arc<str>,
    pub(crate) connector: Arc<dyn Connector>,
}

impl fmt::Debug for NodeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeSpec").field(&self.name).finish()
    }
}

/// An independent Redis master to use as one node of a [`Redlock`](crate::Redlock).
///
/// Made from a URL, or from a [`MemoryNode`](crate::MemoryNode):
///
/// | URL | what it is |
/// |---|---|
/// | `redis://[user[:password]@]host[:port][/database]` | TCP |
/// | `rediss://…` | TCP with TLS, needs the feature `tls-rustls` |
/// | `redis+unix:///path?db=1&user=u&pass=p`, `unix://…` | a Unix socket |
///
/// A URL is checked by `build()`, where the error is.
#[derive(Clone)]
pub struct Node(pub(crate) Source);

#[derive(Clone)]
pub(crate) enum Source {
    Url(String),
    Memory(MemoryNode),
    #[cfg(redlock_sim)]
    Simulated(NodeSpec),
}

impl Node {
    /// The node at this URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self(Source::Url(url.into()))
    }

    pub(crate) fn spec(self) -> Result<NodeSpec, LockError> {
        match self.0 {
            Source::Url(url) => redis::spec(&url),
            Source::Memory(node) => Ok(node.spec()),
            #[cfg(redlock_sim)]
            Source::Simulated(spec) => Ok(spec),
        }
    }
}

impl fmt::Debug for Node {
    /// Never prints the URL: it may hold a password (rule 19).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Url(_) => f.debug_struct("Node").finish_non_exhaustive(),
            Source::Memory(node) => node.fmt(f),
            #[cfg(redlock_sim)]
            Source::Simulated(spec) => spec.fmt(f),
        }
    }
}

impl From<&str> for Node {
    fn from(url: &str) -> Self {
        Self::new(url)
    }
}

impl From<String> for Node {
    fn from(url: String) -> Self {
        Self::new(url)
    }
}

impl From<&String> for Node {
    fn from(url: &String) -> Self {
        Self::new(url.as_str())
    }
}

impl From<MemoryNode> for Node {
    fn from(node: MemoryNode) -> Self {
        Self(Source::Memory(node))
    }
}

impl From<&MemoryNode> for Node {
    fn from(node: &MemoryNode) -> Self {
        Self(Source::Memory(node.clone()))
    }
}
