//! The way from a client to a node.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};

use super::message::{Command, Reply};
use crate::{
    error::{Cause, NodeError, NodeErrorKind},
    node::{self, Sender, Watchers},
};

/// Opens connections of one client to one node.
pub trait Connector: Send + Sync + 'static {
    /// Opens a connection. What the node pushes goes to `pushes`.
    fn connect(&self, pushes: Pushes) -> BoxFuture<'_, Result<Opened, NodeError>>;
}

/// A connection, and the process at its other end.
pub type Opened = (Arc<dyn Connection>, Identity);

/// The process of a node.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Tells the processes of all nodes apart.
    pub run_id: String,
    /// How long the process has run.
    pub uptime: Duration,
}

/// One connection to one node. Commands run on the node in the order in which they were sent.
pub trait Connection: Send + Sync + 'static {
    /// Sends commands in one go; none are a PING. The answer is `None` when the connection has broken
    /// before it. Dropping the future gives up the answer, not the commands.
    fn send(&self, commands: Vec<Command>) -> BoxFuture<'static, Option<Answers>>;

    /// Whether the node pushes changes of keys that are watched.
    fn has_pushes(&self) -> bool;

    /// Resolves when the connection has broken.
    fn broken(&self) -> BoxFuture<'static, ()>;

    /// Closes the connection: the client needs it no more.
    fn close(&self);
}

/// One answer for each command.
pub type Answers = Vec<Result<Reply, NodeError>>;

/// What a client does with the pushes of a node.
#[derive(Debug, Clone)]
pub struct Pushes(Arc<Watchers>);

impl Pushes {
    /// Delivers that a key has changed, as the node says.
    pub fn changed(&self, key: &str) {
        self.0.changed(key);
    }
}

/// The error of a node with this name.
#[must_use]
pub fn node_error(name: &Arc<str>, kind: NodeErrorKind, reason: &str) -> NodeError {
    NodeError::new(name, kind, reason)
}

/// The error of a server that refuses a command for now.
#[must_use]
pub fn passing_error(name: &Arc<str>, reason: &str) -> NodeError {
    NodeError { cause: Cause::Passing, ..NodeError::new(name, NodeErrorKind::Server, reason) }
}

pub(super) struct Adapter {
    name: Arc<str>,
    connector: Arc<dyn Connector>,
}

impl Adapter {
    pub(super) fn new(name: Arc<str>, connector: Arc<dyn Connector>) -> Self {
        Self { name, connector }
    }
}

impl node::Connector for Adapter {
    fn connect(&self, watchers: &Arc<Watchers>) -> BoxFuture<'_, Result<node::Opened, NodeError>> {
        let opening = self.connector.connect(Pushes(Arc::clone(watchers)));
        let name = Arc::clone(&self.name);
        async move {
            let (connection, Identity { run_id, uptime }) = opening.await?;
            let sender = Arc::new(Line { name, connection });
            let connection: Box<dyn node::Connection> = Box::new(Open { line: sender });
            let run_id = Some(run_id.into());
            let uptime = Some(uptime);
            Ok((connection, node::Identity { run_id, uptime, ..node::Identity::default() }))
        }
        .boxed()
    }
}

/// A connection as its senders see it.
struct Line {
    name: Arc<str>,
    connection: Arc<dyn Connection>,
}

impl Line {
    fn error(name: &Arc<str>) -> NodeError {
        NodeError::new(name, NodeErrorKind::Disconnected, "connection reset")
    }
}

impl Sender for Line {
    fn send(
        &self,
        commands: Vec<node::Command>,
    ) -> BoxFuture<'static, Vec<Result<node::Reply, NodeError>>> {
        let count = commands.len();
        let answers = self.connection.send(commands.into_iter().map(Command).collect());
        let name = Arc::clone(&self.name);
        async move {
            match answers.await {
                Some(answers) => answers.into_iter().map(|it| it.map(|Reply(it)| it)).collect(),
                None => vec![Err(Self::error(&name)); count],
            }
        }
        .boxed()
    }

    fn close(&self) {
        self.connection.close();
    }

    fn wakes_reader(&self) -> bool {
        false
    }
}

/// A connection as the task that serves it sees it.
struct Open {
    line: Arc<Line>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.line.connection.close();
    }
}

impl node::Connection for Open {
    fn sender(&self) -> Arc<dyn Sender> {
        Arc::<Line>::clone(&self.line)
    }

    fn has_pushes(&self) -> bool {
        self.line.connection.has_pushes()
    }

    fn ping(&mut self) -> BoxFuture<'static, Result<(), NodeError>> {
        let answers = self.line.connection.send(Vec::new());
        let name = Arc::clone(&self.line.name);
        async move { answers.await.map(drop).ok_or_else(|| Line::error(&name)) }.boxed()
    }

    fn closed(&mut self) -> BoxFuture<'static, NodeError> {
        let broken = self.line.connection.broken();
        let name = Arc::clone(&self.line.name);
        async move {
            broken.await;
            Line::error(&name)
        }
        .boxed()
    }
}
