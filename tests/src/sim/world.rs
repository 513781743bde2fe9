//! One schedule at work: its network, its processes, and what can be done to them.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use redlock_core::{Redlock, pools, seam::simulation};
use tokio::task::JoinHandle;

use super::{
    beliefs::Frozen,
    clock::SimClock,
    faults,
    ledger::Ledger,
    locked,
    log::Log,
    network::{LinkQuality, Network},
    plan::{ClientPlan, Plan},
    process::Process,
    report::Oddity,
    rng::{Rng, Seeded},
    work,
};

/// How many processes may take the place of others that have crashed.
const MAX_CRASHES: usize = 5;

/// The pools of all schedules have names of their own.
static POOLS: AtomicU64 = AtomicU64::new(0);

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

/// One process with one client of the library in it.
pub(super) struct Client {
    pub(super) number: usize,
    redlock: Mutex<Redlock>,
    /// The clients of the library that it used before a pool was replaced.
    outdated: Mutex<Vec<Redlock>>,
    /// The names of the pools that it joins, if it does.
    pools: Vec<String>,
    pub(super) clock: Arc<SimClock>,
    pub(super) life: Frozen,
    /// It takes no new locks.
    pub(super) closed: AtomicBool,
    /// How often it has ended all of its bodies.
    pub(super) cleared: AtomicU64,
    /// How often its clocks were disturbed.
    pub(super) disturbed: AtomicU64,
    pauses: Mutex<Pauses>,
}

/// For how long a process has been stopped.
#[derive(Debug, Default)]
struct Pauses {
    /// How many stops and freezes have not ended yet.
    causes: u32,
    since: Option<u64>,
    total: u64,
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

    /// A new process, not yet doing anything.
    fn spawn_client(&self, plan: &ClientPlan) -> Arc<Client> {
        let number = locked(&self.clients).len();
        let clock = Arc::new(SimClock::new(ms(plan.skew), plan.rate, plan.wall_error));
        self.ledger.wall_is_off(&clock);
        self.network.manners(number, plan.manners);
        if plan.has_twin() {
            self.ledger.allow_twins(number);
            self.log.odd(Oddity::Twin);
        }
        if plan.hasty {
            self.log.odd(Oddity::Hasty);
        }
        if plan.wary {
            self.log.odd(Oddity::Wary);
        }
        let mut names = Vec::new();
        let redlock = if plan.joined {
            self.log.odd(Oddity::Joined);
            let set = POOLS.fetch_add(1, Relaxed);
            for (at, node) in plan.order.iter().enumerate() {
                let name = format!("simulated-{set}-{at}");
                let pool = self.redlock(plan, (number, at), &clock, &[*node], false);
                pools::install(name.clone(), pool).unwrap();
                names.push(name);
            }
            pools::quorum_of(&names).unwrap()
        } else {
            self.redlock(plan, (number, 0), &clock, &plan.order, false)
        };
        let life = Frozen { process: Process::new(), frozen: Arc::default() };
        let client = Arc::new(Client {
            number,
            redlock: Mutex::new(redlock),
            outdated: Mutex::default(),
            pools: names,
            clock,
            life,
            closed: AtomicBool::new(false),
            cleared: AtomicU64::new(0),
            disturbed: AtomicU64::new(0),
            pauses: Mutex::default(),
        });
        locked(&self.clients).push(Arc::clone(&client));
        client
    }

    /// A client of the library with these nodes.
    fn redlock(
        &self,
        plan: &ClientPlan,
        (number, part): (usize, usize),
        clock: &Arc<SimClock>,
        order: &[usize],
        renamed: bool,
    ) -> Redlock {
        let settings = self.plan.settings;
        // No two clients of the library draw the same tokens.
        let own = (number as u64 + 1) | ((part as u64) << 32);
        let seed = Rng::new(self.plan.seed ^ own).bits();
        let nodes = order.iter().enumerate().map(|(at, node)| {
            // A node that is there twice has two names.
            self.network.node(number, *node, renamed || order[..at].contains(node))
        });
        let builder = Redlock::builder()
            .client_name(format!("c{number}"))
            .key_prefix("")
            .ttl(ms(settings.max_ttl))
            .max_ttl(ms(settings.max_ttl))
            .node_timeout(ms(plan.node_timeout(settings)))
            .connect_timeout(ms(plan.connect_timeout(settings)))
            .clock_drift_factor(self.drift_of(plan))
            .retry_delay(ms(settings.retry_delay))
            .retry_jitter(ms(settings.retry_jitter))
            .restarts(plan.restarts);
        simulation::build(builder, nodes.collect(), clock, Seeded::new(seed)).unwrap()
    }

    /// The drift that a client allows for.
    pub(super) fn drift_of(&self, plan: &ClientPlan) -> f64 {
        if plan.wary { 2.0 * self.plan.settings.drift } else { self.plan.settings.drift }
    }

    /// Replaces a pool that a client joins by another pool with the same node. From now on the client
    /// locks through the new pool.
    pub(super) fn replace(&self, client: &Client, pool: usize) {
        // The new pool has not seen the nodes before.
        let plan = &self.unseeing(self.plan_of(client));
        if client.pools.is_empty() || client.closed.load(Relaxed) {
            return;
        }
        let at = pool % client.pools.len();
        let known = format!("{:?}", client.redlock());
        let name = format!("n{}-alias", plan.order[at]);
        let renamed = !known.contains(&name);
        let place = (client.number, plan.order.len() + client.redlocks().len());
        let pool = self.redlock(plan, place, &client.clock, &plan.order[at..=at], renamed);
        drop(pools::replace(client.pools[at].clone(), pool));
        let joined = pools::quorum_of(&client.pools).unwrap();
        if format!("{joined:?}").contains(&name) != renamed {
            self.log.violation(format!(
                "c{} replaced a pool, and still has the nodes of the old one",
                client.number
            ));
        }
        let before = std::mem::replace(&mut *locked(&client.redlock), joined);
        locked(&client.outdated).push(before);
        self.log.odd(Oddity::Replaced);
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

    pub(super) fn plan_of(&self, client: &Client) -> &ClientPlan {
        &self.plan.clients[client.number % self.plan.clients.len()]
    }

    /// The plan of a process that starts after something may have gone wrong. Only uptimes tell it of
    /// restarts.
    fn unseeing(&self, plan: &ClientPlan) -> ClientPlan {
        let mut plan = plan.clone();
        if plan.restarts == redlock_core::Restarts::Observed {
            plan.restarts = redlock_core::Restarts::Strict;
        }
        plan
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

    /// The time that a command and its answer take, once nothing is wrong any more.
    pub(super) fn round_trip(&self) -> u64 {
        2 * self.plan.distance
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
                let fair = LinkQuality { base: self.plan.distance, ..LinkQuality::FAIR };
                self.network.quality(client.number, node, fair);
                self.network.heal(client.number, node);
            }
            locked(&client.pauses).causes = 0;
            self.resume(&client);
        }
        for node in 0..self.network.nodes() {
            self.network.slow(node, 0);
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

impl Client {
    /// The client of the library that it locks through.
    pub(super) fn redlock(&self) -> Redlock {
        locked(&self.redlock).clone()
    }

    /// The clients of the library that it locks through and has locked through.
    pub(super) fn redlocks(&self) -> Vec<Redlock> {
        let mut all = locked(&self.outdated).clone();
        all.push(self.redlock());
        all
    }

    /// For how long it has been stopped in all, in milliseconds.
    pub(super) fn paused(&self) -> u64 {
        locked(&self.pauses).total
    }

    pub(super) fn has_crashed(&self) -> bool {
        self.life.process.is_dead()
    }
}
