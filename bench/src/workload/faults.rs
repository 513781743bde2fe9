//! Nodes that hang or die under a client at work.

use std::time::{Duration, Instant};

use redlock_tests::{LIMIT, Nodes};
use tokio::runtime::Runtime;

use super::{Bench, Case, Flavor, Workload, throughput::NODES};
use crate::{
    client::{Client, Visit, Which},
    load::{self, Uncontended},
    metric::{Metric, Sample},
    stats,
};

pub(super) const WORKLOAD: Workload = Workload {
    name: "faults",
    about: "one task while one node of 5 hangs, two hang, one is killed",
    rounds: (3, 1),
    cases,
};

/// What happens to the first nodes.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// They take bytes and answer nothing.
    Hung(usize),
    /// They are gone, and their ports refuse.
    Killed(usize),
}

impl Fault {
    fn begin(self, nodes: &Nodes) {
        match self {
            Self::Hung(count) => nodes.iter().take(count).for_each(|node| node.pause()),
            Self::Killed(count) => nodes.iter().take(count).for_each(|node| node.kill()),
        }
    }

    fn end(self, nodes: &Nodes) {
        match self {
            Self::Hung(count) => nodes.iter().take(count).for_each(|node| node.resume()),
            Self::Killed(count) => nodes.iter().take(count).for_each(|node| node.start_again()),
        }
    }
}

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    let faults = [
        ("one hung", Fault::Hung(1)),
        ("two hung", Fault::Hung(2)),
        ("one killed", Fault::Killed(1)),
    ];
    let case = |(label, fault): (&str, Fault)| Case {
        label: label.to_owned(),
        clients: &[Which::Bare, Which::Ours, Which::Rslock],
        sample: Box::new(move |which| which.visit(Faulty { bench, fault })),
    };
    faults.into_iter().map(case).collect()
}

struct Faulty<'a> {
    bench: &'a Bench,
    fault: Fault,
}

impl Visit for Faulty<'_> {
    type Output = Sample;

    fn with<C: Client>(self) -> Sample {
        let Self { bench: Bench { nodes, .. }, fault } = self;
        let span = self.bench.pick(Duration::from_secs(2), Duration::from_millis(600));
        // The worker threads go on while this thread deals with the nodes.
        let runtime = Flavor::MultiThread.runtime();
        let client = runtime.block_on(async {
            let client: C = self.bench.client(NODES, 1).await;
            client
        });
        let mut healthy = runtime.block_on(load::uncontended(&client, 1, span));

        let working = client.clone();
        let under_way = runtime.spawn(async move { load::uncontended(&working, 1, span).await });
        fault.begin(nodes);
        let mut disturbed = runtime.block_on(under_way).expect("no task panics");
        fault.end(nodes);

        let mut sample = compare(&mut healthy, &mut disturbed);
        if let Fault::Hung(_) = fault {
            let recovery = recovery(&runtime, &client, nodes);
            sample.push((Metric::Recovery, recovery.as_secs_f64() * 1000.0));
        }
        sample
    }
}

fn compare(healthy: &mut Uncontended, disturbed: &mut Uncontended) -> Sample {
    let mut sample = vec![(Metric::Failures, disturbed.failures as f64)];
    let parts = [(Metric::P50, Metric::P50Healthy, 0.5), (Metric::P99, Metric::P99Healthy, 0.99)];
    for (metric, ratio, part) in parts {
        let before = stats::percentile(&mut healthy.latencies, part);
        let after = stats::percentile(&mut disturbed.latencies, part);
        if let (Some(before), Some(after)) = (before, after) {
            sample.extend([(metric, after), (ratio, after / before)]);
        }
    }
    sample
}

/// How long it takes until a lock is on every node again. At most [`LIMIT`].
fn recovery<C: Client>(runtime: &Runtime, client: &C, nodes: &Nodes) -> Duration {
    /// For the nodes behind the quorum.
    const MOMENT: Duration = Duration::from_millis(5);
    let back = Instant::now();
    while back.elapsed() < LIMIT {
        let resource = load::fresh();
        let key = format!("{}{resource}", C::PREFIX);
        let Ok(held) = runtime.block_on(client.lock(&resource)) else { continue };
        let taken = Instant::now();
        let everywhere = loop {
            let everywhere = nodes.iter().all(|node| node.ttl(&key).is_some());
            if everywhere || taken.elapsed() > MOMENT {
                break everywhere;
            }
        };
        let recovered = back.elapsed();
        // A client that fails to release has recovered all the same.
        let _ = runtime.block_on(client.release(held));
        if everywhere {
            return recovered;
        }
    }
    LIMIT
}
