//! The cost of a lock and its release in this process and in the servers. It explains the
//! throughput, and is steadier than the throughput on a machine that does other work.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::{
    Bench, Case, Flavor, Workload,
    throughput::{NODES, TASKS},
    uncontended,
};
use crate::{
    ALLOCATOR,
    client::{Client, Visit},
    load,
    metric::{Metric, Sample},
    servers,
};

pub(super) const WORKLOAD: Workload = Workload {
    name: "cost",
    about: "the same: processor time, allocations and server reads for one lock and release, on 5 nodes",
    rounds: (3, 1),
    cases,
};

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    uncontended(TASKS, "task", |which, flavor, tasks| which.visit(Cost { bench, flavor, tasks }))
}

struct Cost<'a> {
    bench: &'a Bench,
    flavor: Flavor,
    tasks: usize,
}

impl Visit for Cost<'_> {
    type Output = Sample;

    fn with<C: Client>(self) -> Sample {
        let span = self.bench.pick(Duration::from_millis(400), Duration::from_millis(150));
        self.flavor.runtime().block_on(async {
            let client: C = self.bench.client(NODES, self.tasks).await;

            let before = servers::count(&self.bench.nodes);
            let worked = processor();
            ALLOCATOR.start();
            let done = load::uncontended(&client, self.tasks, span).await;
            let (allocations, allocated) = ALLOCATOR.stop();
            let worked = processor() - worked;
            let counted = servers::count(&self.bench.nodes).since(before);

            let locks = done.latencies.len() as f64;
            let each = locks * NODES as f64;
            let (worked, served) = (worked.as_secs_f64() * 1e6 / locks, counted.processor / locks);
            vec![
                (Metric::Processor, worked),
                (Metric::Servers, served),
                (Metric::Together, worked + served),
                (Metric::Allocations, allocations as f64 / locks),
                (Metric::Allocated, allocated as f64 / locks),
                (Metric::Commands, counted.commands as f64 / each),
                (Metric::Reads, counted.reads as f64 / each),
            ]
        })
    }
}

/// How long this process has been on a processor.
fn processor() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
