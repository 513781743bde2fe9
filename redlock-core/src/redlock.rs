//! The client that a user holds.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    builder::Builder,
    client::Client,
    error::LockError,
    guard::{LockGuard, LockHandle},
    lead::LeadRequest,
    node::{Node, NodeHealth, memory::MemoryNode},
    op::{
        hand_off::{self, Lease},
        health, inspect,
    },
    options::LockOptions,
    request::LockRequest,
    resources::Resources,
    shutdown,
    status::LockStatus,
    wait::Requests,
    waiting::Waiting,
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
    /// [`Config`](LockError::Config) as for [`Builder::build`]. [`NoQuorum`](LockError::NoQuorum),
    /// after at most `connect_timeout` and `node_timeout`, with the answer of each node.
    ///
    /// # Cancellation safety
    ///
    /// When the future is dropped, nothing stays behind.
    pub async fn connect<I>(nodes: I) -> Result<Self, LockError>
    where
        I: IntoIterator,
        I::Item: Into<Node>,
    {
        let redlock = Self::builder().nodes(nodes).build()?;
        health::check_quorum(&redlock.client).await?;
        Ok(redlock)
    }

    /// A client over this many nodes inside this process, at least one, for demos and tests.
    /// [`memory_nodes`](Self::memory_nodes) returns the nodes.
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

    /// The nodes inside this process, in the order in which they were given. Tests stop them.
    #[must_use]
    pub fn memory_nodes(&self) -> Vec<MemoryNode> {
        self.client.memory.clone()
    }

    /// Asks for the lock on `resource`, 1 to 1024 bytes. Await the request for a guard.
    pub fn lock(&self, resource: impl Into<String>) -> LockRequest {
        LockRequest::new(&self.client, Resources::One(resource.into()), LockOptions::new())
    }

    /// Asks for the locks on all these resources, 1 to 64 of them: all or none. What a lock does, a set
    /// does as a whole: each node takes, renews and deletes all its keys in one step, and it is lost
    /// when so many nodes have lost any of its keys that no quorum is left. A resource that is named
    /// twice counts once, and a set of one resource is that lock.
    ///
    /// Sets that overlap never wait for each other in a circle, in whatever order they name their
    /// resources, because they line up in the same order. A set has its turn before each lock, and takes
    /// none before it can have all: beside single locks that are held for seconds and wanted all the time it may
    /// wait for long.
    ///
    /// [`fenced`](LockRequest::fenced) gives one token for the set, larger than every token that was
    /// given for any of its resources before. Show it to the store for each of them: a later holder of one of them alone
    /// is seen there and nowhere else.
    ///
    /// A set needs scripts on the nodes (`+eval +evalsha`) and `+mget +exists`. On a Redis cluster, all
    /// resources of a set must be in one slot: put the same hash tag into each, as in
    /// `"{bank}:account:1"`.
    ///
    /// # Errors
    ///
    /// Those of a lock, with the resources of the set as `resource`.
    /// [`InvalidResource`](LockError::InvalidResource) for a set without a resource or with more than
    /// 64, when awaited.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let redlock = redlock_core::Redlock::in_memory(3);
    /// let guard = redlock.lock_all(["account:1", "account:2"]).await?;
    /// assert_eq!(guard.resources(), ["account:1", "account:2"]);
    /// assert!(redlock.try_lock("account:2").await.unwrap_err().is_held());
    /// guard.release().await?;
    /// # Ok::<(), redlock_core::LockError>(()) }).unwrap();
    /// ```
    pub fn lock_all<I>(&self, resources: I) -> LockRequest
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        LockRequest::new(&self.client, Resources::all(resources), LockOptions::new())
    }

    /// Asks for the lock on `resource` with at most one attempt. It waits for no holder;
    /// [`LockOptions::wait`] says what may delay the attempt.
    pub fn try_lock(&self, resource: impl Into<String>) -> LockRequest {
        let once = LockOptions::new().wait(Duration::ZERO);
        LockRequest::new(&self.client, Resources::One(resource.into()), once)
    }

    /// Takes up a lock that another process, or another client of this one, has handed over with
    /// [`LockGuard::into_lease`]: once, and only while it is still valid. The nodes and the `key_prefix`
    /// of both clients are the same.
    ///
    /// One round trip. The lock counts from now on as if it were acquired with the same settings, but
    /// without a label. A node that may have forgotten locks gives no vote, nor does a node that had not
    /// confirmed the lock when it was handed over: no other client held the lock in between.
    ///
    /// Give a lease to one client. Of several that try to adopt it at once, at most one gets the lock, and
    /// possibly none of them.
    ///
    /// # Errors
    ///
    /// [`Lost`](LockError::Lost) when the lease has expired, was adopted before, or is not on a quorum of
    /// nodes any more. [`NoQuorum`](LockError::NoQuorum) when too many nodes failed to know: what was
    /// taken over is released. [`ShuttingDown`](LockError::ShuttingDown).
    /// [`Config`](LockError::Config) for a ttl that this client does not allow, and outside a tokio
    /// runtime.
    ///
    /// # Cancellation safety
    ///
    /// When the future is dropped, what was taken over is released.
    pub async fn adopt(&self, lease: Lease) -> Result<LockGuard, LockError> {
        let hold = hand_off::adopt(&self.client, lease).await?;
        Ok(LockGuard::new(&self.client, hold))
    }

    /// Campaigns for `role`, the name of a lock, 1 to 1024 bytes: of all clients that do so, one leads
    /// at a time. [`run`](LeadRequest::run) the request.
    pub fn lead(&self, role: impl Into<String>) -> LeadRequest {
        LeadRequest::new(&self.client, role.into())
    }

    /// The locks that this process holds now through this client.
    #[must_use]
    pub fn held(&self) -> Vec<LockHandle> {
        let leases = &self.client.leases;
        let holds = leases.registry.all().into_iter().map(|hold| LockHandle::new(leases, hold));
        holds.filter(LockHandle::is_valid).collect()
    }

    /// The locks that tasks of this process wait for now through this client, or are just asking for;
    /// the longest wait first. A set counts for each resource for which it stands in line. Asks no node:
    /// [`inspect`](Self::inspect) shows the clients that wait.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::future::IntoFuture;
    ///
    /// let redlock = redlock_core::Redlock::in_memory(3);
    /// let guard = redlock.lock("invoice:42").await?;
    /// let second = tokio::spawn(redlock.lock("invoice:42").into_future());
    /// # tokio::task::yield_now().await;
    /// let [waits] = &redlock.waiting()[..] else { panic!() };
    /// assert_eq!((waits.resource(), waits.requests()), ("invoice:42", 1));
    /// # drop(guard); second.await.unwrap()?;
    /// # Ok::<(), redlock_core::LockError>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn waiting(&self) -> Vec<Waiting> {
        let Client { queues, settings, nodes, .. } = &*self.client;
        let now = nodes.clock.now();
        let mut requests = queues.requests();
        requests.sort_unstable_by(|a, b| (a.since, &a.key).cmp(&(b.since, &b.key)));
        let named = requests.into_iter().map(|Requests { key, count, since }| {
            let resource = key.strip_prefix(&*settings.key_prefix).unwrap_or(&key);
            Waiting::new(resource, count, now.since(since))
        });
        named.collect()
    }

    /// The name of this client, as [`inspect`](Self::inspect) shows it to others.
    #[must_use]
    pub fn client_name(&self) -> &str {
        &self.client.settings.client_name
    }

    /// The state of the lock on `resource` on the nodes: its holder, its remaining time, and the
    /// clients that wait for it. For operators: the answer is out of date at once, so a program
    /// must not decide by it whether it may work.
    ///
    /// Asks every node and waits for all, each for at most `node_timeout`, and on first use at most
    /// `connect_timeout` for connections. A node that does not answer is
    /// told as such. Nodes that sit out answer, too.
    ///
    /// # Errors
    ///
    /// [`InvalidResource`](LockError::InvalidResource); [`Config`](LockError::Config) outside a tokio
    /// runtime.
    ///
    /// # Cancellation safety
    ///
    /// Nothing changes, whenever the future is dropped.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let redlock = redlock_core::Redlock::builder()
    ///     .nodes([redlock_core::MemoryNode::new()])
    ///     .client_name("checkout-1")
    ///     .build()?;
    /// let guard = redlock.lock("invoice:42").await?;
    /// let status = redlock.inspect("invoice:42").await?;
    /// assert_eq!(status.holder(), Some("checkout-1"));
    /// assert!(status.remaining() <= guard.validity() + std::time::Duration::from_secs(1));
    /// # Ok::<(), redlock_core::LockError>(()) }).unwrap();
    /// ```
    pub async fn inspect(&self, resource: impl Into<String>) -> Result<LockStatus, LockError> {
        inspect::inspect(&self.client, &resource.into()).await
    }

    /// Takes the lock on `resource` away from its holder, safely: the holder is told at its next
    /// renewal, and no client gets the lock before what was left of it has run out.
    ///
    /// For a holder that hangs and renews all the same. A lock that is free stays free. A holder that is
    /// gone needs none of this: its lock expires by itself.
    ///
    /// Nodes that run Redis 5 refuse this as a syntax error, because they do not know `SET .. KEEPTTL`. If
    /// they are a majority, end the holder and wait, or use
    /// [`force_release_now`](Self::force_release_now).
    ///
    /// # Errors
    ///
    /// [`NoQuorum`](LockError::NoQuorum) when too few nodes have answered: the holder may keep the lock,
    /// so try again. [`InvalidResource`](LockError::InvalidResource); [`Config`](LockError::Config)
    /// outside a tokio runtime.
    ///
    /// # Cancellation safety
    ///
    /// When the future is dropped, the lock may be taken away or not.
    pub async fn force_release(&self, resource: impl Into<String>) -> Result<(), LockError> {
        inspect::force_release(&self.client, &resource.into()).await
    }

    /// Deletes the lock on `resource` at once, whichever client holds it. The next client gets it while
    /// the holder still works, until the holder's next renewal tells it of the loss: the two overlap.
    /// Use [`force_release`](Self::force_release) unless that does no harm.
    ///
    /// # Errors
    ///
    /// As for [`force_release`](Self::force_release).
    ///
    /// # Cancellation safety
    ///
    /// When the future is dropped, the lock may be deleted or not.
    pub async fn force_release_now(&self, resource: impl Into<String>) -> Result<(), LockError> {
        inspect::force_release_now(&self.client, &resource.into()).await
    }

    /// Releases everything. Bodies of `run`, macro and layer are dropped first, also those with
    /// `on_lost = "continue"`, then their locks are released. Bare guards are told and released too, so
    /// their code must have stopped. New locks stay allowed.
    ///
    /// Returns when every node that answers has confirmed, after at most 2 s; at once outside a
    /// tokio runtime.
    ///
    /// # Cancellation safety
    ///
    /// When the future is dropped, holders that were told stay told.
    pub async fn release_all(&self) {
        shutdown::release_all(&self.client).await;
    }

    /// The health of each node: asks each for a sign of life. One entry a node, in the order given.
    ///
    /// Each node has `connect_timeout` and `node_timeout` to answer. Outside a tokio runtime every node is
    /// down.
    ///
    /// # Cancellation safety
    ///
    /// Nothing changes, whenever the future is dropped.
    pub async fn health(&self) -> Vec<NodeHealth> {
        health::health(&self.client).await
    }

    /// Refuses new locks, lets holders finish for `grace`, then drops the bodies of `run`, macro
    /// and layer and releases them. That ends bodies with `on_lost = "continue"`, too. A bare guard is told
    /// by `lost()` and no longer renewed; its key goes when the guard is dropped or its ttl ends, since its
    /// code may still run.
    ///
    /// Returns when every node that answers has confirmed, after at most `grace` plus 2 s; outside
    /// a tokio runtime there is no grace and no waiting.
    ///
    /// # Cancellation safety
    ///
    /// When the future is dropped, the client stays closed, and the rest of the shutdown does not
    /// happen.
    pub async fn shutdown(&self, grace: Duration) {
        shutdown::shutdown(&self.client, grace).await;
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}
