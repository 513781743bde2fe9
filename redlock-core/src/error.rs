//! The errors, made so that a caller can act on them. No text of theirs holds a password, a token or a
//! whole URL (rule 19).

use std::{fmt, sync::Arc, time::Duration};

/// Why a lock was not given, or no longer holds.
///
/// | variant | what happened | what to do |
/// |---|---|---|
/// | [`Held`](Self::Held) | another client or task holds it | try again after [`retry_after`](Self::retry_after), or give up |
/// | [`NoQuorum`](Self::NoQuorum) | too many nodes failed | try again later; look at the nodes |
/// | [`Lost`](Self::Lost) | the lock was held and is lost, or a lease is over that was to be adopted | the work may have had effects: check before repeating it |
/// | [`ShuttingDown`](Self::ShuttingDown) | this client takes no new locks; nothing ran | try again on another instance |
/// | [`InvalidResource`](Self::InvalidResource) | the resource cannot be a key | fix the resource |
/// | [`UnknownPool`](Self::UnknownPool) | no pool of that name is installed | fix the program |
/// | [`Config`](Self::Config) | a setting cannot work | fix the setting |
///
/// `Display` is one line and says everything there is to say; there is no
/// [`source`](std::error::Error::source). No password and no lock token is ever part of it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum LockError {
    /// Another client, or another task, holds the lock, or the attempts to take it split the nodes'
    /// votes. Or the lock was taken, and taken away before its body began, by
    /// [`release_all`](crate::Redlock::release_all), by `max_hold` or from outside: nothing ran.
    #[non_exhaustive]
    Held {
        /// The resource that was asked for.
        resource: String,
        /// How many attempts were completed. A request that waits to be woken asks no node meanwhile, and
        /// counts the attempts that it would have made: one for every `retry_delay` in a queue of this
        /// process, where the first look counts as well, and otherwise one for every `retry_delay` and
        /// `retry_jitter`.
        attempts: u32,
        /// The time from the call to this answer.
        waited: Duration,
        /// The holder is this client: a task that waits for its own lock waits in vain. Where the holders are readers,
        /// and for permits, this client may be one of several holders: it is true only inside of a body that has the
        /// lock, and where this client has ended the lock itself.
        by_this_client: bool,
        /// When another attempt makes sense.
        retry_after: Duration,
        /// The nodes that failed in the last attempt, if any.
        nodes: Vec<NodeError>,
    },
    /// So many nodes failed that no quorum was possible, or the quorum came too late to be of use.
    /// An attempt ends as soon as it cannot succeed. When some nodes refuse and others fail, the
    /// first answers decide between this and [`Held`](Self::Held).
    #[non_exhaustive]
    NoQuorum {
        /// The resource that was asked for; empty when no single resource was.
        resource: String,
        /// How many attempts were completed, counted as in [`Held`](Self::Held).
        attempts: u32,
        /// The time from the call to this answer.
        waited: Duration,
        /// How many nodes said yes in the last attempt.
        granted: usize,
        /// How many nodes make a quorum.
        quorum: usize,
        /// The nodes that failed in the last attempt; empty when the quorum came too late.
        nodes: Vec<NodeError>,
    },
    /// The lock was held and is no longer. Only returned after a body has started or a guard was
    /// handed out.
    #[non_exhaustive]
    Lost {
        /// The resource that was locked.
        resource: String,
        /// How it was lost.
        reason: LostReason,
    },
    /// The resource cannot be used as a key: nothing was sent.
    #[non_exhaustive]
    InvalidResource {
        /// The resource, cut to a readable length.
        resource: String,
        /// What is wrong with it, and what to use instead.
        problem: String,
    },
    /// The client is shutting down and takes no new locks: nothing ran.
    #[non_exhaustive]
    ShuttingDown {
        /// The resource that was asked for.
        resource: String,
    },
    /// No pool of this name is installed.
    #[non_exhaustive]
    UnknownPool {
        /// The name that was asked for.
        pool: String,
        /// The names that are installed.
        installed: Vec<String>,
    },
    /// A setting that cannot work, at `build()` or at the call that brought it.
    #[non_exhaustive]
    Config {
        /// The offending value and what to use instead.
        problem: String,
    },
}

/// How a lock was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// Its validity ran out before a quorum renewed it.
    Expired,
    /// So many nodes no longer had it that a quorum was impossible: it was deleted, evicted or
    /// taken over there.
    Refused,
    /// It was held for as long as `max_hold` allows.
    MaxHold,
    /// `shutdown()` or `release_all()` ended it.
    Shutdown,
}

impl LockError {
    /// Whether another client or task holds the lock: the service is healthy, and the resource is
    /// busy.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self, Self::Held { .. })
    }

    /// Whether the lock service cannot be used right now: there is no quorum, or the client is
    /// shutting down.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::NoQuorum { .. } | Self::ShuttingDown { .. })
    }

    /// Whether the lock was held and is lost: the work may have had effects. Also for a lease that cannot be adopted
    /// any more.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// When trying the same call again makes sense; `None` when a retry alone does not help.
    ///
    /// A held lock gives the retry delay that was in force, also where the body around the call has the lock: that
    /// body has to end first. A missing quorum and a shutdown give
    /// one second (reconnecting backs off to less than that). A lost lock gives `None`: the caller
    /// knows whether the work may be repeated.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Held { retry_after, .. } => Some(*retry_after),
            Self::NoQuorum { .. } | Self::ShuttingDown { .. } => Some(Duration::from_secs(1)),
            Self::Lost { .. }
            | Self::InvalidResource { .. }
            | Self::UnknownPool { .. }
            | Self::Config { .. } => None,
        }
    }

    pub(crate) fn config(problem: impl Into<String>) -> Self {
        Self::Config { problem: problem.into() }
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { resource, attempts, waited, by_this_client, nodes, .. } => {
                write!(f, "{resource:?} is held by ")?;
                f.write_str(if *by_this_client { "this client" } else { "another holder" })?;
                effort(f, *attempts, *waited)?;
                failures(f, nodes)
            }
            Self::NoQuorum { resource, attempts, waited, granted, quorum, nodes } => {
                f.write_str("no quorum")?;
                if !resource.is_empty() {
                    write!(f, " for {resource:?}")?;
                }
                if nodes.is_empty() {
                    write!(f, ": the answers of {quorum} nodes came too late to be relied on")?;
                } else {
                    write!(f, ": {granted} of the {quorum} nodes needed said yes")?;
                }
                effort(f, *attempts, *waited)?;
                failures(f, nodes)
            }
            Self::Lost { resource, reason } => {
                write!(f, "the lock on {resource:?} was lost: {reason}")
            }
            Self::InvalidResource { resource, problem } => {
                write!(f, "{resource:?} cannot be locked: {problem}")
            }
            Self::ShuttingDown { resource } => {
                write!(f, "{resource:?} was not locked: this client is shutting down")
            }
            Self::UnknownPool { pool, installed } => {
                write!(f, "no pool {pool:?} is installed")?;
                if installed.is_empty() {
                    f.write_str(", nor any other: call redlock_core::pools::install first")
                } else {
                    write!(f, "; there are {installed:?}")
                }
            }
            Self::Config { problem } => f.write_str(problem),
        }
    }
}

impl std::error::Error for LockError {}

fn effort(f: &mut fmt::Formatter<'_>, attempts: u32, waited: Duration) -> fmt::Result {
    match attempts {
        0 => return Ok(()),
        1 => f.write_str(" (1 attempt")?,
        n => write!(f, " ({n} attempts")?,
    }
    write!(f, ", {} ms)", waited.as_millis())
}

fn failures(f: &mut fmt::Formatter<'_>, nodes: &[NodeError]) -> fmt::Result {
    for (index, node) in nodes.iter().enumerate() {
        f.write_str(if index == 0 { ": " } else { "; " })?;
        write!(f, "{node}")?;
    }
    Ok(())
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its validity ran out before a quorum renewed it",
            Self::Refused => "too many nodes no longer had it",
            Self::MaxHold => "it was held for as long as max_hold allows",
            Self::Shutdown => "this client shut down or released everything",
        })
    }
}

/// What one node did instead of answering: which node, what, and why. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeError {
    /// The node, as `host:port` or the path of its socket; never a whole URL.
    pub node: Arc<str>,
    /// What kind of failure it was.
    pub kind: NodeErrorKind,
    /// Why, in the node's or the operating system's own words where there are any.
    pub reason: Arc<str>,
    /// Whether the command may have run on the node all the same, or may still (rule 5).
    pub(crate) may_have_run: bool,
    /// What the client can do about it.
    pub(crate) cause: Cause,
}

/// The causes of errors that a client acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Cause {
    #[default]
    Other,
    /// The server follows another server, whose data it has from then on (rule 16).
    Replica,
    /// The server refuses user and password, or misses them.
    Login,
    /// The server cannot run it now, and may run it a moment later.
    Passing,
    /// No task has read what the server said: the task of the node has ended with its runtime, or was taken over
    /// from one that stands still.
    Unheard,
}

/// The kinds of [`NodeError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeErrorKind {
    /// Not connected: nothing was sent. The reason is that of the last try to connect.
    Down,
    /// No answer within `node_timeout`. The command may run all the same.
    Timeout,
    /// The connection broke before the answer came. The command may have run.
    Disconnected,
    /// The node answered with an error of its own: loading, read only, out of memory, no
    /// permission, moved and the like.
    Server,
    /// Nothing was sent: this client has 512 attempts in flight, or a later command for the same lock took its place.
    Overloaded,
    /// It gives no vote. It may have restarted without its data and gives no votes for new locks yet:
    /// nothing was sent (see [`Restarts`](crate::Restarts)). Or a lock is adopted that it had not confirmed
    /// when it was handed over.
    SitsOut,
    /// It is the same server as another node of this client, and has no vote of its own: nothing
    /// was sent.
    Twin,
}

impl NodeError {
    pub(crate) fn new(node: &Arc<str>, kind: NodeErrorKind, reason: impl Into<Arc<str>>) -> Self {
        let may_have_run = matches!(kind, NodeErrorKind::Timeout | NodeErrorKind::Disconnected);
        let node = Arc::clone(node);
        Self { node, kind, reason: reason.into(), may_have_run, cause: Cause::Other }
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.node, self.kind, self.reason)
    }
}

impl std::error::Error for NodeError {}

impl fmt::Display for NodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Down => "is down",
            Self::Timeout => "timed out",
            Self::Disconnected => "disconnected",
            Self::Server => "failed",
            Self::Overloaded => "is overloaded",
            Self::SitsOut => "sits out",
            Self::Twin => "is a twin",
        })
    }
}
