//! The nodes, the clients, and the ways between them.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use redlock_core::{
    MemoryNode, Redlock, Restarts,
    simulation::{Chance, Link, SimClock},
};
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{Instant, sleep},
};

use super::record::Record;

pub(super) struct World {
    pub(super) nodes: Vec<MemoryNode>,
    pub(super) clients: Vec<Client>,
    pub(super) keys: u64,
    /// How many tasks each client has.
    pub(super) tasks: usize,
    pub(super) ttl: Duration,
    pub(super) record: Rc<Record>,
}

pub(super) struct Client {
    pub(super) name: String,
    pub(super) locks: Redlock,
    pub(super) clock: Arc<SimClock>,
    /// To each node.
    pub(super) links: Vec<Link>,
    pub(super) crashed: Cell<bool>,
    /// The whole process stands still.
    pub(super) paused: watch::Sender<bool>,
    pub(super) tasks: RefCell<Vec<AbortHandle>>,
    /// For how long it has stood still, and since when it does now.
    still: Cell<(Duration, Option<Instant>)>,
}

impl Client {
    /// Waits while the process stands still.
    pub(super) async fn runs(&self) {
        let mut paused = self.paused.subscribe();
        // The sender is in `self`.
        let _ = paused.wait_for(|paused| !paused).await;
    }

    /// Neither runs nor talks: faults of the way change nothing.
    pub(super) fn is_out(&self) -> bool {
        self.crashed.get() || *self.paused.borrow()
    }

    pub(super) fn pause(&self) {
        self.paused.send_replace(true);
        self.hold_links(true, true);
        self.still.set((self.still.get().0, Some(Instant::now())));
    }

    pub(super) fn stood_still(&self) -> Duration {
        let (before, since) = self.still.get();
        before + since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    pub(super) fn resume(&self) {
        if !self.crashed.get() {
            self.clock.thaw();
            self.still.set((self.stood_still(), None));
            self.paused.send_replace(false);
            self.free_links();
        }
    }

    pub(super) fn hold_links(&self, out: bool, back: bool) {
        self.links.iter().for_each(|link| link.hold(out, back));
    }

    pub(super) fn free_link(&self, node: usize) {
        if !self.is_out() {
            self.links[node].hold(false, false);
        }
    }

    pub(super) fn free_links(&self) {
        (0..self.links.len()).for_each(|node| self.free_link(node));
    }
}

/// Between the slowest and the fastest of nodes and clients lie less than the 1 % that the clients
/// allow for.
fn rate(chance: &mut Chance) -> f64 {
    match chance.below(3) {
        0 => 1.0,
        1 => 0.9955,
        _ => 1.0045,
    }
}

impl World {
    pub(super) fn new(chance: &mut Chance, record: &Rc<Record>) -> Self {
        let count = [3, 3, 3, 5, 5, 1, 2, 4][chance.below(8) as usize];
        let nodes: Vec<MemoryNode> = (0..count).map(|_| MemoryNode::new()).collect();
        nodes.iter().for_each(|node| node.clock_rate(rate(chance)));
        // Short ones run out often, long ones show what was left behind.
        let ttl = [180, 300, 1000, 6000][chance.below(4) as usize];
        let ttl = Duration::from_millis(ttl);
        let (delay, timeout) = ([5, 20][chance.below(2) as usize], chance.ms(10, 60));
        let clients = (0..2 + chance.below(3))
            .map(|number| {
                let name = format!("c{number}");
                let clock = SimClock::new(rate(chance));
                let links: Vec<Link> =
                    nodes.iter().map(|node| Link::new(node, chance.next())).collect();
                let locks = Redlock::builder()
                    .nodes(links.iter().map(Link::node))
                    .client_name(&name)
                    .ttl(ttl)
                    .max_ttl(ttl * 3 / 2)
                    .node_timeout(timeout)
                    .connect_timeout(Duration::from_millis(200))
                    .retry_delay(Duration::from_millis(delay))
                    .retry_jitter(Duration::from_millis(delay))
                    .restarts(Restarts::Observed)
                    .simulated(&clock, chance.next())
                    .build()
                    .unwrap();
                Client {
                    name,
                    locks,
                    clock,
                    links,
                    crashed: Cell::new(false),
                    paused: watch::Sender::new(false),
                    tasks: RefCell::default(),
                    still: Cell::default(),
                }
            })
            .collect();
        for (number, node) in nodes.iter().enumerate() {
            if let Some(timeline) = record.timeline() {
                let timeline = Arc::clone(timeline);
                node.observe(move |what| {
                    let line = format!("node {number}   {what}");
                    timeline.lock().unwrap().push((Instant::now(), line));
                });
            }
        }
        let (keys, tasks) = (1 + chance.below(2), 1 + chance.below(2) as usize);
        Self { nodes, clients, keys, tasks, ttl, record: Rc::clone(record) }
    }

    /// Each client sees each node once: what a client that starts after a restart cannot know is
    /// not what `Restarts::Observed` promises.
    pub(super) async fn meet(&self) {
        for client in &self.clients {
            while !client.locks.health().await.iter().all(redlock_core::NodeHealth::is_up) {
                sleep(Duration::from_millis(1)).await;
            }
        }
    }

    /// Ends all faults, except that who has crashed stays away.
    pub(super) fn heal(&self) {
        for node in &self.nodes {
            node.resume();
            node.start();
            node.slow(Duration::ZERO);
        }
        for client in &self.clients {
            client.resume();
            for link in &client.links {
                link.latency(Duration::from_micros(50), Duration::from_micros(300));
            }
        }
    }

    /// Waits until everything that is owed has been done (a reconnect with its backoff, the
    /// clean-up, and its repetition a second later) and says what is left; and again when the keys
    /// of those who crashed must have expired and all nodes vote again.
    pub(super) async fn settle(&self) {
        sleep(Duration::from_millis(3500)).await;
        let crashed = |holder: &str| {
            self.clients.iter().any(|client| client.name == holder && client.crashed.get())
        };
        self.check_leftovers(|holder| !crashed(holder));
        sleep(self.ttl * 2).await;
        self.check_leftovers(|_| true);
    }

    /// No lock is left behind of those who should have cleaned up.
    fn check_leftovers(&self, should_have: impl Fn(&str) -> bool) {
        for (number, node) in self.nodes.iter().enumerate() {
            for key in node.keys() {
                let holder = node.holder(&key).unwrap_or_default();
                if should_have(&holder) {
                    self.record.violation(format!("{key} of {holder} stayed on node {number}"));
                }
            }
            if node.late_renewals() > 0 {
                self.record.violation(format!("node {number} was asked to renew a released lock"));
            }
        }
    }
}
