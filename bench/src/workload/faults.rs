//! Nodes that hang or die under a client at work.

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use redlock_tests::{LIMIT, Nodes};
use tokio::runtime::Runtime;

use super::{
    Bench, Case, Flavor, Workload,
    asked::{Asked, Mode},
    throughput::NODES,
};
use crate::{
    client::{Client, Peer, Visit, Which},
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

const CLIENTS: &[Which] = &[Which::Bare, Which::Ours, Which::Rslock];

/// With locks of other languages, which take up to nine seconds for a lock.
const WITH_PEERS: &[Which] = &[
    Which::Bare,
    Which::Ours,
    Which::Rslock,
    Which::Peer(Peer::NodeRedlock),
    Which::Peer(Peer::Redsync),
    Which::Peer(Peer::Redisson),
];

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    let faults = [
        ("one hung", Fault::Hung(1), WITH_PEERS),
        ("two hung", Fault::Hung(2), CLIENTS),
        ("one killed", Fault::Killed(1), CLIENTS),
    ];
    let case = |(label, fault, clients): (&str, Fault, _)| Case {
        label: label.to_owned(),
        clients,
        sample: Box::new(move |which| match which {
            Which::Peer(peer) => beside(bench, peer, fault),
            which => which.visit(Faulty { bench, fault }),
        }),
    };
    faults.into_iter().map(case).collect()
}

/// The figures of a lock of another language; none where the language is not installed.
fn beside(bench: &Bench, peer: Peer, fault: Fault) -> Sample {
    let span = bench.pick(Duration::from_secs(5), Duration::from_secs(2));
    let Some(mut asked) = Asked::start(bench, peer, Mode::Apart, span) else {
        return Sample::new();
    };
    fault.begin(&bench.nodes);
    asked.go();
    let (tell, told) = mpsc::channel();
    let listener = thread::spawn(move || {
        let said = asked.hear();
        let _ = tell.send(());
        said
    });
    // The last lock ends while the fault lasts, too. A library that gets none then must end all the same.
    let _ = told.recv_timeout(span + LIMIT);
    fault.end(&bench.nodes);
    listener.join().expect("a peer speaks until its end").times()
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
