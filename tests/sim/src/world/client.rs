//! One process with one client of the library in it: its nodes, its clocks and its pools.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use redlock_core::{Redlock, pools, seam::simulation};

use super::{World, ms};
use crate::{
    beliefs::Frozen,
    clock::SimClock,
    locked,
    plan::ClientPlan,
    process::Process,
    report::Oddity,
    rng::{Rng, Seeded},
};

/// The pools of all schedules have names of their own.
static POOLS: AtomicU64 = AtomicU64::new(0);

/// One process with one client of the library in it.
pub(crate) struct Client {
    pub(crate) number: usize,
    redlock: Mutex<Redlock>,
    /// The clients of the library that it used before a pool was replaced.
    outdated: Mutex<Vec<Redlock>>,
    /// The names of the pools that it joins, if it does.
    pub(super) pools: Vec<String>,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) life: Frozen,
    /// It takes no new locks.
    pub(crate) closed: AtomicBool,
    /// How often it has ended all of its bodies.
    pub(crate) cleared: AtomicU64,
    /// How often its clocks were disturbed.
    pub(crate) disturbed: AtomicU64,
    pub(super) pauses: Mutex<Pauses>,
}

/// For how long a process has been stopped.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// How many stops and freezes have not ended yet.
    pub(super) causes: u32,
    pub(super) since: Option<u64>,
    pub(super) total: u64,
}

impl Client {
    /// The client of the library that it locks through.
    pub(crate) fn redlock(&self) -> Redlock {
        locked(&self.redlock).clone()
    }

    /// The clients of the library that it locks through and has locked through.
    pub(crate) fn redlocks(&self) -> Vec<Redlock> {
        let mut all = locked(&self.outdated).clone();
        all.push(self.redlock());
        all
    }

    /// For how long it has been stopped in all, in milliseconds.
    pub(crate) fn paused(&self) -> u64 {
        locked(&self.pauses).total
    }

    pub(crate) fn has_crashed(&self) -> bool {
        self.life.process.is_dead()
    }
}

impl World {
    /// A new process, not yet doing anything.
    pub(super) fn spawn_client(&self, plan: &ClientPlan) -> Arc<Client> {
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
    pub(crate) fn drift_of(&self, plan: &ClientPlan) -> f64 {
        if plan.wary { 2.0 * self.plan.settings.drift } else { self.plan.settings.drift }
    }

    /// Replaces a pool that a client joins by another pool with the same node. From now on the client
    /// locks through the new pool.
    pub(crate) fn replace(&self, client: &Client, pool: usize) {
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

    pub(crate) fn plan_of(&self, client: &Client) -> &ClientPlan {
        &self.plan.clients[client.number % self.plan.clients.len()]
    }

    /// The plan of a process that starts after something may have gone wrong. Only uptimes tell it of
    /// restarts.
    pub(super) fn unseeing(&self, plan: &ClientPlan) -> ClientPlan {
        let mut plan = plan.clone();
        if plan.restarts == redlock_core::Restarts::Observed {
            plan.restarts = redlock_core::Restarts::Strict;
        }
        plan
    }
}
