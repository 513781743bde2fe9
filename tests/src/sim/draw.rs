//! Drawing a plan from a seed: adversarial, and no worse than the model of faults allows.
//!
//! What is allowed: clocks of nodes and clients whose rates differ by no more than the drift
//! factor, any delay and loss on the way, clients that stop, freeze and crash, and nodes that come
//! back with their data, or without it where that shows (rule 16).

use redlock_core::Restarts;

use super::{
    fenced,
    network::{Cut, LinkQuality, Manners},
    plan::{
        Blow, Cancel, ClientPlan, End, Fault, How, Op, Plan, Planned, Settings, Step, Take, What,
    },
    rng::Rng,
};

/// So many operations are spread over the tasks of each client.
const OPERATIONS: u64 = 10;

/// The same in a crowd, whose clients have a task each.
const CROWD_OPERATIONS: u64 = 3;

/// How many schedules in a hundred have a crowd, unless only those are asked for.
const CROWDS: u64 = 2;

/// How long a waiter that has to be woken waits.
const SLEEP: u64 = 60 * 60 * 1000;

impl Plan {
    /// The plan of a seed; always with many clients if `crowd`.
    pub fn draw(seed: u64, crowd: bool) -> Self {
        let mut rng = Rng::new(seed ^ 0x5E_ED0F_1A7E);
        let crowd = rng.percent(CROWDS) || crowd;
        let mut plan = Artist::new(&mut rng, crowd).plan(seed);
        fenced::draw(&mut plan);
        plan
    }
}

/// One of these, each as often as its weight says.
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
    distance: u64,
    /// How many pushes in 1000 are lost.
    lost_pushes: u64,
    /// Some clients may not use the queues, or hear no pushes.
    mixed: bool,
    /// Nodes may come back without their data.
    empty: bool,
    flush: bool,
}

impl<'a> Artist<'a> {
    fn new(rng: &'a mut Rng, crowd: bool) -> Self {
        let near = if crowd { 4 } else { 16 };
        let distance = pick(rng, &[(near, 0), (1, 2), (1, 5), (1, 10), (1, 20)]);
        let node_timeout = pick(rng, &[(1, 10), (2, 20), (1, 50)]);
        // Both ways, with what chance adds.
        let node_timeout =
            if distance > 0 { node_timeout.max(5 * distance + 10) } else { node_timeout };
        // Least ttl, so that what is left behind outlives the time for cleaning it up or not.
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
            distance,
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
            (0..self.clients).map(|_| self.client(extreme, restarts)).collect();
        let faults = self.faults();
        self.set_apart(&mut clients);
        Plan {
            seed,
            nodes,
            keys: self.keys,
            settings: self.settings,
            clients,
            faults,
            calm: self.calm,
            distance: self.distance,
        }
    }

    fn operations(&self) -> u64 {
        if self.crowd { CROWD_OPERATIONS } else { OPERATIONS }
    }

    /// The rate of a clock: half of the drift factor to either side, or no more than that.
    fn rate(&mut self, extreme: bool) -> f64 {
        let most = self.settings.drift / 2.05;
        let side = if extreme {
            pick(self.rng, &[(3, 1.0), (3, -1.0), (1, 0.0)])
        } else {
            2.0 * self.rng.unit() - 1.0
        };
        1.0 + most * side
    }

    fn client(&mut self, extreme: bool, restarts: Restarts) -> ClientPlan {
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
            quality: (0..self.nodes).map(|_| self.quality()).collect(),
            tasks,
            order: self.order(),
            manners,
            cold: !self.calm && self.rng.percent(10),
            joined: false,
            hasty: false,
            wary: false,
        }
    }

    /// What some clients have of their own. Drawn last: the rest of a plan does not depend on it.
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

    /// The nodes, in an order of its own for some clients.
    fn order(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.nodes).collect();
        if self.rng.percent(30) {
            for place in (1..order.len()).rev() {
                order.swap(place, self.rng.index(place + 1));
            }
        }
        order
    }

    /// More attempts at once than may be in flight, given up while most are unsent.
    fn burst(&mut self) -> Op {
        let cancel = match self.rng.below(3) {
            0 => Cancel::Polls(1 + u32::try_from(self.rng.below(3)).unwrap()),
            1 => Cancel::Woken(u32::try_from(self.rng.below(3)).unwrap()),
            _ => Cancel::After(self.rng.below(2 * self.settings.node_timeout)),
        };
        let count = 500 + self.rng.index(400);
        Op { after: self.rng.below(self.ttls[0]), what: What::Burst { count, cancel } }
    }

    fn quality(&mut self) -> LinkQuality {
        let timeout = self.settings.node_timeout;
        let Self { distance, lost_pushes, calm, .. } = *self;
        let lost_pushes = if calm { 0 } else { lost_pushes };
        let fair = LinkQuality { base: distance, lost_pushes, ..LinkQuality::FAIR };
        let mild = LinkQuality { base: distance + self.rng.below(3), jitter: timeout / 10, ..fair };
        let rough = LinkQuality {
            base: distance + self.rng.below(timeout / 4),
            jitter: timeout / 4,
            spikes: 20,
            spike: 4 * timeout,
            losses: 5,
            lost_pushes,
        };
        let weathers = if self.calm {
            [(1, mild), (2, fair), (0, rough)]
        } else {
            [(4, mild), (3, fair), (2, rough)]
        };
        pick(self.rng, &weathers)
    }

    fn op(&mut self, manners: Manners) -> Op {
        let timeout = self.settings.node_timeout;
        let after = match self.rng.below(10) {
            0..4 => 0,
            4..8 => self.rng.below(timeout),
            _ => self.rng.below(self.ttls[0]),
        };
        let what = match self.rng.below(100) {
            0..2 => What::ReleaseAll,
            2..4 => What::Health,
            _ if self.crowd => What::Take(self.take_in_crowd(manners)),
            _ => What::Take(self.take(manners)),
        };
        Op { after, what }
    }

    /// A short hold, mostly, for which many wait.
    fn take_in_crowd(&mut self, manners: Manners) -> Take {
        let how = pick(self.rng, &[(80, How::Lock), (6, How::Try), (14, How::Run)]);
        let brief = Step::Sleep(self.rng.below(6));
        let take = self.take(manners);
        let seldom = self.rng.percent(10);
        Take {
            key: if take.also.is_empty() && self.rng.percent(90) { 0 } else { take.key },
            how,
            wait: if take.sleeps || self.rng.percent(20) { take.wait } else { 30_000 },
            retry_count: take.retry_count.filter(|_| seldom),
            min_hold: if seldom { take.min_hold } else { 0 },
            auto_extend: take.auto_extend || !seldom,
            steps: if seldom { take.steps } else { vec![brief] },
            end: if seldom || matches!(take.end, End::Release | End::Drop) {
                take.end
            } else {
                End::Drop
            },
            ..take
        }
    }

    fn take(&mut self, manners: Manners) -> Take {
        let Settings { retry_delay, max_ttl, .. } = self.settings;
        let ttl = pick(self.rng, &[(4, self.ttls[0]), (3, self.ttls[1]), (3, self.ttls[2])]);
        let how = pick(
            self.rng,
            &[
                (44, How::Lock),
                (15, How::Try),
                (20, How::Snipe),
                (17, How::Run),
                (4, How::Continue),
            ],
        );
        let wait = pick(
            self.rng,
            &[(2, 0), (2, retry_delay), (3, 5 * retry_delay), (2, ttl.min(30 * retry_delay))],
        );
        let sleeps = how == How::Lock && manners == Manners::FULL && self.rng.percent(4);
        let cancel = match self.rng.below(20) {
            0 => Some(Cancel::Polls(u32::try_from(self.rng.below(8)).unwrap())),
            1 => Some(Cancel::After(self.rng.below(2 * self.settings.node_timeout))),
            2 => Some(Cancel::After(self.rng.below(ttl))),
            3 => Some(Cancel::Woken(u32::try_from(self.rng.below(4)).unwrap())),
            _ => None,
        };
        let key = self.rng.index(self.keys);
        let also = if how == How::Snipe { Vec::new() } else { self.also(key) };
        let (steps, end, auto_extend) = self.holding(ttl);
        Take {
            key,
            also,
            how,
            ttl,
            wait: if sleeps { SLEEP } else { wait },
            sleeps,
            retry_count: (!sleeps && self.rng.percent(10))
                .then(|| u32::try_from(self.rng.below(4)).unwrap()),
            auto_extend,
            drift: self.rng.percent(8).then_some(3.0),
            min_hold: if self.rng.percent(4) { self.rng.below(max_ttl) } else { 0 },
            max_hold: self.rng.percent(4).then(|| ttl + self.rng.below(ttl)),
            cancel,
            steps,
            end,
            stops: None,
            fenced: false,
            keep_handle: self.rng.percent(20),
        }
    }

    /// The other keys of a set, if the request is for a set.
    fn also(&mut self, key: usize) -> Vec<usize> {
        if !self.rng.percent(20) {
            return Vec::new();
        }
        let mut also: Vec<usize> =
            (0..1 + self.rng.below(2)).map(|_| self.rng.index(self.keys)).collect();
        also.retain(|other| *other != key);
        also.dedup();
        also
    }

    /// A lock that changes hands while its holder is cut off and has asked for more.
    fn baton(&mut self) -> [Op; 2] {
        let [ttl, .., longest] = self.ttls;
        let cut_off = Step::Isolate {
            cut: pick(self.rng, &[(1, Cut::Both), (1, Cut::ToNode)]),
            first: 0,
            count: self.nodes,
            span: ttl + self.rng.below(2 * ttl),
        };
        let take = Take {
            key: 0,
            also: Vec::new(),
            cancel: None,
            retry_count: None,
            min_hold: 0,
            sleeps: false,
            ..self.take(Manners::FULL)
        };
        let first = Take {
            how: How::Lock,
            ttl,
            wait: longest,
            auto_extend: true,
            max_hold: None,
            steps: vec![Step::Sleep(2), cut_off, Step::SendExtend(longest)],
            end: End::Drop,
            ..take.clone()
        };
        let next = Take {
            ttl: longest,
            steps: Vec::new(),
            end: End::UntilLost(2 * longest),
            ..first.clone()
        };
        let after = self.rng.below(self.settings.node_timeout);
        [Op { after, what: What::Take(first) }, Op { after: after + 1, what: What::Take(next) }]
    }

    /// What happens while a lock is held, how that ends, and whether it renews itself.
    fn holding(&mut self, ttl: u64) -> (Vec<Step>, End, bool) {
        let end = match self.rng.below(10) {
            0..5 => End::Release,
            5..9 => End::Drop,
            _ => End::CancelRelease(u32::try_from(self.rng.below(3)).unwrap()),
        };
        let limit = 2 * ttl + self.rng.below(ttl);
        let goes_on = self.rng.percent(30);
        let until_lost = if goes_on { End::GoesOn(limit) } else { End::UntilLost(limit) };
        let brief = self.rng.below(6);
        match self.rng.below(if self.calm { 75 } else { 100 }) {
            0..25 => (vec![Step::Sleep(brief)], end, true),
            25..40 => (vec![Step::Sleep(self.rng.below(ttl / 2))], end, true),
            // Across renewals.
            40..50 => (vec![Step::Sleep(ttl / 2 + self.rng.below(2 * ttl))], end, true),
            // To the end of its validity.
            50..60 => (vec![Step::Sleep(brief)], until_lost, false),
            60..75 => (self.extensions(), end, self.rng.percent(70)),
            // The same with nobody to hear it.
            75..80 => {
                let isolated = self.isolation(ttl);
                (vec![isolated, Step::SendExtend(self.ttls[2])], end, true)
            }
            80..87 => {
                let mut steps = if self.rng.percent(50) { self.extensions() } else { Vec::new() };
                steps.push(self.isolation(ttl));
                (steps, until_lost, self.rng.percent(80))
            }
            87..94 => {
                let span = ttl / 2 + self.rng.below(ttl);
                (vec![Step::Sleep(brief), Step::Stop(span), Step::Sleep(brief)], end, true)
            }
            _ => {
                let mut steps = if self.rng.percent(50) { self.extensions() } else { Vec::new() };
                let span = 1 + self.rng.below(2 * ttl);
                if self.rng.percent(40) {
                    steps.push(Step::SetBack(1 + self.rng.below(3 * ttl)));
                }
                steps.extend([Step::Freeze(span), Step::Sleep(brief)]);
                if self.rng.percent(40) {
                    steps.push(self.isolation(ttl));
                    return (steps, until_lost, true);
                }
                (steps, end, true)
            }
        }
    }

    fn extensions(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        for _ in 0..self.rng.between(1, 3) {
            steps.push(Step::Extend(self.ttls[self.rng.index(3)]));
            steps.push(Step::Sleep(self.rng.below(self.ttls[0])));
        }
        steps
    }

    fn isolation(&mut self, ttl: u64) -> Step {
        Step::Isolate {
            cut: self.cut(),
            first: self.rng.index(self.nodes),
            count: pick(self.rng, &[(3, self.nodes), (2, self.nodes / 2 + 1), (1, 1)]),
            span: ttl + self.rng.below(2 * ttl),
        }
    }

    fn cut(&mut self) -> Cut {
        pick(self.rng, &[(2, Cut::Both), (1, Cut::ToNode), (2, Cut::ToClient)])
    }

    fn faults(&mut self) -> Vec<Planned> {
        if self.calm {
            return Vec::new();
        }
        let mut faults = Vec::new();
        for _ in 0..pick(self.rng, &[(3, 0), (3, 2), (3, 4), (2, 7)]) {
            let fault = self.fault();
            faults.push(self.planned(fault));
        }
        if self.flush {
            let flush = self.planned(Fault::Flush);
            faults.push(flush);
        }
        faults
    }

    fn planned(&mut self, fault: Fault) -> Planned {
        let Settings { node_timeout, max_ttl, .. } = self.settings;
        let span = pick(
            self.rng,
            &[(3, 3 * node_timeout), (3, self.ttls[0]), (2, self.ttls[1]), (1, max_ttl)],
        );
        Planned {
            operation: self.rng.below(self.operations() * self.clients as u64),
            after: if self.rng.percent(50) { 0 } else { self.rng.below(self.ttls[0]) },
            span: 1 + self.rng.below(2 * span),
            fault,
        }
    }

    fn fault(&mut self) -> Fault {
        let (client, node) = (self.rng.index(self.clients + 4), self.rng.index(self.nodes));
        let count = 1 + self.rng.index(self.nodes);
        let cut = self.cut();
        let empty = self.empty && self.rng.percent(70);
        let delay = self.rng.below(3 * self.settings.node_timeout);
        let blow = pick(
            self.rng,
            &[(4, Blow::Stops { empty }), (2, Blow::Hangs), (2, Blow::IsCutOff), (2, Blow::Resets)],
        );
        let key = if self.crowd { 0 } else { self.rng.index(self.keys) };
        // Where many wait, what happens to their queue matters most.
        let (keeper, front) = if self.crowd { (60, 50) } else { (8, 6) };
        let faults = [
            (10, Fault::Link { client, node, cut }),
            (10, Fault::Partition { client, first: node, count, cut }),
            (6, Fault::Unreachable { node }),
            (8, Fault::Reset { client, node }),
            (18, Fault::Restart { node, empty }),
            (4, Fault::RollingRestart { first: node, count, empty }),
            (10, Fault::Hang { node }),
            (6, Fault::Slow { node, delay }),
            (8, Fault::Stop { client }),
            (8, Fault::Freeze { client }),
            (4, Fault::Step { client }),
            (8, Fault::Crash { client }),
            (keeper, Fault::Keeper { key, blow }),
            (front, Fault::Front { stops: delay.is_multiple_of(4) }),
        ];
        pick(self.rng, &faults)
    }
}
