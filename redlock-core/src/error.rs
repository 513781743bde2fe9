//! The errors, made so that a caller can act on them. No text of theirs holds a password, a token or a
//! whole URL (rule 19).

use std::{fmt, sync::Arc, time::Duration};

/// Why a lock was not given, or is no longer held.
///
/// | variant | what happened | what to do |
/// |---|---|---|
/// | [`Held`](Self::Held) | another client or task holds the lock, or waits for it before this one | try again after [`retry_after`](Self::retry_after), or give up |
/// | [`NoQuorum`](Self::NoQuorum) | too many nodes failed, or answered too late | try again later; look at the nodes |
/// | [`Lost`](Self::Lost) | the lock was held and is lost, or a lease can no longer be adopted | the work may have had effects: check before you repeat it |
/// | [`ShuttingDown`](Self::ShuttingDown) | this client takes no new locks; nothing ran | try again on another instance |
/// | [`InvalidResource`](Self::InvalidResource) | the resource cannot be a key | fix the resource |
/// | [`UnknownPool`](Self::UnknownPool) | no pool of that name is installed | fix the program |
/// | [`Config`](Self::Config) | a setting cannot work, or the request cannot work where it is made | fix the setting or the program |
///
/// `Display` prints one line with all details. There is no [`source`](std::error::Error::source). Passwords and lock
/// tokens are never part of it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum LockError {
    /// Another client or another task holds the lock, or has its turn. Nothing ran.
    ///
    /// This is also the answer in three other cases:
    ///
    /// - Several attempts have split the votes of the nodes.
    /// - `max_waiters` requests of this process wait for the resource already.
    /// - The lock was taken away before its body began: by [`release_all`](crate::Redlock::release_all), by `max_hold`
    ///   or from outside.
    #[non_exhaustive]
    Held {
        /// The requested resource.
        resource: String,
        /// The number of attempts. A waiter that sleeps until it is woken sends nothing. The time that it waits counts
        /// as the attempts that it would have made. In a queue of this process, that is one for each `retry_delay`, and
        /// the first look counts as well. Otherwise it is one for each `retry_delay` plus `retry_jitter`.
        attempts: u32,
        /// The time from the call to this error.
        waited: Duration,
        /// True if this client holds the lock. Waiting from inside that hold can never succeed. If the lock is held by
        /// readers, or for permits, this client may be one of several holders. In that case the field is true only
        /// inside a body that holds the lock, or if this client ended the lock itself.
        by_this_client: bool,
        /// The time after which another attempt makes sense.
        retry_after: Duration,
        /// The nodes that failed in the last attempt, if any.
        nodes: Vec<NodeError>,
        /// True if `max_waiters` requests of this process wait for the resource already. A request for a lock has made no
        /// attempt then, and whether another client holds the lock is not known. A reader, or a request for a permit, may
        /// have asked the nodes once.
        max_waiters_reached: bool,
    },
    /// Too many nodes failed for a quorum, or the quorum came too late to be of use.
    ///
    /// From a request it means that nothing ran. A request returns it when its `wait` or its retries are over, or if
    /// the lock expires before the body has begun. From [`release`](crate::LockGuard::release),
    /// [`extend`](crate::LockGuard::extend) and [`force_release`](crate::Redlock::force_release) it means that the
    /// outcome is unknown. An attempt ends as soon as it cannot succeed. If some nodes refuse and others fail, the
    /// answers that arrive first decide between this and [`Held`](Self::Held).
    #[non_exhaustive]
    NoQuorum {
        /// The requested resource. Empty if no single resource was requested.
        resource: String,
        /// The number of attempts, counted as in [`Held`](Self::Held). If an extension or an adoption failed: how often
        /// the nodes were asked.
        attempts: u32,
        /// The time from the call to this error.
        waited: Duration,
        /// How many nodes agreed in the last attempt.
        granted: usize,
        /// How many nodes make a quorum.
        quorum: usize,
        /// The nodes that failed in the last attempt. Empty if the quorum came too late.
        nodes: Vec<NodeError>,
    },
    /// The lock was held and is lost. The work under it may have had effects.
    ///
    /// In two cases the body of the request itself did not run. The request would have joined a hold that is lost: then
    /// the body around it has run. Or a lease can no longer be [adopted](crate::Redlock::adopt): then nothing ran.
    #[non_exhaustive]
    Lost {
        /// The resource that was locked.
        resource: String,
        /// Why it was lost.
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
        /// The requested resource.
        resource: String,
    },
    /// No pool of this name is installed.
    #[non_exhaustive]
    UnknownPool {
        /// The requested name.
        pool: String,
        /// The names that are installed.
        installed: Vec<String>,
    },
    /// A setting that cannot work, at `build()` or in the request that has it.
    ///
    /// It is also returned in these cases:
    ///
    /// - A request is made outside a tokio runtime, or in one without timers.
    /// - A request inside a body that holds the lock needs a token or a `min_hold` that the hold does not have.
    /// - A pool name is in use.
    /// - The operating system gives no random bytes.
    #[non_exhaustive]
    Config {
        /// What is wrong, and what to use instead.
        problem: String,
    },
}

/// Why a lock was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// No quorum renewed it before its validity ran out, or confirmed it soon enough after a pause of the process.
    Expired,
    /// Too many nodes no longer had it for a quorum: it was deleted, evicted or taken over there, or
    /// they restarted without their data.
    Refused,
    /// It was held for as long as `max_hold` allows.
    MaxHold,
    /// `shutdown()` or `release_all()` ended it.
    Shutdown,
}

impl LockError {
    /// Whether the resource is busy: another client or task holds the lock, or too many requests wait for it.
    /// The service itself works.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self, Self::Held { .. })
    }

    /// Whether the lock service is unavailable right now: there is no quorum, or the client is
    /// shutting down.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::NoQuorum { .. } | Self::ShuttingDown { .. })
    }

    /// Whether the lock was held and is lost: the work may have had effects. Also true for a lease that can no longer
    /// be adopted.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// The time after which to make the same call again. `None` if a retry alone does not help.
    ///
    /// For a held lock it is the `retry_delay` of the request. If the body around the call holds the lock, that body
    /// has to end first. For a missing quorum it is one second: a client connects to a node again within less than
    /// that. For a shutdown it is one second as well: ask another instance. For a lost lock it is `None`, because
    /// only the caller knows whether the work may be repeated.
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
            Self::Held { resource, max_waiters_reached: true, nodes, .. } => {
                write!(
                    f,
                    "too many requests of this process wait for {resource:?} (see max_waiters)"
                )?;
                failures(f, nodes)
            }
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
            Self::Expired => "no quorum renewed it in time",
            Self::Refused => "too many nodes no longer had it",
            Self::MaxHold => "it was held for as long as max_hold allows",
            Self::Shutdown => "this client shut down or released everything",
        })
    }
}

/// The failure of one node: which node, what happened, and why. Cheap to clone.
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
    /// The node is not connected, and nothing was sent. The reason is that of the last try to connect. Or the member of a
    /// cluster that has the lock is away: the command may have run.
    Down,
    /// No answer came within `node_timeout`. The command may still run.
    Timeout,
    /// The connection broke before the answer came. The command may have run.
    Disconnected,
    /// The node answered with an error, such as loading, read only, out of memory, no permission or moved.
    Server,
    /// Nothing was sent: this client has as many attempts in flight as the nodes can answer in time, or a later command
    /// for the same lock took its place.
    Overloaded,
    /// The node gives no vote. It may have restarted without its data, and gives no votes for new locks yet:
    /// nothing was sent (see [`Restarts`](crate::Restarts)). Or its answer does not count: the node had not
    /// confirmed the lock before the lock was handed over, or before the lock was in doubt.
    SitsOut,
    /// The node is the same server as another node of this client, and has no vote of its own. Nothing was sent, or the
    /// answer counts under the other name.
    Twin,
}

impl NodeErrorKind {
    /// Whether it says no more than that there is no connection.
    pub(crate) fn is_unreached(self) -> bool {
        matches!(self, Self::Down | Self::Disconnected)
    }
}

/// The longest text of a server, or of the application's own code, that becomes part of a reason, in characters.
pub(crate) const MAX_REASON: usize = 240;

impl NodeError {
    pub(crate) fn new(node: &Arc<str>, kind: NodeErrorKind, reason: impl Into<Arc<str>>) -> Self {
        let may_have_run = matches!(kind, NodeErrorKind::Timeout | NodeErrorKind::Disconnected);
        let node = Arc::clone(node);
        Self { node, kind, reason: reason.into(), may_have_run, cause: Cause::Other }
    }

    /// The error of a command that the node has not answered within this time.
    pub(crate) fn no_answer(node: &Arc<str>, limit: Duration) -> Self {
        Self::new(node, NodeErrorKind::Timeout, format!("no answer within {limit:?}"))
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
