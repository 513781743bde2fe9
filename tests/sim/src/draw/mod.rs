//! Drawing a plan from a seed: adversarial, and no worse than the model of faults allows.
//!
//! What is allowed: clocks of nodes and clients whose rates differ by no more than the drift
//! factor, any delay and loss on the way, clients that stop, freeze and crash, and nodes that come
//! back with their data, or without it where that shows (rule 16). Nodes may refuse commands, and keep keys for longer.

mod distances;
mod faults;
mod hand_off;
mod holding;
mod inside;
mod jobs;
mod leading;
mod operation;
mod operators;
mod servers;
mod sharing;

use redlock_core::Restarts;

use super::{
    fenced,
    network::Manners,
    plan::{ClientPlan, Distances, Op, Plan, Settings, What},
    rng::Rng,
};

/// The operations of each client, spread over its tasks.
const OPERATIONS: u64 = 10;

/// The operations of each client in a crowd, where a client has one task.
const CROWD_OPERATIONS: u64 = 3;

/// How many schedules in a hundred have a crowd, unless only those are asked for.
const CROWDS: u64 = 2;

/// How long a waiter that has to be woken waits.
const SLEEP: u64 = 60 * 60 * 1000;

impl Plan {
    /// The plan of a seed, always with many clients if `crowd`.
    pub fn draw(seed: u64, crowd: bool) -> Self {
        let mut rng = Rng::new(seed ^ 0x5E_ED0F_1A7E);
        let crowd = rng.percent(CROWDS) || crowd;
        let mut plan = Artist::new(&mut rng, seed, crowd).plan(seed);
        fenced::draw(&mut plan);
        // Each has random numbers of its own, so that the rest of a plan does not depend on it.
        sharing::draw(&mut plan);
        hand_off::draw(&mut plan);
        inside::draw(&mut plan);
        leading::draw(&mut plan);
        operators::draw(&mut plan);
        jobs::draw(&mut plan);
        servers::draw(&mut plan);
        plan
    }
}

/// One of the choices, by their weights.
fn pick<T: Copy>(rng: &mut Rng, choices: &[(u64, T)]) -> T {
    let mut at = rng.below(choices.iter().map(|(weight, _)| weight).sum());
    for (weight, choice) in choices {
        if at < *weight {
            return *choice;
        }
        at -= weight;
    }
    choices[0].1
}

struct Artist<'a> {
    rng: &'a mut Rng,
    settings: Settings,
    /// The ttls in use, ascending.
    ttls: [u64; 3],
    nodes: usize,
    clients: usize,
    keys: usize,
    calm: bool,
    /// Many clients with a task each.
    crowd: bool,
    distances: Distances,
    /// How many pushes in 1000 are lost.
    lost_pushes: u64,
    /// Some clients may not use the queues, or hear no pushes.
    mixed: bool,
    /// Nodes may come back without their data.
    empty: bool,
    flush: bool,
}

impl<'a> Artist<'a> {
    fn new(rng: &'a mut Rng, seed: u64, crowd: bool) -> Self {
        let near = if crowd { 4 } else { 16 };
        let same = pick(rng, &[(near, 0), (1, 2), (1, 5), (1, 10), (1, 20)]);
        let distances = distances::draw(seed, same, crowd);
        let distance = distances.longest();
        let node_timeout = pick(rng, &[(1, 10), (2, 20), (1, 50)]);
        // The way to a node and back, jitter included.
        let node_timeout =
            if distance > 0 { node_timeout.max(5 * distance + 10) } else { node_timeout };
        // Some ttls are short and some are long, so that keys that are left behind outlive the time for
        // cleaning up, or not.
        let max_ttl =
            pick(rng, &[(4, 12 * node_timeout), (3, 60 * node_timeout), (2, 10_000), (1, 60_000)]);
        let shortest = rng.between(3 * node_timeout, 6 * node_timeout);
        let middle = shortest + (max_ttl - shortest) / 4;
        let settings = Settings {
            drift: pick(rng, &[(6, 0.01), (2, 0.05), (1, 0.002), (1, 0.1)]),
            node_timeout,
            connect_timeout: 10 * node_timeout,
            max_ttl,
            retry_delay: pick(
                rng,
                &[(1, 5), (2, node_timeout), (2, 4 * node_timeout), (1, 10_000)],
            ),
            retry_jitter: pick(rng, &[(1, 1), (2, node_timeout)]),
        };
        Self {
            settings,
            ttls: [shortest, middle, max_ttl],
            nodes: pick(rng, &[(45, 3), (35, 5), (8, 1), (5, 2), (7, 4)]),
            clients: if crowd {
                pick(rng, &[(4, 16), (3, 24), (2, 32), (1, 48)])
            } else {
                pick(rng, &[(1, 2), (6, 3), (4, 4)])
            },
            keys: if crowd {
                pick(rng, &[(6, 1), (1, 2)])
            } else {
                pick(rng, &[(5, 1), (3, 2), (2, 3)])
            },
            calm: rng.percent(if crowd { 25 } else { 12 }),
            crowd,
            distances,
            lost_pushes: pick(rng, &[(8, 0), (1, 20), (1, 300)]),
            mixed: rng.percent(if crowd { 30 } else { 15 }),
            empty: rng.percent(40),
            flush: rng.percent(5),
            rng,
        }
    }

    fn plan(mut self, seed: u64) -> Plan {
        let extreme = self.rng.percent(60);
        let nodes = (0..self.nodes).map(|_| self.rate(extreme)).collect();
        let restarts = if self.empty {
            Restarts::Observed
        } else {
            let all = [(3, Restarts::Observed), (1, Restarts::Strict), (4, Restarts::Trusted)];
            pick(self.rng, &all)
        };
        let mut clients: Vec<_> =
            (0..self.clients).map(|number| self.client(number, extreme, restarts)).collect();
        let faults = self.faults();
        self.set_apart(&mut clients);
        self.distances.clients.truncate(self.clients);
        self.distances.nodes.truncate(self.nodes);
        Plan {
            seed,
            nodes,
            keys: self.keys,
            permits: vec![1; self.keys],
            settings: self.settings,
            clients,
            faults,
            calm: self.calm,
            distances: self.distances,
            ticks: Vec::new(),
        }
    }

    fn operations(&self) -> u64 {
        if self.crowd { CROWD_OPERATIONS } else { OPERATIONS }
    }

    /// The rate of a clock, which is wrong by half of the drift factor at most.
    fn rate(&mut self, extreme: bool) -> f64 {
        let most = self.settings.drift / 2.05;
        let side = if extreme {
            pick(self.rng, &[(3, 1.0), (3, -1.0), (1, 0.0)])
        } else {
            2.0 * self.rng.unit() - 1.0
        };
        1.0 + most * side
    }

    fn client(&mut self, number: usize, extreme: bool, restarts: Restarts) -> ClientPlan {
        let full = Manners::FULL;
        let manners = if self.mixed {
            let others = [
                (6, full),
                (1, Manners { pushes: false, ..full }),
                (1, Manners { queues: false, ..full }),
                (1, Manners { pushes: false, queues: false }),
            ];
            pick(self.rng, &others)
        } else {
            full
        };
        let count = if self.crowd { 1 } else { pick(self.rng, &[(4, 1_usize), (4, 2), (3, 3)]) };
        let mut tasks: Vec<Vec<Op>> = vec![Vec::new(); count];
        for number in 0..self.operations() {
            let op = self.op(manners);
            tasks[usize::try_from(number).unwrap() % count].push(op);
        }
        if count > 1 && !self.calm && self.rng.percent(25) {
            for (task, op) in self.baton().into_iter().enumerate() {
                tasks[task].insert(0, op);
            }
        }
        if !self.crowd && !self.calm && self.rng.below(200) == 0 {
            let burst = self.burst();
            tasks[0].push(burst);
        }
        if self.rng.percent(8) {
            let grace = pick(self.rng, &[(1, 0), (1, self.settings.node_timeout), (1, 500)]);
            let after = self.rng.below(self.ttls[1]);
            tasks[0].push(Op { after, what: What::Shutdown { grace } });
        }
        ClientPlan {
            rate: self.rate(extreme),
            skew: self.rng.below(1_000_000),
            wall_error: Some(0),
            restarts,
            quality: (0..self.nodes).map(|node| self.quality(number, node)).collect(),
            tasks,
            order: self.order(),
            manners,
            cold: !self.calm && self.rng.percent(10),
            joined: false,
            hasty: false,
            wary: false,
            operations: Vec::new(),
            jobs: Vec::new(),
        }
    }

    /// The peculiarities of some clients. They are drawn last, so that the rest of a plan does not depend
    /// on them.
    fn set_apart(&mut self, clients: &mut [ClientPlan]) {
        for client in clients {
            client.hasty = self.rng.percent(15);
            client.wary = self.rng.percent(15);
            client.joined = self.rng.percent(12);
            if client.joined && !self.crowd {
                for _ in 0..=self.rng.below(2) {
                    let pool = self.rng.index(self.nodes);
                    self.add(client, What::Replace { pool });
                }
            } else if !client.joined && self.nodes > 2 && self.rng.percent(8) {
                let (twin, gone) = (self.rng.index(self.nodes), self.rng.index(self.nodes));
                client.order[gone] = client.order[twin];
            }
            if !self.crowd && !self.calm && self.rng.below(100) == 0 {
                let (count, times) = (60 + self.rng.index(60), 4 + self.rng.index(6));
                self.add(client, What::Block { count, times });
            }
        }
    }

    /// Adds an operation to a task, among those that it has.
    fn add(&mut self, client: &mut ClientPlan, what: What) {
        let task = self.rng.index(client.tasks.len());
        let at = self.rng.index(client.tasks[task].len() + 1);
        let after = self.rng.below(self.settings.node_timeout);
        client.tasks[task].insert(at, Op { after, what });
    }

    /// The nodes, for some clients in another order.
    fn order(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.nodes).collect();
        if self.rng.percent(30) {
            for place in (1..order.len()).rev() {
                order.swap(place, self.rng.index(place + 1));
            }
        }
        order
    }
}
