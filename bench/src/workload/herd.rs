//! Tasks that all want one lock at the same moment, each once.

use std::time::{Duration, Instant};

use super::{Bench, Case, Flavor, Workload, contended, throughput::NODES};
use crate::{
    client::{Client, Visit},
    load::{self, Rivals},
    metric::{Metric, Sample},
};

pub(super) const WORKLOAD: Workload = Workload {
    name: "herd",
    about: "16 and 128 tasks that each take one lock once, held for 1 ms, on 5 nodes",
    rounds: (3, 1),
    cases,
};

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    contended(|which, tasks| which.visit(Herd { bench, tasks }))
}

struct Herd<'a> {
    bench: &'a Bench,
    tasks: usize,
}

impl Visit for Herd<'_> {
    type Output = Sample;

    fn with<C: Client>(self) -> Sample {
        // A fast herd is done in no time and comes again. A slow herd is cut short.
        let enough = self.bench.pick(Duration::from_secs(1), Duration::from_millis(500));
        let limit = self.bench.pick(Duration::from_secs(15), Duration::from_secs(4));
        Flavor::MultiThread.runtime().block_on(async {
            let client: C = self.bench.client(NODES, 1).await;

            let (mut taken, mut failures, mut violations) = (0, 0, 0);
            let (mut elapsed, mut longest) = (Duration::ZERO, Duration::ZERO);
            while elapsed < enough {
                let (rivals, begun) = (Rivals::new(limit, 1), Instant::now());
                let (turns, violated) = load::contended(&client, self.tasks, &rivals, None).await;
                elapsed += begun.elapsed();
                violations += violated;
                for task in turns {
                    taken += task.count;
                    failures += task.failures;
                    longest = longest.max(task.longest);
                }
            }
            vec![
                (Metric::PerSecond, taken as f64 / elapsed.as_secs_f64()),
                (Metric::LongestWait, longest.as_secs_f64() * 1000.0),
                (Metric::Failures, failures as f64),
                (Metric::Violations, violations as f64),
            ]
        })
    }
}
