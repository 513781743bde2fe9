//! Readers, permits, terms as leader and locks that change hands: what each costs beside a plain lock.

use std::time::Duration;

use super::{
    Bench, Case, Flavor, Workload, contended::fairness, latency::Latency, throughput::NODES,
};
use crate::{
    client::{Client, Visit, Which},
    load::{self, Rivals},
    metric::{Metric, Sample},
    servers,
};

pub(super) const WORKLOAD: Workload = Workload {
    name: "kinds",
    about: "readers, permits, leaders, bodies in bodies, hand-over: free, and 16 tasks of 4 clients, on 5 nodes",
    rounds: (5, 1),
    cases,
};

const CLIENTS: usize = 4;

const TASKS: usize = 16;

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    let free = Case {
        label: "1 task, free".to_owned(),
        clients: &[
            Which::Ours,
            Which::Fenced,
            Which::Reader,
            Which::Permit,
            Which::Nested,
            Which::Moved,
            Which::Leader,
        ],
        sample: Box::new(move |which| {
            which.visit(Latency { bench, flavor: Flavor::MultiThread, nodes: NODES })
        }),
    };
    let rivals = Case {
        label: format!("{TASKS} tasks of {CLIENTS} clients"),
        clients: &[
            Which::Ours,
            Which::Fenced,
            Which::Reader,
            Which::Mixed,
            Which::Permit,
            Which::Leader,
        ],
        sample: Box::new(move |which| which.visit(Several { bench })),
    };
    vec![free, rivals]
}

/// Several clients on one resource.
struct Several<'a> {
    bench: &'a Bench,
}

impl Visit for Several<'_> {
    type Output = Sample;

    fn with<C: Client>(self) -> Sample {
        let Self { bench } = self;
        let span = bench.pick(Duration::from_millis(1500), Duration::from_secs(1));
        Flavor::MultiThread.runtime().block_on(async {
            let mut clients: Vec<C> = Vec::new();
            for _ in 0..CLIENTS {
                clients.push(bench.client(NODES, 1).await);
            }
            let tasks = (0..TASKS).map(|task| clients[task % CLIENTS].clone()).collect();
            let before = servers::count(&bench.nodes);
            let rivals = Rivals::new(span, u64::MAX);
            let (turns, violations) = load::contended_by(tasks, &rivals, None).await;
            let counted = servers::count(&bench.nodes).since(before);

            let taken: u64 = turns.iter().map(|task| task.count).sum();
            let commands = counted.commands as f64 / (taken.max(1) as f64 * NODES as f64);
            let mut sample = fairness(&turns, span);
            sample.extend([(Metric::Commands, commands), (Metric::Violations, violations as f64)]);
            sample
        })
    }
}
