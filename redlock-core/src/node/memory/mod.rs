//! Nodes inside this process, for tests and demos: with everything that can go wrong with a real
//! one, at the press of a button.
//!
//! | file | what it does |
//! |---|---|
//! | [`data`] | the keys, and what a server does with each command |
//! | [`counters`], [`readers`] | the counters that fencing tokens come from; the readers of locks |
//! | [`queues`], [`queue`] | the queues between clients; one of them |
//! | [`watched`] | the connections that are told of changes of keys |
//! | [`connection`] | a connection, at both of its ends |
//! | [`clock`] | a clock, which need not be right |

mod clock;
mod connection;
mod counters;
pub(crate) mod data;
mod queue;
mod queues;
mod readers;
mod watched;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use self::data::{Data, Push};
use super::{Command, NodeSpec, Reply, Watchers};
use crate::sync::Mutex;

/// A Redis node inside this process.
///
/// It keeps lock keys with their expiries, and answers at once. A test can stop it, hang it, slow it,
/// restart it empty, and set its clock wrong. Clones are the same node. It uses the clock of tokio, so
/// paused time works.
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
    data: Mutex<Data>,
    /// The open connections, and the listeners to tell when a watched key changes.
    connections: Mutex<BTreeMap<u64, Arc<Watchers>>>,
    /// How the node is doing; connections watch it.
    mode: watch::Sender<Mode>,
}

#[derive(Debug, Clone, Copy)]
struct Mode {
    up: bool,
    hung: bool,
    delay: Duration,
    /// Counts the stops: a connection from before a stop is broken, and a start after it is another
    /// process.
    life: u64,
    /// When the node was started last. Never for a node that was not started again: it counts as
    /// old.
    started: Option<Instant>,
}

impl Default for MemoryNode {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryNode {
    /// Creates an empty node that is up.
    #[must_use]
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let name = format!("memory-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mode = Mode { up: true, hung: false, delay: Duration::ZERO, life: 0, started: None };
        Self {
            server: Arc::new(Server {
                name: name.into(),
                data: Mutex::new(Data::new()),
                connections: Mutex::default(),
                mode: watch::Sender::new(mode),
            }),
        }
    }

    /// The name under which it appears in errors and in `health()`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.server.name
    }

    /// Breaks all connections and refuses new ones, like a server that was killed. The data stays.
    pub fn stop(&self) {
        self.server.mode.send_modify(|mode| {
            mode.up = false;
            mode.hung = false;
            mode.life += 1;
        });
    }

    /// Starts the node again after [`stop`](Self::stop), with its data, as a new process. For clients it sits
    /// out, like a real node that restarted ([`Restarts`](crate::Restarts)).
    pub fn start(&self) {
        let now = Instant::now();
        self.server.mode.send_modify(|mode| {
            mode.up = true;
            mode.started = Some(now);
        });
    }

    /// Kills the node and starts it again at once, without its data.
    pub fn restart_empty(&self) {
        self.stop();
        self.clear();
        self.start();
    }

    /// Accepts commands and answers none until [`resume`](Self::resume), like a server that got
    /// SIGSTOP. `resume` runs all of them, also those that no caller waits for any more.
    pub fn hang(&self) {
        self.server.mode.send_modify(|mode| mode.hung = true);
    }

    /// Continues after [`hang`](Self::hang), like a server that got SIGCONT.
    pub fn resume(&self) {
        self.server.mode.send_modify(|mode| mode.hung = false);
    }

    /// From now on, runs each command this much later. Zero means at once.
    pub fn slow(&self, delay: Duration) {
        self.server.mode.send_modify(|mode| mode.delay = delay);
    }

    /// Sets the node's clock forward by this much: keys expire earlier.
    pub fn clock_forward(&self, by: Duration) {
        self.set_clock(by.as_secs_f64());
    }

    /// Sets the node's clock back by this much: keys linger.
    pub fn clock_back(&self, by: Duration) {
        self.set_clock(-by.as_secs_f64());
    }

    fn set_clock(&self, ahead: f64) {
        let told = self.server.data.lock().set_clock(ahead);
        self.server.tell(told);
    }

    /// Lets the node's clock run at this rate. 1.0 is right, and 1.02 is two percent fast. A negative
    /// rate or NaN counts as zero.
    pub fn clock_rate(&self, rate: f64) {
        self.server.data.lock().set_rate(rate);
    }

    /// The keys of locks that are set and have not expired, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.server.data.lock().keys()
    }

    /// The remaining time of a key on the node's own clock. `None` if the node does not have the key.
    #[must_use]
    pub fn remaining(&self, key: &str) -> Option<Duration> {
        self.server.data.lock().remaining(key)
    }

    /// Deletes all keys, like FLUSHALL.
    pub fn clear(&self) {
        let told = self.server.data.lock().clear();
        self.server.tell(told);
    }

    /// Deletes one key, like a `DEL` of an operator: the key of a lock, or of its fencing counter
    /// (`KEY:{KEY}:fence`). True if the node had the key.
    pub fn remove(&self, key: &str) -> bool {
        let told = self.server.data.lock().remove(key);
        let was_there = told.is_some();
        self.server.tell(told.unwrap_or_default());
        was_there
    }

    /// Runs commands that did not come on a connection of the node.
    #[cfg(test)]
    pub(crate) fn execute(&self, commands: &[Command]) -> Vec<Reply> {
        self.server.run(commands, u64::MAX)
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
    fn run(&self, commands: &[Command], connection: u64) -> Vec<Reply> {
        let (replies, told) = self.data.lock().run(commands, connection);
        self.tell(told);
        replies
    }

    fn tell(&self, told: Vec<Push>) {
        for Push { to, key } in told {
            let watchers = self.connections.lock().get(&to).map(Arc::clone);
            if let Some(watchers) = watchers {
                watchers.changed(&key);
            }
        }
    }
}
