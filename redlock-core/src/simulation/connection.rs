//! The client's end of a simulated connection.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::{Notify, oneshot};

use super::{network::Network, traffic::Opening};
use crate::{
    error::{NodeError, NodeErrorKind},
    node::{Command, Connection, Connector, Opened, Reply, Sender, Watchers},
};

/// Whether a connection is still there, as far as the client knows.
#[derive(Debug, Default)]
pub(super) struct End {
    broken: AtomicBool,
    changed: Notify,
}

impl End {
    pub(super) fn hang_up(&self) {
        self.broken.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    async fn gone(&self) {
        let mut changed = std::pin::pin!(self.changed.notified());
        changed.as_mut().enable();
        if !self.broken.load(Ordering::Acquire) {
            changed.await;
        }
    }
}

/// Connects one client to one node.
pub(super) struct SimConnector {
    pub(super) network: Network,
    pub(super) client: usize,
    pub(super) node: usize,
    pub(super) name: Arc<str>,
}

impl Connector for SimConnector {
    fn connect(&self, watchers: &Arc<Watchers>) -> BoxFuture<'_, Result<Opened, NodeError>> {
        let watchers = Arc::clone(watchers);
        async move {
            let (tell, told) = oneshot::channel();
            self.network.open(self.client, self.node, Opening { tell, watchers });
            let broken = || NodeError::new(&self.name, NodeErrorKind::Down, "no answer");
            let (number, end, identity) = told.await.unwrap_or_else(|_| Err(broken()))?;
            let (network, name) = (self.network.clone(), Arc::clone(&self.name));
            let tells = self.network.manners_of(self.client).pushes;
            let sender = SimSender { network, number, name };
            let connection = SimConnection { sender, end, tells };
            Ok((Box::new(connection) as Box<dyn Connection>, identity))
        }
        .boxed()
    }
}

struct SimConnection {
    sender: SimSender,
    end: Arc<End>,
    tells: bool,
}

#[derive(Clone)]
struct SimSender {
    network: Network,
    number: u64,
    name: Arc<str>,
}

impl Drop for SimConnection {
    fn drop(&mut self) {
        self.sender.network.close(self.sender.number);
    }
}

fn broken(name: &Arc<str>) -> NodeError {
    NodeError::new(name, NodeErrorKind::Disconnected, "connection reset")
}

impl SimSender {
    fn call(&self, commands: Vec<Command>) -> oneshot::Receiver<Vec<Result<Reply, NodeError>>> {
        let (tell, told) = oneshot::channel();
        self.network.call(self.number, commands, tell);
        told
    }
}

impl Sender for SimSender {
    fn send(&self, commands: Vec<Command>) -> BoxFuture<'static, Vec<Result<Reply, NodeError>>> {
        let count = commands.len();
        let told = self.call(commands);
        let name = Arc::clone(&self.name);
        async move {
            match told.await {
                Ok(replies) => replies,
                Err(_) => vec![Err(broken(&name)); count],
            }
        }
        .boxed()
    }

    fn wakes_reader(&self) -> bool {
        false
    }
}

impl Connection for SimConnection {
    fn sender(&self) -> Arc<dyn Sender> {
        Arc::new(self.sender.clone())
    }

    fn tells(&self) -> bool {
        self.tells
    }

    fn ping(&mut self) -> BoxFuture<'static, Result<(), NodeError>> {
        let told = self.sender.call(Vec::new());
        let name = Arc::clone(&self.sender.name);
        async move { told.await.map(drop).map_err(|_| broken(&name)) }.boxed()
    }

    fn closed(&mut self) -> BoxFuture<'static, NodeError> {
        let end = Arc::clone(&self.end);
        let name = Arc::clone(&self.sender.name);
        async move {
            end.gone().await;
            broken(&name)
        }
        .boxed()
    }
}

impl fmt::Debug for SimConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimConnector").field(&self.name).finish()
    }
}
