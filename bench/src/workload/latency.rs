//! One task that locks and releases: the wait of a user of an idle lock.

use std::time::Duration;

use super::{Bench, Case, Flavor, Workload, uncontended};
use crate::{
    client::{Client, Visit},
    load,
    metric::{Metric, Sample},
    servers, stats,
};

pub(super) const WORKLOAD: Workload = Workload {
    name: "latency",
    about: "one task, a free lock: lock and release, on 1, 3 and 5 nodes",
    rounds: (5, 2),
    cases,
};

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    uncontended([1, 3, 5], "node", |which, flavor, nodes| {
        which.visit(Latency { bench, flavor, nodes })
    })
}

/// One task on free locks.
pub(super) struct Latency<'a> {
    pub(super) bench: &'a Bench,
    pub(super) flavor: Flavor,
    pub(super) nodes: usize,
}

impl Visit for Latency<'_> {
    type Output = Sample;

    fn with<C: Client>(self) -> Sample {
        let span = self.bench.pick(Duration::from_millis(700), Duration::from_millis(250));
        let servers = &self.bench.nodes[..self.nodes];
        self.flavor.runtime().block_on(async {
            let client: C = self.bench.client(self.nodes, 1).await;

            let before = servers::count(servers);
            let mut done = load::uncontended(&client, 1, span).await;
            let counted = servers::count(servers).since(before);

            let each = (done.latencies.len() * self.nodes) as f64;
            let mut sample = vec![
                (Metric::Commands, counted.commands as f64 / each),
                (Metric::Failures, done.failures as f64),
            ];
            for (metric, part) in [(Metric::P50, 0.5), (Metric::P99, 0.99)] {
                sample.extend(stats::percentile(&mut done.latencies, part).map(|it| (metric, it)));
            }
            sample
        })
    }
}
