//! A node as the rest of the crate sees it: hand a job in, ask how it is.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};

use super::{
    Connector, Identity, Job, Listener, NodeSpec, Restarts, Watchers,
    outbox::{Link, Outbox},
    pipe::Pipe,
    quarantine::Quarantine,
    round_trip::RoundTrip,
    supervisor,
};
use crate::{
    background::{Background, Pulse, in_runtime},
    clock::{Clock, Moment},
    error::{NodeError, NodeErrorKind},
    quorum::{EarlyReply, ReplyTo},
    token::Entropy,
};

/// What a client lends to its nodes.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) node_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) restarts: Restarts,
    /// How long a node that may have forgotten locks gives no votes.
    pub(crate) sits_out: Duration,
}

/// What connects, sends and cleans up for one node, shared with its background task.
pub(super) struct Shared {
    pub(super) name: Arc<str>,
    pub(super) connector: Arc<dyn Connector>,
    pub(super) context: Context,
    /// Locked after the pipe where both are needed.
    pub(super) outbox: Mutex<Outbox>,
    pub(super) pipe: Mutex<Pipe>,
    /// Tells the task that something was put into the outbox, or sent by its caller. Each task has
    /// its own: one that was taken over must not get what is meant for the next.
    mail: Mutex<Arc<Notify>>,
    pub(super) round_trip: RoundTrip,
    /// Whether there is a connection.
    is_up: AtomicBool,
    /// The process at its other end was suspected of having forgotten locks, and may sit out.
    pub(super) is_suspect: AtomicBool,
    /// Whether the node pushes changes of keys over the present connection.
    pub(super) tells: AtomicBool,
    pub(super) watchers: Arc<Watchers>,
    /// Whether the first connection has been made, or has failed.
    pub(super) standing: watch::Sender<Standing>,
    /// A client of this node has had a quorum.
    pub(super) quorum_seen: AtomicBool,
    /// The fingerprint of the process that answered last; zero when it has told no name.
    process: AtomicU64,
    task: Background,
}

/// Whether a node can be counted on, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Unknown,
    Up,
    Down,
}

impl Shared {
    /// Changes the link. [`announce`](Self::announce) tells of it once nothing is locked.
    pub(super) fn relink(&self, outbox: &mut Outbox, link: Link) {
        self.is_up.store(matches!(link, Link::Up), Ordering::Release);
        outbox.link = link;
    }

    /// Tells the tasks that wait for the link how it is. A waker may be whatever its executor makes of
    /// it, and poll its task at once.
    pub(super) fn announce(&self) {
        let standing = match self.outbox.lock().link {
            Link::Opening => Standing::Unknown,
            Link::Up => Standing::Up,
            Link::Down(_) => Standing::Down,
        };
        self.standing.send_replace(standing);
    }

    /// Remembers which process answers.
    pub(super) fn recognise(&self, identity: &Identity) {
        let fingerprint = identity.run_id.as_ref().map_or(0, |run_id| fnv1a(run_id.as_bytes()));
        self.process.store(fingerprint, Ordering::Release);
    }

    /// Tells the task that there is something to do.
    pub(super) fn notify(&self) {
        let mail = Arc::clone(&self.mail.lock());
        mail.notify_one();
    }

    /// A task that serves the node, and ends the one before.
    fn supervise(self: &Arc<Self>, pulse: Pulse) -> impl Future<Output = ()> + Send + use<> {
        let mail = Arc::<Notify>::default();
        let before = std::mem::replace(&mut *self.mail.lock(), Arc::clone(&mail));
        before.notify_one();
        supervisor::supervise(Arc::clone(self), mail, pulse)
    }

    /// The background task is over. What must not be sent late fails; clean-up waits for the
    /// next task (rule 13).
    fn fail_waiting(&self) {
        let now = self.context.clock.now();
        let abandoned = {
            let mut outbox = self.outbox.lock();
            if self.task.is_running() {
                return;
            }
            self.relink(&mut outbox, Link::Opening);
            let abandoned = outbox.disconnect(now);
            for item in &abandoned {
                outbox.add_cleanup(item.job.clone(), now);
            }
            abandoned
        };
        self.announce();
        // Each `ReplyTo` answers as it is dropped, with no lock held.
        drop(abandoned);
        // A waiter on a living runtime starts the task again there.
        self.watchers.disconnected();
    }
}

/// One node of a client. Shared by the clients of [`pools::quorum_of`](crate::pools::quorum_of).
#[derive(Clone)]
pub(crate) struct NodeHandle {
    owner: Arc<Owner>,
}

/// Ends the background task when the last client lets go, once nothing is owed any more: for a node
/// that stays away, after `max_ttl`.
struct Owner(Arc<Shared>);

impl Drop for Owner {
    fn drop(&mut self) {
        // No key lives for longer than a node sits out: both are `max_ttl`.
        let until = self.0.context.clock.now() + self.0.context.sits_out;
        self.0.outbox.lock().ends_at = Some(until);
        self.0.notify();
    }
}

impl NodeHandle {
    pub(crate) fn new(spec: NodeSpec, context: Context) -> Self {
        let quarantine = Quarantine::new(context.restarts, context.sits_out);
        let shared = Shared {
            name: spec.name,
            connector: spec.connector,
            context,
            outbox: Mutex::new(Outbox::new(quarantine)),
            pipe: Mutex::default(),
            round_trip: RoundTrip::default(),
            is_up: AtomicBool::new(false),
            is_suspect: AtomicBool::new(false),
            tells: AtomicBool::new(false),
            mail: Mutex::default(),
            watchers: Arc::default(),
            standing: watch::Sender::new(Standing::Unknown),
            quorum_seen: AtomicBool::new(false),
            process: AtomicU64::new(0),
            task: Background::default(),
        };
        Self { owner: Arc::new(Owner(Arc::new(shared))) }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.owner.0
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.shared().name
    }

    /// Notes that a client of this node has had a quorum (rule 16).
    pub(crate) fn note_quorum_seen(&self) {
        self.shared().quorum_seen.store(true, Ordering::Release);
    }

    /// Whether one and the same process answers under both names.
    pub(crate) fn is_twin_of(&self, other: &Self) -> bool {
        let process = self.shared().process.load(Ordering::Acquire);
        process != 0 && process == other.shared().process.load(Ordering::Acquire)
    }

    /// Makes sure that a task connects and sends.
    pub(crate) fn ensure_running(&self) {
        let shared = self.shared();
        shared.task.ensure(|pulse| shared.supervise(pulse), self.when_ended());
    }

    /// The same, and has what stands still on another runtime go on here.
    pub(crate) fn ensure_moving(&self) {
        let shared = self.shared();
        let now = self.now();
        if shared.task.is_late(now) {
            shared.task.take_over(now, |pulse| shared.supervise(pulse), self.when_ended());
        }
    }

    fn when_ended(&self) -> impl FnOnce() + Send + use<> {
        let shared = Arc::clone(self.shared());
        move || shared.fail_waiting()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.shared().task.is_running()
    }

    pub(crate) fn now(&self) -> Moment {
        self.shared().context.clock.now()
    }

    /// Hands a job in at `now`. What is known at once comes back.
    ///
    /// A job for an idle node is on its way when this returns, whatever becomes of the caller's
    /// runtime.
    pub(crate) fn submit(&self, job: Job, reply_to: ReplyTo, now: Moment) -> Vec<EarlyReply> {
        let shared = self.shared();
        let mut outbox = shared.outbox.lock();
        // What waits already has woken the supervisor.
        let (first, quiet) = (outbox.nothing_waits(), outbox.is_quiet());
        let early = outbox.put(&shared.name, job, reply_to, now);
        drop(outbox);
        if !early.is_empty() && first {
            // It was answered without being sent.
            return early;
        }
        if quiet {
            // The supervisor is woken by the answer, or for want of one. Said before, because the
            // answer may be there at once.
            shared.task.expect(now + shared.context.node_timeout);
        }
        if first && !(quiet && self.send_now(now)) {
            shared.task.expect(now);
            shared.notify();
        }
        early
    }

    /// Sends what waits from here. False when the supervisor has to see to it.
    fn send_now(&self, now: Moment) -> bool {
        let Some(mut pipe) = self.shared().pipe.try_lock() else { return false };
        if pipe.is_crowded(now) {
            return false;
        }
        let sent = pipe.send_waiting(self.shared(), &&now);
        sent.largest > 0 && !sent.tell_supervisor
    }

    /// Why this node gives no vote for a new lock at `now`, as far as is known without asking it.
    pub(crate) fn refuses_votes(&self, now: Moment) -> Option<NodeError> {
        let shared = self.shared();
        shared.outbox.lock().refuses_votes(&shared.name, now)
    }

    /// Whether it surely gives votes, so that [`refuses_votes`](Self::refuses_votes) need not look.
    pub(crate) fn gives_votes(&self) -> bool {
        self.is_up() && !self.shared().is_suspect.load(Ordering::Acquire)
    }

    /// How long this node takes to answer; zero before its first answer.
    pub(crate) fn round_trip(&self) -> Duration {
        self.shared().round_trip.get()
    }

    /// Whether it pushes changes of keys to this client.
    pub(crate) fn tells_changes(&self) -> bool {
        self.shared().tells.load(Ordering::Acquire) && self.is_up()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.shared().is_up.load(Ordering::Acquire)
    }

    /// A number that all clients have for this server: from its run id, or from its address where
    /// it tells none.
    pub(crate) fn fingerprint(&self) -> u64 {
        match self.shared().process.load(Ordering::Acquire) {
            0 => fnv1a(self.name().as_bytes()),
            process => process,
        }
    }

    /// Registers a listener for a key.
    pub(crate) fn listen(&self, key: &Arc<str>, node: usize, listener: Arc<dyn Listener>) {
        self.shared().watchers.add(key, node, listener);
    }

    pub(crate) fn stop_listening<L: Listener>(&self, key: &str, listener: &Arc<L>) {
        self.shared().watchers.remove(key, listener);
    }

    #[cfg(test)]
    pub(crate) fn watchers(&self) -> &Watchers {
        &self.shared().watchers
    }

    /// Waits until the first connection is made or has failed.
    pub(crate) async fn standing(&self) -> Standing {
        let mut standing = self.shared().standing.subscribe();
        match standing.wait_for(|standing| *standing != Standing::Unknown).await {
            Ok(standing) => *standing,
            Err(_) => Standing::Unknown,
        }
    }

    /// Whether everything handed in has been seen through, or cannot be because the node is down.
    pub(crate) fn is_drained(&self) -> bool {
        let outbox = self.shared().outbox.lock();
        matches!(outbox.link, Link::Down(_)) || outbox.is_idle()
    }

    /// Asks the node whether it answers.
    pub(crate) async fn health(&self) -> NodeHealth {
        let shared = self.shared();
        let asked = shared.context.clock.now();
        let (tell, told) = oneshot::channel();
        let can_wait = in_runtime();
        let down = {
            let mut outbox = shared.outbox.lock();
            match &outbox.link {
                Link::Down(error) => Some(error.clone()),
                _ if !can_wait => Some(NodeError::new(
                    &shared.name,
                    NodeErrorKind::Down,
                    "it was asked outside a tokio runtime: use #[tokio::main] or Runtime::block_on",
                )),
                Link::Opening | Link::Up => {
                    outbox.pings.push(tell);
                    None
                }
            }
        };
        let answer = match down {
            Some(error) => Err(error),
            None => {
                shared.task.expect(asked);
                shared.notify();
                let limit =
                    shared.context.connect_timeout.saturating_add(shared.context.node_timeout);
                match crate::timer::timeout(limit, told).await {
                    Ok(Ok(answer)) => answer,
                    Ok(Err(_)) => Err(NodeError::new(
                        &shared.name,
                        NodeErrorKind::Disconnected,
                        "the connection ended before it answered",
                    )),
                    Err(_) => Err(NodeError::new(
                        &shared.name,
                        NodeErrorKind::Timeout,
                        format!("not connected within {limit:?}"),
                    )),
                }
            }
        };
        let state = match answer {
            Ok(()) => NodeState::Up { latency: shared.context.clock.now().since(asked) },
            Err(error) => NodeState::Down { error },
        };
        let now = shared.context.clock.now();
        let outbox = shared.outbox.lock();
        NodeHealth {
            node: Arc::clone(&shared.name),
            state,
            sits_out: outbox.quarantine.sits_out(now).map(|(_, left)| left),
            pending_cleanups: outbox.cleanups(),
        }
    }
}

/// A hash that is the same in every client and every language (FNV-1a, 64 bits).
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl fmt::Debug for NodeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeHandle").field(self.name()).finish()
    }
}

/// How one node is; see [`Redlock::health`](crate::Redlock::health).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NodeHealth {
    /// The node, as `host:port` or the path of its socket.
    pub node: Arc<str>,
    /// Whether it answers.
    pub state: NodeState,
    /// How much longer it gives no votes for new locks, because it may have restarted without its
    /// data; see [`Restarts`]. What is held is renewed there all the same.
    pub sits_out: Option<Duration>,
    /// How many deletes are still owed to it: keys that expire by themselves if it stays away.
    pub pending_cleanups: usize,
}

impl NodeHealth {
    /// Whether the node answered.
    #[must_use]
    pub fn is_up(&self) -> bool {
        matches!(self.state, NodeState::Up { .. })
    }
}

/// Whether a node answers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum NodeState {
    /// It answered a PING.
    #[non_exhaustive]
    Up {
        /// The time from asking to the answer.
        latency: Duration,
    },
    /// It did not.
    #[non_exhaustive]
    Down {
        /// Why.
        error: NodeError,
    },
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use crate::{LockError, MemoryNode, Redlock, Restarts};

    const TEN_SECONDS: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn the_last_client_leaves_no_key_on_a_node_that_reconnects() {
        let node = MemoryNode::new();
        let redlock = Redlock::builder().nodes([&node]).restarts(Restarts::Trusted);
        let guard = redlock.build().unwrap().lock("r").await.unwrap();
        node.stop();
        drop(guard);
        sleep(TEN_SECONDS).await;
        node.start();
        sleep(TEN_SECONDS / 5).await;
        assert!(node.keys().is_empty(), "{:?}", node.keys());
    }

    #[tokio::test(start_paused = true)]
    async fn health_says_that_a_connection_broke_while_it_was_asked() {
        let node = MemoryNode::new();
        let redlock = Redlock::builder().nodes([&node]).build().unwrap();
        assert!(redlock.health().await[0].is_up());
        node.slow(Duration::from_millis(10));
        let (health, ()) = tokio::join!(redlock.health(), async {
            sleep(Duration::from_millis(1)).await;
            node.stop();
        });
        let told = format!("{:?}", health[0].state);
        assert!(told.contains("Disconnected") && !health[0].is_up(), "{told}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_a_connection_is_not_hidden_by_a_ping() {
        let nodes: [_; 3] = std::array::from_fn(|_| MemoryNode::new());
        let other = Redlock::builder().nodes(&nodes[..1]).build().unwrap();
        let _theirs = other.lock("r").await.unwrap();
        nodes[2].hang();
        let redlock =
            Redlock::builder().nodes(&nodes).connect_timeout(TEN_SECONDS).build().unwrap();
        drop(redlock.lock("warm").await.unwrap());
        sleep(TEN_SECONDS / 10).await;
        let asking = tokio::spawn({
            let redlock = redlock.clone();
            async move { redlock.health().await }
        });
        sleep(TEN_SECONDS / 10).await;
        let error = redlock.try_lock("r").await.unwrap_err();
        let LockError::Held { nodes, .. } = &error else { panic!("{error}") };
        assert_eq!(&*nodes[0].reason, "still connecting");
        asking.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_hangs_is_found_out_by_pings_alone() {
        let node = MemoryNode::new();
        let redlock = Redlock::builder().nodes([&node]).build().unwrap();
        assert!(redlock.health().await[0].is_up());
        node.hang();
        for _ in 0..3 {
            assert!(!redlock.health().await[0].is_up());
        }
        let asked = Instant::now();
        assert!(!redlock.health().await[0].is_up());
        assert_eq!(asked.elapsed(), Duration::ZERO, "it was asked once more");
    }

    #[tokio::test(start_paused = true)]
    async fn no_duration_is_too_long() {
        let node = MemoryNode::new();
        let redlock = Redlock::builder().nodes([&node]).connect_timeout(Duration::MAX);
        let redlock = redlock.wait(Duration::MAX).retry_jitter(Duration::MAX).build().unwrap();
        assert!(redlock.health().await[0].is_up());
        drop(redlock.lock("r").max_hold(Duration::MAX).await.unwrap());
        node.slow(Duration::MAX);
        assert!(!redlock.health().await[0].is_up());
        redlock.shutdown(Duration::MAX).await;
    }
}
