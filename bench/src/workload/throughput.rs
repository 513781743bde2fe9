//! Many tasks, each with resources of its own.

use std::time::Duration;

use super::{Bench, Case, Flavor, Workload, uncontended};
use crate::{
    client::{Client, Visit},
    load,
    metric::Sample,
};

/// How many tasks lock at the same time.
pub(super) const TASKS: [usize; 3] = [1, 64, 512];
/// How many nodes they lock on.
pub(super) const NODES: usize = 5;

pub(super) const WORKLOAD: Workload = Workload {
    name: "throughput",
    about: "1, 64 and 512 tasks, each its own free locks, on 5 nodes",
    rounds: (5, 2),
    cases,
};

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    uncontended(TASKS, "task", |which, flavor, tasks| {
        which.visit(Throughput { bench, flavor, tasks })
    })
}

struct Throughput<'a> {
    bench: &'a Bench,
    flavor: Flavor,
    tasks: usize,
}

impl Visit for Throughput<'_> {
    type Output = Sample;

    fn with<C: Client>(self) -> Sample {
        let span = self.bench.pick(Duration::from_millis(800), Duration::from_millis(300));
        self.flavor.runtime().block_on(async {
            let client: C = self.bench.client(NODES, self.tasks).await;
            load::uncontended(&client, self.tasks, span).await.sample()
        })
    }
}
