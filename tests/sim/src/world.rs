//! One schedule at work: its network, its processes, and what can be done to them.

mod client;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use redlock_core::pools;
use tokio::task::JoinHandle;

pub(super) use self::client::Client;

use super::{
    faults,
    ledger::Ledger,
    locked,
    log::Log,
    network::{LinkQuality, Network, Refuses},
    plan::Plan,
    rng::Rng,
    work,
};

/// How many processes may take the place of others that have crashed.
const MAX_CRASHES: usize = 5;

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) log: Arc<Log>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) network: Network,
    clients: Mutex<Vec<Arc<Client>>>,
    tasks: Mutex<Vec<JoinHandle<Option<()>>>>,
    operations: AtomicU64,
    /// All faults have ended.
    over: AtomicBool,
}

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) async fn sleep(span: u64) {
    tokio::time::sleep(ms(span)).await;
}

impl World {
    pub(super) fn build(plan: Plan, told: bool) -> Arc<Self> {
        let log = Arc::new(Log::new(told));
        let ledger = Arc::new(Ledger::new(Arc::clone(&log), plan.nodes.len()));
        let seed = Rng::new(plan.seed).bits();
        let most = plan.clients.len() + MAX_CRASHES;
        let network = Network::new(seed, &plan.nodes, most, Arc::clone(&ledger) as Arc<_>);
        tokio::spawn(network.clone().run());
        ledger.nodes_sit_out(plan.settings.max_ttl, plan.settings.drift);
        let world = Arc::new(Self {
            plan,
            log,
            ledger,
            network,
            clients: Mutex::default(),
            tasks: Mutex::default(),
            operations: AtomicU64::new(0),
            over: AtomicBool::new(false),
        });
        tokio::spawn(faults::strike_fronts(Arc::clone(&world)));
        world
    }

    pub(super) fn now(&self) -> u64 {
        self.log.now()
    }

    /// All clients connect before anything goes wrong. Later they compare what they see of a node with
    /// what they saw here (rule 16).
    pub(super) async fn warm_up(&self) {
        let mut healths = Vec::new();
        for plan in &self.plan.clients {
            let unseeing = self.unseeing(plan);
            let client = self.spawn_client(if plan.cold { &unseeing } else { plan });
            if plan.cold {
                continue;
            }
            let redlock = client.redlock();
            healths.push(tokio::spawn(client.life.process.inside(async move {
                let healths = redlock.health().await;
                let up = healths.iter().all(|it| it.is_up() || it.node.ends_with("-alias"));
                assert!(up, "{healths:?}");
                // A quorum has been seen.
                drop(redlock.try_lock("k0").await);
            })));
        }
        for health in healths {
            health.await.unwrap();
        }
    }

    pub(super) fn start_all(self: &Arc<Self>) {
        for client in self.clients() {
            self.start(&client);
        }
    }

    /// Starts the tasks of a client.
    fn start(self: &Arc<Self>, client: &Arc<Client>) {
        let plan = self.plan_of(client);
        for (node, quality) in plan.quality.iter().enumerate() {
            self.network.quality(client.number, node, *quality);
        }
        for (number, ops) in plan.tasks.iter().enumerate() {
            let task = work::task(Arc::clone(self), Arc::clone(client), number, ops.clone());
            self.spawn(client, task);
        }
        let (operations, jobs) = (plan.operations.clone(), plan.jobs.clone());
        if !operations.is_empty() {
            self.spawn(client, work::operator(Arc::clone(self), Arc::clone(client), operations));
        }
        if !jobs.is_empty() {
            self.spawn(client, work::replica(Arc::clone(self), Arc::clone(client), jobs));
        }
    }

    /// Starts one more task in the process of a client. The schedule waits for its end.
    pub(super) fn spawn(&self, client: &Client, task: impl Future<Output = ()> + Send + 'static) {
        let task = tokio::spawn(client.life.process.inside(task));
        locked(&self.tasks).push(task);
    }

    /// Waits until no task has anything left to do.
    pub(super) async fn all_done(&self) {
        loop {
            let Some(task) = locked(&self.tasks).pop() else { return };
            if let Err(error) = task.await {
                self.log.violation(format!("a task panicked: {error}"));
            }
        }
    }

    pub(super) fn clients(&self) -> Vec<Arc<Client>> {
        locked(&self.clients).clone()
    }

    /// The client of this number, modulo how many there are.
    pub(super) fn client(&self, number: usize) -> Arc<Client> {
        let clients = locked(&self.clients);
        Arc::clone(&clients[number % clients.len()])
    }

    /// An operation begins, and the faults that are planned for it strike.
    pub(super) fn operation(self: &Arc<Self>) {
        let number = self.operations.fetch_add(1, Relaxed);
        self.log.count(|stats| stats.operations += 1);
        for planned in self.plan.faults.iter().filter(|it| it.operation == number) {
            faults::strike(self, *planned);
        }
    }

    /// Does something later, also when the task that wants it has ended by then.
    pub(super) fn later(
        self: &Arc<Self>,
        after: u64,
        act: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) {
        let world = Arc::clone(self);
        tokio::spawn(async move {
            sleep(after).await;
            act(&world);
        });
    }

    pub(super) fn stop(&self, client: &Client) {
        let mut pauses = locked(&client.pauses);
        if client.life.process.is_dead() {
            return;
        }
        pauses.causes += 1;
        if pauses.causes > 1 {
            return;
        }
        pauses.since = Some(self.now());
        client.life.process.stop();
    }

    pub(super) fn freeze(&self, client: &Client) {
        self.stop(client);
        // A process that has crashed stays dead. A process that is stopped may be frozen as well.
        if !client.has_crashed() && !client.life.frozen.swap(true, Relaxed) {
            client.clock.freeze();
        }
    }

    /// A stop or a freeze ends. The process goes on when the last of them has ended.
    pub(super) fn resume(&self, client: &Client) {
        {
            let mut pauses = locked(&client.pauses);
            // A stop that came after the crash did not stop it.
            if client.life.process.is_dead() {
                return;
            }
            pauses.causes = pauses.causes.saturating_sub(1);
            if pauses.causes > 0 {
                return;
            }
            let Some(since) = pauses.since.take() else { return };
            pauses.total += self.now() - since;
        }
        if client.life.frozen.swap(false, Relaxed) {
            client.clock.thaw();
            client.disturbed.fetch_add(1, Relaxed);
        }
        client.life.process.resume();
        self.ledger.look();
    }

    /// Kills a process, and starts another in its place.
    pub(super) fn crash(self: &Arc<Self>, client: &Client) {
        let count = locked(&self.clients).len();
        if client.life.process.is_dead() || count >= self.plan.clients.len() + MAX_CRASHES {
            return;
        }
        client.life.process.crash();
        self.network.crash(client.number);
        let plan = self.unseeing(&self.plan.clients[count % self.plan.clients.len()]);
        let next = self.spawn_client(&plan);
        self.start(&next);
    }

    /// Kills a process, and starts another in its place, unless all faults have ended.
    pub(super) fn crash_unless_over(self: &Arc<Self>, client: &Client) {
        if !self.is_over() {
            self.crash(client);
        }
    }

    /// Kills a process for good.
    pub(super) fn kill(&self, client: &Client) {
        client.life.process.crash();
        self.network.crash(client.number);
    }

    /// The most time that a command and its answer take, once nothing is wrong any more.
    pub(super) fn round_trip(&self) -> u64 {
        2 * self.plan.distances.longest()
    }

    /// Whether all faults have ended.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Ends all faults, and lets none begin.
    pub(super) fn heal(&self) {
        self.over.store(true, Relaxed);
        for client in self.clients() {
            for node in 0..self.network.nodes() {
                let base = self.plan.distances.between(client.number, node);
                let fair = LinkQuality { base, ..LinkQuality::FAIR };
                self.network.quality(client.number, node, fair);
                self.network.heal(client.number, node);
            }
            locked(&client.pauses).causes = 0;
            self.resume(&client);
        }
        for node in 0..self.network.nodes() {
            self.network.slow(node, 0);
            self.network.refuse(node, Refuses::Nothing);
            self.network.resume(node);
            self.network.start(node, false);
        }
    }

    /// Drops the references with which the library, the network and the ledger keep each other alive.
    pub(super) fn bury(&self) {
        self.ledger.clear();
        for client in std::mem::take(&mut *locked(&self.clients)) {
            client.life.process.bury();
            for pool in &client.pools {
                drop(pools::remove(pool));
            }
        }
    }
}
