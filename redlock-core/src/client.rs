//! What all clones of a [`Redlock`](crate::Redlock) share.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::sync::{Semaphore, watch};

use crate::{
    bug::{Bug, planted},
    clock::Clock,
    error::LockError,
    lease::Registry,
    node::{NodeHandle, Standing, memory::MemoryNode},
    options::Settings,
    quorum::quorum,
    runtime::{self, Unusable},
    token::Entropy,
    wait::Queues,
};

/// The most attempts in progress at once. A caller beyond them waits before its validity clock
/// starts: if all asked at once, the answers would come too late.
const MAX_ATTEMPTS: usize = 512;

pub(crate) struct Client {
    pub(crate) settings: Settings,
    pub(crate) nodes: Box<[NodeHandle]>,
    /// The nodes that are in this process.
    pub(crate) memory: Vec<MemoryNode>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) registry: Registry,
    /// The queues of waiters before each lock.
    pub(crate) queues: Arc<Queues>,
    /// What is left of older ranges of numbers: [`Bug::OldRangeUsed`].
    #[cfg(redlock_sim)]
    pub(crate) old_ranges:
        parking_lot::Mutex<std::collections::BTreeMap<Arc<str>, crate::fence::Range>>,
    /// Lets in as many attempts as the nodes can answer in time.
    pub(crate) gate: Semaphore,
    /// The number of attempts in progress, and of leases on their way to the next hold.
    in_flight: AtomicUsize,
    /// True once no new lock is given.
    closed: watch::Sender<bool>,
    /// A quorum has been waited for since the tasks were last started.
    ready: AtomicBool,
    /// A quorum has answered at least once.
    quorum_seen: AtomicBool,
}

impl Client {
    pub(crate) fn new(
        settings: Settings,
        nodes: Vec<NodeHandle>,
        memory: Vec<MemoryNode>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        let registry = Registry::new(settings.max_ttl);
        Self {
            settings,
            nodes: nodes.into_boxed_slice(),
            memory,
            clock,
            entropy,
            registry,
            queues: Arc::default(),
            #[cfg(redlock_sim)]
            old_ranges: parking_lot::Mutex::default(),
            gate: Semaphore::new(MAX_ATTEMPTS),
            in_flight: AtomicUsize::new(0),
            closed: watch::Sender::new(false),
            ready: AtomicBool::new(false),
            quorum_seen: AtomicBool::new(false),
        }
    }

    /// Whether all its nodes are in this process.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.memory.len() == self.nodes.len()
    }

    pub(crate) fn key(&self, resource: &str) -> Arc<str> {
        format!("{}{resource}", self.settings.key_prefix).into()
    }

    /// The time after which an answer that `node_timeout` should have bounded is given up on.
    pub(crate) fn give_up_after(&self) -> Duration {
        self.settings.node_timeout.saturating_mul(4)
    }

    /// How long a quorum takes to answer; zero before its first answer.
    pub(crate) fn round_trip(&self) -> Duration {
        let mut all: Vec<_> = self.nodes.iter().map(NodeHandle::round_trip).collect();
        all.sort_unstable();
        all.get(quorum(all.len()).saturating_sub(1)).copied().unwrap_or_default()
    }

    /// Starts the background tasks, or starts them again when their runtime has ended (rule 13).
    pub(crate) fn ensure_running(&self) {
        if !self.nodes.iter().all(NodeHandle::is_running) {
            self.ready.store(false, Ordering::Release);
            self.nodes.iter().for_each(NodeHandle::ensure_running);
        }
        self.registry.ensure_running(&self.clock, || self.when_ended());
    }

    /// Starts the tasks like [`ensure_running`](Self::ensure_running), and takes over here what
    /// stands still on another runtime.
    pub(crate) fn ensure_moving(&self) {
        self.ensure_running();
        self.nodes.iter().for_each(NodeHandle::ensure_moving);
        self.registry.ensure_moving(&self.clock, || self.when_ended());
    }

    /// What to run when holds are no longer renewed.
    fn when_ended(&self) -> impl FnOnce() + Send + use<> {
        let queues = Arc::clone(&self.queues);
        move || queues.nudge()
    }

    /// Whether a quorum has been waited for, so that there is nothing to wait for. Starts the tasks
    /// in either case.
    pub(crate) fn is_ready(&self) -> Result<bool, LockError> {
        check_runtime()?;
        self.ensure_running();
        Ok(self.ready.load(Ordering::Acquire))
    }

    /// Waits, on the first use only, until a quorum of nodes is connected or cannot be, at most
    /// `connect_timeout`.
    pub(crate) async fn ready(&self) -> Result<(), LockError> {
        if self.is_ready()? {
            return Ok(());
        }
        // The attempt that follows finds out whether there is a quorum.
        let _ = crate::timer::timeout(self.settings.connect_timeout, self.connections()).await;
        self.ready.store(true, Ordering::Release);
        Ok(())
    }

    async fn connections(&self) {
        let needed = quorum(self.nodes.len());
        let mut standings: FuturesUnordered<_> =
            self.nodes.iter().map(NodeHandle::standing).collect();
        let (mut up, mut down) = (0, 0);
        while let Some(standing) = standings.next().await {
            match standing {
                Standing::Up => up += 1,
                Standing::Unknown | Standing::Down => down += 1,
            }
            if up >= needed {
                self.note_quorum_seen();
            }
            if up >= needed || down > self.nodes.len() - needed {
                return;
            }
        }
    }

    /// A quorum has answered. From now on, a node that was down and is seen for the first time may
    /// have forgotten locks of this client (rule 16).
    pub(crate) fn note_quorum_seen(&self) {
        if !self.quorum_seen.load(Ordering::Acquire) {
            self.quorum_seen.store(true, Ordering::Release);
            self.nodes.iter().for_each(NodeHandle::note_quorum_seen);
        }
    }

    /// Counts an attempt, or a lease, as in progress for as long as the returned value lives.
    pub(crate) fn track_in_flight(self: &Arc<Self>) -> InFlightGuard {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        InFlightGuard(Arc::clone(self))
    }

    /// Whether an attempt or a lease is in progress that may still leave keys to clean up.
    pub(crate) fn has_in_flight(&self) -> bool {
        self.in_flight.load(Ordering::Acquire) > 0
    }

    pub(crate) fn check_open(&self, resource: &str) -> Result<(), LockError> {
        if self.is_closed() {
            return Err(LockError::ShuttingDown { resource: resource.to_owned() });
        }
        Ok(())
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Resolves when no new lock is given any more.
    pub(crate) async fn closed(&self) {
        // The sender is in `self`: this cannot fail.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
        if !planted(Bug::HandOverDuringShutdown) {
            self.registry.close();
            self.queues.close();
        }
    }
}

/// An attempt in progress, or a lease on its way from one hold to the next.
pub(crate) struct InFlightGuard(Arc<Client>);

impl InFlightGuard {
    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.0
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Nothing that waits for nodes can do so anywhere else, and must not panic there (rule 18).
pub(crate) fn check_runtime() -> Result<(), LockError> {
    Err(LockError::config(match runtime::unusable() {
        None => return Ok(()),
        Some(Unusable::Missing | Unusable::NoTimers) => {
            "a lock must be awaited inside a tokio runtime with timers: use #[tokio::main] or \
             Runtime::block_on, and enable_all() where the runtime is built"
        }
        Some(Unusable::ShutDown) => {
            "the tokio runtime in which the lock is awaited was shut down: await it before that, or \
             on another runtime"
        }
    }))
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock")
            .field("nodes", &self.nodes)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
