//! Connections to a node in memory, at both of their ends.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};

use super::{MemoryNode, Mode, Server};
use crate::{
    error::{NodeError, NodeErrorKind},
    node::{Command, Connection, Connector, Identity, Opened, Reply, Sender, Watchers},
    runtime,
};

impl Connector for MemoryNode {
    fn connect(&self, watchers: &Arc<Watchers>) -> BoxFuture<'_, Result<Opened, NodeError>> {
        let watchers = Arc::clone(watchers);
        async move {
            let mut mode = self.server.mode.subscribe();
            // The sender is in `self`, so that waiting for it cannot fail.
            let _ = mode.wait_for(|mode| !mode.hung || !mode.up).await;
            let seen = *mode.borrow();
            if !seen.up {
                let name = &self.server.name;
                return Err(NodeError::new(name, NodeErrorKind::Down, "connection refused"));
            }
            tokio::time::sleep(seen.delay).await;
            let (calls, queue) = mpsc::channel(1024);
            let session = Session::open(&self.server, watchers, seen.life);
            runtime::spawn(answer(session, mode, queue));
            let connection = MemoryConnection { name: Arc::clone(&self.server.name), calls };
            let identity = Identity {
                followed: None,
                run_id: Some(format!("{}.{}", self.server.name, seen.life).into()),
                uptime: Some(seen.started.map_or(Duration::MAX, |started| started.elapsed())),
                evicts: None,
                is_nameless: false,
            };
            Ok((Box::new(connection) as Box<dyn Connection>, identity))
        }
        .boxed()
    }
}

/// Commands on their way to the node; a PING has none.
struct Call {
    commands: Vec<Command>,
    arrives: Instant,
    reply: oneshot::Sender<Vec<Reply>>,
}

#[derive(Clone)]
struct MemoryConnection {
    name: Arc<str>,
    calls: mpsc::Sender<Call>,
}

/// The node's end of one connection.
struct Session {
    server: Arc<Server>,
    number: u64,
    /// The process of the node that this connection belongs to.
    life: u64,
}

impl Session {
    fn open(server: &Arc<Server>, watchers: Arc<Watchers>, life: u64) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        server.connections.lock().insert(number, watchers);
        Self { server: Arc::clone(server), number, life }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.server.connections.lock().remove(&self.number);
        self.server.data.lock().forget(self.number);
    }
}

/// Serves one connection in order, whether or not the callers still wait for the answers.
async fn answer(
    session: Session,
    mut mode: watch::Receiver<Mode>,
    mut queue: mpsc::Receiver<Call>,
) {
    let life = session.life;
    loop {
        let call = tokio::select! {
            biased;
            _ = mode.wait_for(|mode| mode.life != life) => return,
            call = queue.recv() => match call {
                Some(call) => call,
                None => return,
            },
        };
        // The command waits until `arrives + delay`, which may be beyond what an `Instant` can be.
        let left = mode.borrow().delay.saturating_sub(call.arrives.elapsed());
        // Even the shortest sleep takes about a millisecond, and many calls may be late at once.
        if !left.is_zero() {
            tokio::time::sleep(left).await;
        }
        // The server is alive as long as this task has it.
        let _ = mode.wait_for(|mode| !mode.hung || mode.life != life).await;
        if mode.borrow().life != life {
            return;
        }
        let replies = session.server.run(&call.commands, session.number);
        // The commands have run, even if the caller has gone.
        let _ = call.reply.send(replies);
    }
}

impl MemoryConnection {
    fn call(&self, commands: Vec<Command>) -> oneshot::Receiver<Vec<Reply>> {
        let (reply, answered) = oneshot::channel();
        // A full or closed queue drops the sender, which is how the caller learns of it.
        let _ = self.calls.try_send(Call { commands, arrives: Instant::now(), reply });
        answered
    }

    fn broken(name: &Arc<str>) -> NodeError {
        NodeError::new(name, NodeErrorKind::Disconnected, "the node was stopped")
    }
}

impl Sender for MemoryConnection {
    fn send(&self, commands: Vec<Command>) -> BoxFuture<'static, Vec<Result<Reply, NodeError>>> {
        let count = commands.len();
        let answered = self.call(commands);
        let name = Arc::clone(&self.name);
        async move {
            match answered.await {
                Ok(replies) => replies.into_iter().map(Ok).collect(),
                Err(_) => vec![Err(Self::broken(&name)); count],
            }
        }
        .boxed()
    }

    fn wakes_reader(&self) -> bool {
        false
    }
}

impl Connection for MemoryConnection {
    fn sender(&self) -> Arc<dyn Sender> {
        Arc::new(self.clone())
    }

    fn has_pushes(&self) -> bool {
        true
    }

    fn ping(&mut self) -> BoxFuture<'static, Result<(), NodeError>> {
        let answered = self.call(Vec::new());
        let name = Arc::clone(&self.name);
        async move { answered.await.map(drop).map_err(|_| Self::broken(&name)) }.boxed()
    }

    fn closed(&mut self) -> BoxFuture<'static, NodeError> {
        let calls = self.calls.downgrade();
        let name = Arc::clone(&self.name);
        async move {
            if let Some(calls) = calls.upgrade() {
                calls.closed().await;
            }
            Self::broken(&name)
        }
        .boxed()
    }
}
