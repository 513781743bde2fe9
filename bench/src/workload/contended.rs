//! Tasks of one process that want one lock again and again: how fast it passes from task to task,
//! and how evenly.

use std::time::Duration;

use super::{Bench, Case, Flavor, Workload, contended, throughput::NODES};
use crate::{
    client::{Client, Visit},
    load::{self, Rivals, Turns},
    metric::{Metric, Sample},
    servers, stats,
};

pub(super) const WORKLOAD: Workload = Workload {
    name: "contended",
    about: "16 and 128 tasks in a loop on one lock, held for 1 ms, on 5 nodes",
    rounds: (5, 1),
    cases,
};

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    contended(|which, tasks| which.visit(Contended { bench, tasks }))
}

/// Tasks of one client that want one lock.
pub(super) struct Contended<'a> {
    pub(super) bench: &'a Bench,
    pub(super) tasks: usize,
}

impl Visit for Contended<'_> {
    type Output = Sample;

    fn with<C: Client>(self) -> Sample {
        let span = self.bench.pick(Duration::from_millis(1500), Duration::from_secs(1));
        Flavor::MultiThread.runtime().block_on(async {
            let client: C = self.bench.client(NODES, 1).await;

            let before = servers::count(&self.bench.nodes);
            let rivals = Rivals::new(span, u64::MAX);
            let (turns, violations) = load::contended(&client, self.tasks, &rivals, None).await;
            let counted = servers::count(&self.bench.nodes).since(before);

            let mut sample = fairness(&turns, span);
            let taken: u64 = turns.iter().map(|task| task.count).sum();
            let commands = counted.commands as f64 / (taken.max(1) as f64 * NODES as f64);
            sample.extend([(Metric::Commands, commands), (Metric::Violations, violations as f64)]);
            sample
        })
    }
}

/// The share of each task, and its longest wait.
pub(super) fn fairness(turns: &[Turns], span: Duration) -> Sample {
    let counts: Vec<u64> = turns.iter().map(|task| task.count).collect();
    let taken: u64 = counts.iter().sum();
    let longest = turns.iter().map(|task| task.longest).max().unwrap_or_default();
    let failures: u64 = turns.iter().map(|task| task.failures).sum();
    vec![
        (Metric::PerSecond, taken as f64 / span.as_secs_f64()),
        (Metric::Jain, stats::jain(&counts)),
        (Metric::LongestWait, longest.as_secs_f64() * 1000.0),
        (Metric::Failures, failures as f64),
    ]
}
