//! The state that all clones of a [`Redlock`](crate::Redlock) share.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use tokio::sync::watch;

use crate::{
    clock::{Clock, Moment},
    error::LockError,
    gate::Gate,
    lease::{InFlightGuard, Leases},
    node::{NodeHandle, memory::MemoryNode},
    quorum::Nodes,
    resources::Resources,
    runtime::check_runtime,
    settings::Settings,
    token::{Entropy, fresh_value},
    wait::Queues,
};

pub(crate) struct Client {
    pub(crate) settings: Settings,
    pub(crate) nodes: Arc<Nodes>,
    /// The nodes that are in this process.
    pub(crate) memory: Vec<MemoryNode>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) leases: Arc<Leases>,
    /// The queues of waiters before each lock.
    pub(crate) queues: Arc<Queues>,
    /// A caller that finds it full waits before its validity clock starts.
    pub(crate) gate: Gate,
    /// The number that identifies this client when it asks nodes for permits.
    asker: OnceLock<u64>,
    /// True once no new lock is given.
    closed: watch::Sender<bool>,
}

impl Client {
    pub(crate) fn new(
        settings: Settings,
        nodes: Vec<NodeHandle>,
        memory: Vec<MemoryNode>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        let Settings { node_timeout, connect_timeout, max_waiters, .. } = settings;
        let nodes = Arc::new(Nodes::new(nodes, clock, node_timeout, connect_timeout));
        let queues = Queues::new(&nodes, max_waiters);
        Self {
            settings,
            nodes,
            memory,
            entropy,
            leases: Arc::clone(&queues.leases),
            queues,
            gate: Gate::default(),
            asker: OnceLock::new(),
            closed: watch::Sender::new(false),
        }
    }

    /// A number that no other client has. Zero if none can be drawn.
    pub(crate) fn asker(&self) -> u64 {
        *self.asker.get_or_init(|| {
            let mut bytes = [0; 8];
            self.entropy.fill(&mut bytes).map_or(0, |()| u64::from_le_bytes(bytes))
        })
    }

    /// The value of a fresh attempt, or of a place in a queue. Secret (rule 19).
    pub(crate) fn fresh_value(&self) -> Result<String, LockError> {
        fresh_value(&*self.entropy, &self.settings.client_name)
    }

    /// Whether all its nodes are in this process.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.memory.len() == self.nodes.len()
    }

    pub(crate) fn key(&self, resource: &str) -> Arc<str> {
        [&*self.settings.key_prefix, resource].concat().into()
    }

    /// The keys of these resources, in the order of all clients: sets that overlap line up in it, and
    /// never wait for each other in a circle.
    pub(crate) fn keys(&self, resources: &Resources) -> (Arc<str>, Box<[Arc<str>]>) {
        if let [resource] = resources.as_slice() {
            return (self.key(resource), Box::default());
        }
        let mut keys = resources.as_slice().iter().map(|it| self.key(it)).collect::<Vec<_>>();
        keys.sort_unstable();
        let mut keys = keys.into_iter();
        let first = keys.next().unwrap_or_else(|| self.key(""));
        (first, keys.collect())
    }

    /// Starts the background tasks, or starts them again when their runtime has ended (rule 13).
    pub(crate) fn ensure_running(&self) {
        self.leases.ensure_running();
    }

    /// Starts the tasks like [`ensure_running`](Self::ensure_running), and takes over here what
    /// stands still on another runtime.
    pub(crate) fn ensure_moving(&self, now: Moment) {
        self.leases.ensure_moving(now);
    }

    /// Starts the tasks of the client. Waits, on the first use only, until a quorum of nodes is connected or
    /// cannot be, at most `connect_timeout`.
    pub(crate) async fn ready(&self) -> Result<(), LockError> {
        check_runtime()?;
        self.ensure_moving(self.nodes.clock.now());
        if !self.nodes.is_ready() {
            self.nodes.wait_until_ready().await;
        }
        Ok(())
    }

    /// Waits like [`ready`](Self::ready), or until the client is closed. For a request for this resource.
    pub(crate) async fn ready_or_closed(&self, resource: &str) -> Result<(), LockError> {
        tokio::select! {
            biased;
            ready = self.ready() => ready,
            () = self.closed() => self.check_open(resource),
        }
    }

    pub(crate) fn check_open(&self, resource: &str) -> Result<(), LockError> {
        if self.is_closed() {
            return Err(LockError::ShuttingDown { resource: resource.to_owned() });
        }
        Ok(())
    }

    /// Counts what is about to be asked for this resource as in flight, unless the client is closed.
    pub(crate) fn enter(&self, resource: &str) -> Result<InFlightGuard, LockError> {
        self.leases.track_if(|| self.check_open(resource))
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Resolves when no new lock is given any more.
    pub(crate) async fn closed(&self) {
        // The sender is in `self`, so that waiting for it cannot fail.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    /// Has [`is_closed`](Self::is_closed) say so, and wakes no task. The shutdown that follows wakes them.
    pub(crate) fn mark_closed(&self) {
        self.closed.send_if_modified(|closed| {
            *closed = true;
            false
        });
    }

    /// Gives no new lock any more, and wakes all that wait for one.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
        self.leases.registry.close();
        self.queues.close();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock")
            .field("nodes", &self.nodes)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
