//! Ever more clients of one task each that want one lock: the cost of a turn on all nodes must not
//! grow with the number of waiting clients.
//!
//! The clients live in one process, each with connections of its own. To the nodes that is as
//! good as processes, and they cost less beside it.

use std::{sync::Arc, time::Duration};

use redlock_tests::history::{self, History};

use super::{
    Bench, Case, Flavor, Workload,
    contended::fairness,
    processes::{self, Crowd},
    throughput::NODES,
};
use crate::{
    client::{Client, Visit, Which},
    distance::Distance,
    load::{self, Rivals},
    metric::{Metric, Sample},
    sent::Sent,
};

pub(super) const WORKLOAD: Workload = Workload {
    name: "growth",
    about: "4 to 128 clients of one task in a loop on one lock, held for 1 ms, on 5 nodes",
    rounds: (3, 1),
    cases,
};

/// How many clients there are.
const CLIENTS: [usize; 4] = [4, 16, 64, 128];
/// How many processes of one task contend. This shows that clients in one process behave like
/// processes.
const PROCESSES: usize = 100;
/// How many clients wait for a lock that another client holds all the time.
const IDLE: usize = 50;

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    let clients = &[Which::Mutex, Which::Ours, Which::Rslock, Which::Bare];
    let mut cases: Vec<Case<'_>> = CLIENTS
        .into_iter()
        .map(|count| Case {
            label: format!("{count} clients"),
            clients,
            sample: Box::new(move |which| which.visit(Growth::new(bench, count, Duration::ZERO))),
        })
        .collect();
    let span = bench.pick(Duration::from_secs(3), Duration::from_secs(2));
    let crowd = Crowd { processes: PROCESSES, tasks: 1, span };
    cases.push(processes::case(bench, format!("{PROCESSES} processes"), crowd));
    cases.push(Case {
        label: format!("{IDLE} idle waiters"),
        clients: &[Which::Ours, Which::Rslock, Which::Bare],
        sample: Box::new(move |which| which.visit(Idle { bench })),
    });
    cases
}

/// Clients in a loop on one lock.
pub(super) struct Growth<'a> {
    bench: &'a Bench,
    clients: usize,
    one_way: Duration,
}

impl<'a> Growth<'a> {
    /// The workload with this number of clients, at this distance from the nodes.
    pub(super) fn new(bench: &'a Bench, clients: usize, one_way: Duration) -> Self {
        Self { bench, clients, one_way }
    }
}

impl Visit for Growth<'_> {
    type Output = Sample;

    fn with<C: Client>(self) -> Sample {
        // A turn takes round trips.
        let longer = if self.one_way.is_zero() { 1 } else { 4 };
        let span =
            self.bench.pick(longer * Duration::from_secs(3), longer * Duration::from_secs(2));
        let far = Far::new(self.bench, self.one_way);
        Flavor::MultiThread.runtime().block_on(async {
            let clients: Vec<C> = far.clients(self.clients).await;
            let rivals = Rivals::new(span, u64::MAX);
            let (turns, violations) = load::contended_by(clients.clone(), &rivals, None).await;
            let mut sample = fairness(&turns, span);
            let (sent, more) = sent_per_turn(self.bench, clients, span / 2).await;
            sample.extend([(Metric::Sent, sent), (Metric::Violations, (violations + more) as f64)]);
            sample
        })
    }
}

/// Where the nodes are.
pub(super) struct Far {
    urls: Vec<String>,
    one_way: Duration,
    _proxies: Option<Distance>,
}

impl Far {
    /// This far away.
    pub(super) fn new(bench: &Bench, one_way: Duration) -> Self {
        if one_way.is_zero() {
            return Self { urls: bench.urls(NODES), one_way, _proxies: None };
        }
        let proxies = Distance::start(&bench.nodes[..NODES], one_way);
        Self { urls: proxies.urls().to_vec(), one_way, _proxies: Some(proxies) }
    }

    /// This many clients, connected to all nodes.
    pub(super) async fn clients<C: Client>(&self, count: usize) -> Vec<C> {
        let first = C::open_far(&self.urls, 2 * self.one_way).await;
        let mut clients = Vec::with_capacity(count);
        for _ in 1..count {
            clients.push(first.another(&self.urls, 2 * self.one_way).await);
        }
        clients.push(first);
        for client in &clients {
            client.ready().await;
        }
        clients
    }
}

/// Commands to all nodes for one turn, and how often two clients held the lock at once. The
/// clients are at it before the count begins, and go on until it has ended.
async fn sent_per_turn<C: Client>(bench: &Bench, clients: Vec<C>, span: Duration) -> (f64, u64) {
    const BEFORE: Duration = Duration::from_millis(500);
    const AFTER: Duration = Duration::from_millis(100);
    // The end of an earlier run may still send commands. They must not be counted here.
    tokio::time::sleep(AFTER).await;
    let counter = Sent::start(&bench.nodes[..NODES]);
    let (history, rivals) = (History::new(), Rivals::new(BEFORE + span + AFTER, u64::MAX));
    let under_way = {
        let history = history.clone();
        tokio::spawn(async move { load::contended_by(clients, &rivals, Some(&history)).await })
    };
    tokio::time::sleep(BEFORE).await;
    let (from, before) = (history::now(), counter.count());
    tokio::time::sleep(span).await;
    let (until, after) = (history::now(), counter.count());
    let (_, violations) = under_way.await.expect("no task panics");
    let counted = |hold: &&history::Hold| from <= hold.from && hold.from < until;
    let turns = history.holds().iter().filter(counted).count();
    ((after - before) as f64 / turns.max(1) as f64, violations)
}

struct Idle<'a> {
    bench: &'a Bench,
}

impl Visit for Idle<'_> {
    type Output = Sample;

    fn with<C: Client>(self) -> Sample {
        /// Until all clients wait in the steady state.
        const BEFORE: Duration = Duration::from_secs(2);
        let span = self.bench.pick(Duration::from_secs(8), Duration::from_secs(4));
        Flavor::MultiThread.runtime().block_on(async {
            let mut clients: Vec<C> = Far::new(self.bench, Duration::ZERO).clients(IDLE + 1).await;
            let resource: Arc<str> = load::fresh().into();
            let holder = clients.pop().expect("there are clients");
            let held = holder.lock(&resource).await.expect("the lock is free");
            let waiters: Vec<_> = clients
                .into_iter()
                .map(|client| {
                    let resource = Arc::clone(&resource);
                    // A client that gives up asks again.
                    tokio::spawn(async move { while client.lock(&resource).await.is_err() {} })
                })
                .collect();
            let counter = Sent::start(&self.bench.nodes[..NODES]);
            tokio::time::sleep(BEFORE).await;
            let before = counter.count();
            tokio::time::sleep(span).await;
            let sent = (counter.count() - before) as f64;
            for waiter in &waiters {
                assert!(!waiter.is_finished(), "a lock that is held was given");
                waiter.abort();
            }
            drop(holder.release(held).await);
            vec![(Metric::WaiterCommands, sent / span.as_secs_f64() / IDLE as f64)]
        })
    }
}
