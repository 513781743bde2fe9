//! The servers of one client.

use std::{
    ops::Deref,
    thread,
    time::{Duration, Instant},
};

use redlock_core::{Builder, LockGuard, Node, Redlock};

use crate::{
    proxy::Proxy,
    server::{Server, ServerBuilder},
    wait::wait_until,
};

/// The resource that is locked to see whether every node answers.
const WARM_UP: &str = "warm-up";

/// A client that a busy machine does not upset: a node may take 2 s to answer and 10 s to take a
/// connection. Everything else has its default.
pub fn patient<I>(nodes: I) -> Builder
where
    I: IntoIterator,
    I::Item: Into<Node>,
{
    Redlock::builder()
        .nodes(nodes)
        .node_timeout(Duration::from_secs(2))
        .connect_timeout(Duration::from_secs(10))
}

/// Several independent servers. Reads like a slice of them.
#[derive(Debug)]
pub struct Nodes(Vec<Server>);

impl Nodes {
    /// Starts this many servers, side by side.
    pub fn start(count: usize) -> Self {
        Self::start_as(count, &Server::builder())
    }

    /// Starts this many servers of one kind, side by side.
    pub fn start_as(count: usize, kind: &ServerBuilder) -> Self {
        thread::scope(|scope| {
            let starting: Vec<_> =
                (0..count).map(|_| scope.spawn(|| kind.clone().start())).collect();
            Self(starting.into_iter().map(|server| server.join().unwrap()).collect())
        })
    }

    /// The URL of each node.
    pub fn urls(&self) -> Vec<String> {
        self.0.iter().map(Server::url).collect()
    }

    /// A client of all of them that a busy machine does not upset.
    pub fn client(&self) -> Builder {
        patient(self.urls())
    }

    /// A proxy in front of each.
    pub fn proxies(&self) -> Vec<Proxy> {
        self.iter().map(|server| Proxy::start(server.port())).collect()
    }

    /// Returns once all of the nodes vote for this client, and no node has a key of this call any
    /// more. The first locks of a client may be granted by the quorum that is connected by then.
    pub async fn warm_up(&self, client: &Redlock) {
        wait_until("every node votes", async || {
            // A machine that is busy may make an attempt fail.
            let Ok(guard) = client.lock(WARM_UP).await else { return false };
            let votes = self.settled_votes(&guard).await;
            guard.release().await.is_ok() && votes == self.len()
        })
        .await;
        wait_until("the warm-up has left no key", async || {
            self.iter().all(|node| node.keys().iter().all(|key| !key.ends_with(WARM_UP)))
        })
        .await;
    }

    /// The votes of a new lock, after a pause in which the nodes behind the quorum can answer as
    /// well. The pause is short, because some nodes may never answer.
    async fn settled_votes(&self, guard: &LockGuard) -> usize {
        let moment = Instant::now() + Duration::from_millis(200);
        while guard.votes() < self.len() && Instant::now() < moment {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        guard.votes()
    }

    /// How many of the nodes have this key.
    pub fn holding(&self, key: &str) -> usize {
        self.0.iter().filter(|server| server.get(key).is_some()).count()
    }

    /// The smallest number of nodes that is a quorum.
    pub fn quorum(&self) -> usize {
        self.len() / 2 + 1
    }

    /// No node has any key.
    pub fn are_empty(&self) -> bool {
        self.0.iter().all(|server| server.keys().is_empty())
    }
}

impl Deref for Nodes {
    type Target = [Server];

    fn deref(&self) -> &[Server] {
        &self.0
    }
}
