//! The client's end of a simulated connection.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::{FutureExt, future::BoxFuture};
use redlock_core::{
    NodeError, NodeErrorKind,
    seam::simulation::{Answers, Command, Connection, Connector, Opened, Pushes, node_error},
};
use tokio::sync::{Notify, oneshot};

use super::{Network, traffic::Opening};

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
    fn connect(&self, pushes: Pushes) -> BoxFuture<'_, Result<Opened, NodeError>> {
        async move {
            let (tell, told) = oneshot::channel();
            self.network.open(self.client, self.node, Opening { tell, pushes });
            let broken = || node_error(&self.name, NodeErrorKind::Down, "no answer");
            let (number, end, identity) = told.await.unwrap_or_else(|_| Err(broken()))?;
            let network = self.network.clone();
            let has_pushes = network.manners_of(self.client).pushes;
            let connection = SimConnection { network, number, end, has_pushes };
            Ok((Arc::new(connection) as Arc<dyn Connection>, identity))
        }
        .boxed()
    }
}

struct SimConnection {
    network: Network,
    number: u64,
    end: Arc<End>,
    has_pushes: bool,
}

impl Connection for SimConnection {
    fn send(&self, commands: Vec<Command>) -> BoxFuture<'static, Option<Answers>> {
        let (tell, told) = oneshot::channel();
        self.network.call(self.number, commands, tell);
        told.map(Result::ok).boxed()
    }

    fn has_pushes(&self) -> bool {
        self.has_pushes
    }

    fn broken(&self) -> BoxFuture<'static, ()> {
        let end = Arc::clone(&self.end);
        async move { end.gone().await }.boxed()
    }

    fn close(&self) {
        self.network.close(self.number);
    }
}
