//! Nodes inside this process, for tests and demos: with everything that can go wrong with a real
//! one, at the press of a button.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};

use super::{Action, Command, Connection, Connector, Identity, NodeSpec, Opened, Reply};
use crate::{
    bug::{Bug, planted},
    error::{NodeError, NodeErrorKind},
};

/// A Redis node inside this process.
///
/// It keeps lock keys with their expiries and answers in no time, and it can be stopped, hung,
/// slowed, restarted empty and given a wrong clock, so that a service can be tested against a bad
/// day. Clones are the same node. It lives by tokio's clock: paused time works.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// use redlock_core::{MemoryNode, Redlock};
///
/// let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
/// let redlock = Redlock::builder().nodes(&nodes).build()?;
/// nodes[0].stop();
/// let guard = redlock.lock("invoice:42").await?; // two of three are enough
/// assert_eq!(nodes[1].keys(), ["redlock:invoice:42"]);
/// nodes[1].stop();
/// drop(guard);
/// assert!(redlock.try_lock("invoice:42").await.unwrap_err().is_unavailable());
/// # Ok::<(), redlock_core::LockError>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct MemoryNode {
    server: Arc<Server>,
}

struct Server {
    name: Arc<str>,
    state: Mutex<State>,
    /// How the node is doing; connections watch it.
    mode: watch::Sender<Mode>,
}

#[derive(Debug, Clone, Copy)]
struct Mode {
    up: bool,
    hung: bool,
    delay: Duration,
    /// Counts the stops: a connection from before one is broken, and a start after it is another
    /// process.
    life: u64,
    /// When it was started last; never for one that is as it was made, which counts as old.
    started: Option<Instant>,
}

struct State {
    keys: BTreeMap<String, Entry>,
    clock: ServerClock,
    /// Expired keys are swept out when this many are there.
    sweep_at: usize,
}

struct Entry {
    value: String,
    /// On the node's own clock.
    expires: f64,
}

/// The node's idea of the time, in seconds, which need not be right.
struct ServerClock {
    anchor: Option<Instant>,
    shown: f64,
    rate: f64,
}

impl ServerClock {
    fn now(&mut self) -> f64 {
        let now = Instant::now();
        let anchor = *self.anchor.get_or_insert(now);
        self.shown + now.duration_since(anchor).as_secs_f64() * self.rate
    }

    fn set(&mut self, shown: f64, rate: f64) {
        *self = Self { anchor: Some(Instant::now()), shown, rate };
    }
}

impl Default for MemoryNode {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryNode {
    /// An empty node that is up.
    #[must_use]
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let name = format!("memory-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mode = Mode { up: true, hung: false, delay: Duration::ZERO, life: 0, started: None };
        let clock = ServerClock { anchor: None, shown: 0.0, rate: 1.0 };
        let state = State { keys: BTreeMap::new(), clock, sweep_at: 1024 };
        Self {
            server: Arc::new(Server {
                name: name.into(),
                state: Mutex::new(state),
                mode: watch::Sender::new(mode),
            }),
        }
    }

    /// The name under which it appears in errors and in `health()`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.server.name
    }

    /// Breaks all connections and refuses new ones, like a killed server. The data stays.
    pub fn stop(&self) {
        self.server.mode.send_modify(|mode| {
            mode.up = false;
            mode.hung = false;
            mode.life += 1;
        });
    }

    /// Up again after [`stop`](Self::stop), with its data, as another process: clients let it
    /// sit out as they do a real one that restarted ([`Restarts`](crate::Restarts)).
    pub fn start(&self) {
        let now = Instant::now();
        self.server.mode.send_modify(|mode| {
            mode.up = true;
            mode.started = Some(now);
        });
    }

    /// Killed and up again at once, without its data.
    pub fn restart_empty(&self) {
        self.stop();
        self.clear();
        self.start();
    }

    /// Takes commands and answers none until [`resume`](Self::resume), which runs them all, those
    /// that nobody waits for any more included: SIGSTOP and SIGCONT.
    pub fn hang(&self) {
        self.server.mode.send_modify(|mode| mode.hung = true);
    }

    /// Goes on after [`hang`](Self::hang).
    pub fn resume(&self) {
        self.server.mode.send_modify(|mode| mode.hung = false);
    }

    /// Runs each command this much later from now on; zero for at once.
    pub fn slow(&self, delay: Duration) {
        self.server.mode.send_modify(|mode| mode.delay = delay);
    }

    /// Sets the node's clock forward by this much: keys expire earlier.
    pub fn clock_forward(&self, by: Duration) {
        let clock = &mut self.server.state.lock().clock;
        let (shown, rate) = (clock.now(), clock.rate);
        clock.set(shown + by.as_secs_f64(), rate);
    }

    /// Sets the node's clock back by this much: keys linger.
    pub fn clock_back(&self, by: Duration) {
        let clock = &mut self.server.state.lock().clock;
        let (shown, rate) = (clock.now(), clock.rate);
        clock.set(shown - by.as_secs_f64(), rate);
    }

    /// Lets the node's clock run at this rate; 1.0 is right, 1.02 is two percent fast. A rate
    /// that is negative or no number counts as zero.
    pub fn clock_rate(&self, rate: f64) {
        let clock = &mut self.server.state.lock().clock;
        let shown = clock.now();
        clock.set(shown, if rate > 0.0 { rate } else { 0.0 });
    }

    /// The keys that are set and have not expired, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let mut state = self.server.state.lock();
        state.sweep();
        state.keys.keys().cloned().collect()
    }

    /// How long a key has left on the node's own clock, if it is there.
    #[must_use]
    pub fn remaining(&self, key: &str) -> Option<Duration> {
        let mut state = self.server.state.lock();
        let now = state.clock.now();
        let left = state.keys.get(key)?.expires - now;
        Duration::try_from_secs_f64(left).ok().filter(|left| !left.is_zero())
    }

    /// Deletes all keys, like FLUSHALL.
    pub fn clear(&self) {
        self.server.state.lock().keys.clear();
    }

    /// Deletes one key, like an operator's DEL. True when it was there.
    pub fn remove(&self, key: &str) -> bool {
        self.server.state.lock().keys.remove(key).is_some()
    }

    /// Runs commands that came by another way than a connection of its own.
    #[cfg(redlock_sim)]
    pub(crate) fn execute(&self, commands: &[Command]) -> Vec<Reply> {
        self.server.run(commands)
    }

    pub(crate) fn spec(&self) -> NodeSpec {
        NodeSpec { name: Arc::clone(&self.server.name), connector: Arc::new(self.clone()) }
    }
}

impl fmt::Debug for MemoryNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = *self.server.mode.borrow();
        f.debug_struct("MemoryNode")
            .field("name", &self.server.name)
            .field("up", &mode.up)
            .field("hung", &mode.hung)
            .finish_non_exhaustive()
    }
}

impl Server {
    fn run(&self, commands: &[Command]) -> Vec<Reply> {
        let mut state = self.state.lock();
        commands.iter().map(|command| state.run(command)).collect()
    }
}

impl State {
    fn sweep(&mut self) {
        let now = self.clock.now();
        self.keys.retain(|_, entry| entry.expires > now);
        self.sweep_at = (2 * self.keys.len()).max(1024);
    }

    fn run(&mut self, command: &Command) -> Reply {
        if self.keys.len() >= self.sweep_at {
            self.sweep();
        }
        let now = self.clock.now();
        let claim = &command.claim;
        let found = self.keys.get_mut(&claim.key).filter(|entry| entry.expires > now);
        match (command.action, found) {
            (Action::Grant { .. } | Action::Heal { .. }, Some(_)) => Reply::Foreign,
            (Action::Grant { ttl } | Action::Heal { ttl }, None) => {
                let entry = Entry { value: claim.value.clone(), expires: now + ttl.as_secs_f64() };
                self.keys.insert(claim.key.clone(), entry);
                Reply::Done
            }
            (_, None) => Reply::Missing,
            (action, Some(entry))
                if entry.value != claim.value
                    && !(action == Action::Release && planted(Bug::ReleaseWithoutCompare)) =>
            {
                Reply::Foreign
            }
            (Action::Extend { ttl }, Some(entry)) => {
                let left = Duration::try_from_secs_f64(entry.expires - now).unwrap_or_default();
                let least = if planted(Bug::ExtendShortens) { now } else { entry.expires };
                entry.expires = least.max(now + ttl.as_secs_f64());
                Reply::Extended { left }
            }
            (Action::Retire { rest }, Some(entry)) => {
                entry.expires = now + rest.as_secs_f64();
                Reply::Done
            }
            (Action::Release, Some(_)) => {
                self.keys.remove(&claim.key);
                Reply::Done
            }
        }
    }
}

impl Connector for MemoryNode {
    fn connect(&self) -> BoxFuture<'_, Result<Opened, NodeError>> {
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
            tokio::spawn(answer(Arc::clone(&self.server), mode, queue, seen.life));
            let connection = MemoryConnection { name: Arc::clone(&self.server.name), calls };
            let identity = Identity {
                run_id: Some(format!("{}.{}", self.server.name, seen.life).into()),
                uptime: Some(seen.started.map_or(Duration::MAX, |started| started.elapsed())),
                evicts: None,
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

struct MemoryConnection {
    name: Arc<str>,
    calls: mpsc::Sender<Call>,
}

/// The node's end of one connection: first in, first out, whoever still waits for the answers.
async fn answer(
    server: Arc<Server>,
    mut mode: watch::Receiver<Mode>,
    mut queue: mpsc::Receiver<Call>,
    life: u64,
) {
    loop {
        let call = tokio::select! {
            biased;
            _ = mode.wait_for(|mode| mode.life != life) => return,
            call = queue.recv() => match call {
                Some(call) => call,
                None => return,
            },
        };
        let delay = mode.borrow().delay;
        if !delay.is_zero() {
            // Not until `arrives + delay`, which may be beyond what an `Instant` can be.
            tokio::time::sleep(delay.saturating_sub(call.arrives.elapsed())).await;
        }
        // The server is alive as long as this task has it.
        let _ = mode.wait_for(|mode| !mode.hung || mode.life != life).await;
        if mode.borrow().life != life {
            return;
        }
        let replies = server.run(&call.commands);
        // Run all the same when nobody waits any more.
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

impl Connection for MemoryConnection {
    fn send(
        &mut self,
        commands: Vec<Command>,
    ) -> BoxFuture<'static, Vec<Result<Reply, NodeError>>> {
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
