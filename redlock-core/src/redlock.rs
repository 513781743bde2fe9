//! The client that a user holds.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::join_all;

use crate::{
    builder::Builder,
    client::Client,
    error::LockError,
    guard::LockHandle,
    node::{Node, NodeHandle, NodeHealth, NodeState, memory::MemoryNode},
    options::LockOptions,
    quorum::{quorum, twin},
    request::LockRequest,
    shutdown,
};

/// A client of one set of nodes. Cheap to clone; all clones are one client.
#[derive(Clone)]
pub struct Redlock {
    client: Arc<Client>,
}

impl Redlock {
    /// Configures a client.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redlock_core::Redlock;
    ///
    /// let redlock = Redlock::builder()
    ///     .nodes(["redis://127.0.0.1:7101", "redis://127.0.0.1:7102", "redis://127.0.0.1:7103"])
    ///     .ttl(Duration::from_secs(10))
    ///     .build()?;
    /// # let _ = redlock;
    /// # Ok::<(), redlock_core::LockError>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// A client with the defaults, once a quorum of the nodes has answered.
    ///
    /// # Errors
    ///
    /// [`Config`](LockError::Config) as [`Builder::build`]; [`NoQuorum`](LockError::NoQuorum),
    /// after at most `connect_timeout` and `node_timeout`, with what each node said.
    ///
    /// # Cancellation safety
    ///
    /// Nothing stays behind.
    pub async fn connect<I>(nodes: I) -> Result<Self, LockError>
    where
        I: IntoIterator,
        I::Item: Into<Node>,
    {
        let redlock = Self::builder().nodes(nodes).build()?;
        let client = &redlock.client;
        let begun = client.clock.now();
        client.ready().await?;
        let (mut granted, mut failed) = (0, Vec::new());
        for health in redlock.health().await {
            match health.state {
                NodeState::Up { .. } => granted += 1,
                NodeState::Down { error } => failed.push(error),
            }
        }
        let quorum = quorum(client.nodes.len());
        if granted >= quorum {
            return Ok(redlock);
        }
        Err(LockError::NoQuorum {
            resource: String::new(),
            attempts: 1,
            waited: client.clock.now().since(begun),
            granted,
            quorum,
            nodes: failed,
        })
    }

    /// A client over this many nodes inside this process, at least one: for demos and tests. They
    /// are [`memory_nodes`](Self::memory_nodes).
    #[must_use]
    pub fn in_memory(nodes: usize) -> Self {
        Builder::in_memory(nodes)
    }

    pub(crate) fn from_client(client: Arc<Client>) -> Self {
        Self { client }
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// The nodes inside this process, in the order in which they were given: to stop one and see.
    #[must_use]
    pub fn memory_nodes(&self) -> Vec<MemoryNode> {
        self.client.memory.clone()
    }

    /// Asks for the lock on `resource`, 1 to 1024 bytes. Await the request for a guard.
    pub fn lock(&self, resource: impl Into<String>) -> LockRequest {
        LockRequest::new(&self.client, resource.into(), LockOptions::new())
    }

    /// Asks for the lock on `resource` with at most one attempt.
    pub fn try_lock(&self, resource: impl Into<String>) -> LockRequest {
        let once = LockOptions::new().wait(Duration::ZERO);
        LockRequest::new(&self.client, resource.into(), once)
    }

    /// What this process holds now through this client.
    #[must_use]
    pub fn held(&self) -> Vec<LockHandle> {
        let holds = self.client.registry.all().into_iter().map(LockHandle::new);
        holds.filter(LockHandle::is_valid).collect()
    }

    /// Lets go of everything: drops the bodies of `run`, macro and layer, then releases them; bare
    /// guards are told and released too, so their code must have stopped. New locks stay allowed.
    ///
    /// Returns when every node that answers has confirmed, after at most 2 s; at once outside a
    /// tokio runtime.
    ///
    /// # Cancellation safety
    ///
    /// What has been told stays told.
    pub async fn release_all(&self) {
        shutdown::release_all(&self.client).await;
    }

    /// How each node is: asks each for a sign of life. One entry a node, in the order given.
    pub async fn health(&self) -> Vec<NodeHealth> {
        self.client.ensure_running();
        let nodes = &self.client.nodes;
        let mut healths = join_all(nodes.iter().map(NodeHandle::health)).await;
        for (index, health) in healths.iter_mut().enumerate() {
            if let Some(error) = twin(nodes, index) {
                health.state = NodeState::Down { error };
            }
        }
        healths
    }

    /// Refuses new locks, lets holders finish for `grace`, then drops the bodies of `run`, macro
    /// and layer and releases them. A bare guard is told by `lost()` and no longer renewed; its key
    /// goes when the guard is dropped or its ttl ends, since its code may still run.
    ///
    /// Returns when every node that answers has confirmed, after at most `grace` plus 2 s; outside
    /// a tokio runtime there is no grace and no waiting.
    ///
    /// # Cancellation safety
    ///
    /// The client stays closed; what is left of the shutdown does not happen.
    pub async fn shutdown(&self, grace: Duration) {
        shutdown::shutdown(&self.client, grace).await;
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}
