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
///
/// Build one for each process and clone it. Every client opens its own connection to each node. Only tasks of one
/// client pass a lock on to each other. A new client has not seen the restarts of nodes that an older one has seen.
#[derive(Clone)]
pub struct Redlock {
    client: Arc<Client>,
}

impl Redlock {
    /// Configures a client. It opens its connections on first use, so the nodes may be down when it is built.
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

    /// Builds a client with the defaults, and waits until a quorum of the nodes has answered.
    ///
    /// Use it in a script or a job that is useless without locks. [`builder`](Self::builder) builds a client while they
    /// are down.
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

    /// Builds a client over this many nodes inside this process, at least one, for demos and tests.
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

    /// Requests the lock on `resource`, 1 to 1024 bytes. Await the request to get a guard.
    ///
    /// Avoid braces in names, except for the hash tag of a cluster: the queue, the permits and the fencing counter of a
    /// lock have keys like `job:{redlock:job}:fence`, beside the lock. With a hash tag, the counter of `{order}` has the
    /// key `{order}:fence`.
    pub fn lock(&self, resource: impl Into<String>) -> LockRequest {
        LockRequest::new(&self.client, Resources::One(resource.into()), LockOptions::new())
    }

    /// Requests the locks on all these resources, 1 to 64 of them: all or none.
    ///
    /// The set acts as one lock. Each node sets, renews and deletes all its keys in one step. The set is lost when so
    /// many nodes have lost any of its keys that no quorum is left. A resource that is named twice counts once. A set
    /// of one resource is the lock on that resource.
    ///
    /// Sets that overlap never wait for each other in a circle, in whatever order they name their resources: all sets
    /// queue in the same order. A set waits in the queue of each of its resources, and takes nothing until it can take
    /// all. If single locks on these resources are held for seconds and always wanted, a set may wait for minutes. In
    /// that case take one lock after the other, in the same order everywhere. That is also faster when many clients
    /// contend for sets that overlap.
    ///
    /// [`fenced`](LockRequest::fenced) gives one token for the set. It is larger than every earlier token of each of
    /// its resources. Show it to the store for every resource of the set: a later holder of one of them alone shows its
    /// token for that resource only.
    ///
    /// A set needs scripts on the nodes (`+eval +evalsha`) and `+mget +exists`. On a Redis cluster, all
    /// resources of a set must be in one slot: put the same hash tag into each, as in
    /// `"{bank}:account:1"`.
    ///
    /// # Errors
    ///
    /// The errors of a lock, with the resources of the set as `resource`.
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

    /// Requests the lock on `resource` with at most one attempt. It does not wait for a holder.
    /// [`LockOptions::wait`] lists what may delay the attempt.
    pub fn try_lock(&self, resource: impl Into<String>) -> LockRequest {
        let once = LockOptions::new().wait(Duration::ZERO);
        LockRequest::new(&self.client, Resources::One(resource.into()), once)
    }

    /// Takes over a lock that another process, or another client of this process, has given away with
    /// [`LockGuard::into_lease`]. A lease can be adopted once, and only while it is valid. Both clients must have the
    /// same nodes and the same `key_prefix`.
    ///
    /// This takes one round trip. If the runtime that reads the answers of the nodes ends or stands still, they are asked
    /// again, as long as the lease is valid. From now on, the lock is as if it were acquired with the same settings, but without a
    /// label.
    ///
    /// A node votes only if it had confirmed the lock at the hand-over, and does not sit out after a restart. A
    /// server with several names votes once. This proves that no other client held the lock in between.
    ///
    /// Give a lease to one client. If several try to adopt it at once, at most one of them gets the lock, and possibly
    /// none.
    ///
    /// # Errors
    ///
    /// - [`Lost`](LockError::Lost) if the lease cannot be adopted any more; nothing ran. Its reason is
    ///   [`Expired`](crate::LostReason::Expired) if the lease has expired. It is
    ///   [`Refused`](crate::LostReason::Refused), "too many nodes no longer had it", if it was adopted before, has been
    ///   released since, or is no longer on a quorum of nodes: the nodes cannot tell these cases apart. A lock that
    ///   another client has adopted is not affected.
    /// - [`NoQuorum`](LockError::NoQuorum) if too many nodes failed to decide. What was taken over is released.
    /// - [`ShuttingDown`](LockError::ShuttingDown).
    /// - [`Config`](LockError::Config) for a ttl that this client does not allow, and outside a tokio runtime.
    ///
    /// # Cancellation safety
    ///
    /// If the future is dropped, what was taken over is released.
    pub async fn adopt(&self, lease: Lease) -> Result<LockGuard, LockError> {
        let hold = hand_off::adopt(&self.client, lease).await?;
        Ok(LockGuard::new(&self.client, hold))
    }

    /// Campaigns for `role`, the name of a lock, 1 to 1024 bytes. Of all clients that campaign for it, one leads
    /// at a time. Nothing happens until the request is [`run`](LeadRequest::run).
    pub fn lead(&self, role: impl Into<String>) -> LeadRequest {
        LeadRequest::new(&self.client, role.into())
    }

    /// Returns the locks that this process holds now through this client. A lock in doubt, which a renewal has yet to
    /// confirm after a pause of the process, is not among them.
    #[must_use]
    pub fn held(&self) -> Vec<LockHandle> {
        let leases = &self.client.leases;
        let holds = leases.registry.all().into_iter().map(|hold| LockHandle::new(leases, hold));
        holds.filter(LockHandle::is_valid).collect()
    }

    /// Returns the locks that tasks of this process wait for through this client, or are just asking for,
    /// with the longest wait first. A set counts once for each queue that it is in. No node is asked.
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

    /// Asks the nodes for the state of the lock on `resource`: its holder, its remaining time, and the
    /// clients that wait for it. This is for operators. The answer is out of date at once, so a program
    /// must not use it to decide whether it may work.
    ///
    /// Every node is asked. The call waits for all of them, for at most `node_timeout` each, and on first use for at
    /// most `connect_timeout` for connections. A node that does not answer is listed as
    /// [`LockState::Unknown`](crate::LockState::Unknown). Nodes that sit out answer as well.
    ///
    /// # Errors
    ///
    /// [`InvalidResource`](LockError::InvalidResource); [`Config`](LockError::Config) outside a tokio
    /// runtime.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
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

    /// Takes the lock on `resource` away from its holder without an overlap. The holder loses the lock at its next
    /// renewal. No other client gets the lock until the remaining time of its keys has run out.
    ///
    /// Use it for a holder that hangs but still renews its lock. A lock that is free stays free. The lock of a holder
    /// that has crashed expires by itself. If a node does not answer, look at the lock again with
    /// [`inspect`](Self::inspect): a holder that was setting its key again on a node at that moment may keep it.
    ///
    /// Nodes that run Redis 5 refuse this as a syntax error, because they do not know `SET .. KEEPTTL`. If
    /// they are a majority, end the holder and wait, or use
    /// [`force_release_now`](Self::force_release_now).
    ///
    /// # Errors
    ///
    /// - [`NoQuorum`](LockError::NoQuorum) if too few nodes answered. The holder may keep the lock: try again.
    /// - [`InvalidResource`](LockError::InvalidResource).
    /// - [`Config`](LockError::Config) outside a tokio runtime.
    ///
    /// # Cancellation safety
    ///
    /// If the future is dropped, the lock may have been taken away or not.
    pub async fn force_release(&self, resource: impl Into<String>) -> Result<(), LockError> {
        inspect::force_release(&self.client, &resource.into()).await
    }

    /// Deletes the lock on `resource` at once, whichever client holds it. Another client can take it while the holder
    /// still works: the holder notices the loss at its next renewal. Until then, its process may hand the lock on with
    /// a [token](crate::FencingToken) that is smaller than that of the other client. Use
    /// [`force_release`](Self::force_release) unless this overlap does no harm.
    ///
    /// # Errors
    ///
    /// As for [`force_release`](Self::force_release).
    ///
    /// # Cancellation safety
    ///
    /// If the future is dropped, the lock may have been deleted or not.
    pub async fn force_release_now(&self, resource: impl Into<String>) -> Result<(), LockError> {
        inspect::force_release_now(&self.client, &resource.into()).await
    }

    /// Releases all locks of this client. Bodies of `run`, macro and layer are dropped first, also those with
    /// `on_lost = "continue"`. Then their locks are released. Bare guards are released as well, and their `lost()`
    /// resolves: their code must have stopped before. The client can still take new locks.
    ///
    /// Returns when every node that answers has confirmed, after at most 2 s. While other tasks go on taking locks,
    /// that may take the 2 s. Outside a tokio runtime it returns at once.
    ///
    /// # Cancellation safety
    ///
    /// If the future is dropped, the locks that have ended stay ended.
    pub async fn release_all(&self) {
        shutdown::release_all(&self.client).await;
    }

    /// Returns the health of each node, in the order in which the nodes were given. Each node is sent a `PING`, except
    /// those that are known to be down: for them the last error is returned.
    ///
    /// Each node has `connect_timeout` plus `node_timeout` to answer. Outside a tokio runtime every node is
    /// down.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    pub async fn health(&self) -> Vec<NodeHealth> {
        health::health(&self.client).await
    }

    /// Ends this client. It refuses new locks and lets holders finish for `grace`. Then it drops the bodies of `run`,
    /// macro and layer, also those with `on_lost = "continue"`, and releases their locks. The lock of a bare guard is
    /// no longer renewed, and `lost()` resolves. Its code may still run, so its key stays until the guard is dropped or
    /// the ttl ends.
    ///
    /// Returns when every node that answers has confirmed, after at most `grace` plus 2 s. Outside a tokio runtime it
    /// does not wait, not even for `grace`.
    ///
    /// # Cancellation safety
    ///
    /// If the future is dropped, the client stays closed. The rest of the shutdown does not happen.
    pub async fn shutdown(&self, grace: Duration) {
        shutdown::shutdown(&self.client, grace).await;
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}

#[cfg(test)]
mod tests;
