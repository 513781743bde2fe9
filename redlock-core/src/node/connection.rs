//! The seam to a server: what opens a connection, and what a connection does.

use std::{sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, FutureExt};

use super::{Command, Identity, Reply, Watchers};
use crate::error::NodeError;

/// Opens connections to one node.
pub(crate) trait Connector: Send + Sync + 'static {
    /// Opens a connection that is ready for commands: it is authenticated, its database is chosen,
    /// and its server is a master that was asked for its identity. The caller bounds the time.
    /// Dropping the future gives the attempt up. Pushes about watched keys go to `watchers`.
    fn connect(&self, watchers: &Arc<Watchers>) -> BoxFuture<'_, Result<Opened, NodeError>>;

    /// For how long another client may still use the previous process of the node, after this client has
    /// seen a new process. A lock that the other client gets there may be younger than the new process.
    fn overlap(&self) -> Duration {
        Duration::ZERO
    }

    /// The fingerprint of the node, where it may change under one connection. `None` where the identity tells it.
    fn fingerprint(&self) -> Option<u64> {
        None
    }

    /// What an operator should know about the node at this moment, beside what its identity tells. Each
    /// is one line.
    fn advice(&self) -> Vec<Arc<str>> {
        Vec::new()
    }
}

/// A connection, and the process at its other end.
pub(crate) type Opened = (Box<dyn Connection>, Identity);

/// One connection to one node. Commands run on the node in the order in which they were sent.
pub(crate) trait Connection: Send + 'static {
    /// The sender of the connection's commands, usable from any thread.
    fn sender(&self) -> Arc<dyn Sender>;

    /// Whether the server pushes changes of keys that are watched.
    fn has_pushes(&self) -> bool;

    /// Asks the node whether it is alive.
    fn ping(&mut self) -> BoxFuture<'static, Result<(), NodeError>>;

    /// Resolves when the connection has broken, with or without commands in flight.
    ///
    /// Called once. The future may carry the bytes of the connection: a task must wait for it, and
    /// if that task also waits for answers, it must poll this future first.
    fn closed(&mut self) -> BoxFuture<'static, NodeError>;
}

/// What is left to do on a connection whose task was dropped with its runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Remaining {
    Nothing,
    /// Answers are on their way.
    Answers,
    /// Commands are not written yet.
    Commands,
}

/// The sending end of a [`Connection`].
pub(crate) trait Sender: Send + Sync + 'static {
    /// Sends commands in one go and answers one result each, in order.
    ///
    /// The commands are on their way, behind all earlier commands, once the future has been polled
    /// for the first time. Dropping it later gives up the answers, not the commands. When the
    /// connection is broken, every result without an answer is
    /// [`Disconnected`](crate::NodeErrorKind::Disconnected).
    fn send(&self, commands: Vec<Command>) -> BoxFuture<'static, Vec<Result<Reply, NodeError>>>;

    /// Sends commands, if there are any. The task of the connection was dropped with its runtime, and their answers are
    /// for no task.
    fn send_last(&self, commands: Vec<Command>) {
        if !commands.is_empty() {
            // The first poll sends.
            let _ = self.send(commands).now_or_never();
        }
    }

    /// After the first [`send_last`](Self::send_last): carries the bytes that can be carried at once. Returns what is
    /// left to do before the connection may close. To close it earlier may undo the last commands.
    fn carry_last(&self) -> Remaining {
        Remaining::Nothing
    }

    /// Writes nothing more, because another task has taken the node over. What was written may still run. So the next
    /// task sends each delete that is owed twice, on its own connection (rule 5).
    fn close(&self) {}

    /// Whether the task that waits for the end of the connection is woken by answers, even to
    /// commands that it has not sent itself.
    fn wakes_reader(&self) -> bool;
}
