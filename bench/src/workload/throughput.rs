//! Many tasks, each with resources of its own.

use std::{thread, time::Duration};

use tokio::runtime::Runtime;

use super::{Bench, Case, Flavor, Workload, uncontended};
use crate::{
    client::{Client, Visit, Which},
    load::{self, Uncontended},
    metric::Sample,
};

/// How many tasks lock at the same time.
pub(super) const TASKS: [usize; 3] = [1, 64, 512];
/// How many nodes they lock on.
pub(super) const NODES: usize = 5;

pub(super) const WORKLOAD: Workload = Workload {
    name: "throughput",
    about: "1, 64 and 512 tasks, each its own free locks, and two clients of 32 tasks, on 5 nodes",
    rounds: (5, 2),
    cases,
};

/// The label of the case with two clients that share nothing.
pub(crate) const HALVES: &str = "2 x 32 tasks, a thread each";

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    let mut cases = uncontended(TASKS, "task", |which, flavor, tasks| {
        which.visit(Throughput { bench, flavor, tasks })
    });
    cases.push(Case {
        label: HALVES.to_owned(),
        clients: &[Which::Bare, Which::Ours, Which::Sockets],
        sample: Box::new(|which| which.visit(Halves { bench, tasks: 64 })),
    });
    cases
}

struct Throughput<'a> {
    bench: &'a Bench,
    flavor: Flavor,
    tasks: usize,
}

impl Visit for Throughput<'_> {
    type Output = Sample;

    fn with<C: Client>(self) -> Sample {
        self.flavor.runtime().block_on(async {
            let client: C = self.bench.client(NODES, self.tasks).await;
            load::uncontended(&client, self.tasks, span(self.bench)).await.sample()
        })
    }
}

/// Two clients that share nothing, each on a thread of its own with half of the tasks. What a second thread
/// brings on this machine where it waits for no other: the servers need the processors, too.
struct Halves<'a> {
    bench: &'a Bench,
    tasks: usize,
}

impl Visit for Halves<'_> {
    type Output = Sample;

    fn with<C: Client>(self) -> Sample {
        let Self { bench, tasks } = self;
        let halves = [(); 2].map(|()| {
            let runtime = Flavor::CurrentThread.runtime();
            let client: C = runtime.block_on(bench.client(NODES, tasks / 2));
            (runtime, client)
        });
        let [one, other] = thread::scope(|scope| {
            let load = |(runtime, client): (Runtime, C)| {
                let load = async move { load::uncontended(&client, tasks / 2, span(bench)).await };
                scope.spawn(move || runtime.block_on(load))
            };
            halves.map(load).map(|it| it.join().expect("no task panics"))
        });
        Uncontended::together(one, other).sample()
    }
}

fn span(bench: &Bench) -> Duration {
    bench.pick(Duration::from_millis(800), Duration::from_millis(300))
}
