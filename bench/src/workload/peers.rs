//! Locks of other languages beside ours and rslock: one task on free locks, and 16 tasks that want one.

use std::time::Duration;

use super::{
    Bench, Case, Flavor, Workload,
    asked::{Asked, Mode},
    contended::{Contended, fairness},
    latency::Latency,
    throughput::NODES,
};
use crate::{
    client::{Peer, Which},
    metric::{Metric, Sample},
};

const TASKS: usize = 16;

/// Interpreters and virtual machines need a moment until they are fast.
const SPAN: Duration = Duration::from_secs(5);

const CLIENTS: &[Which] = &[
    Which::Ours,
    Which::Rslock,
    Which::Peer(Peer::NodeRedlock),
    Which::Peer(Peer::Redsync),
    Which::Peer(Peer::Redisson),
];

pub(super) const WORKLOAD: Workload = Workload {
    name: "peers",
    about: "beside locks of other languages: one task on free locks, 16 on one lock, on 5 nodes",
    rounds: (3, 1),
    cases,
};

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    let apart = move |which| match which {
        Which::Peer(peer) => run(bench, peer, Mode::Apart),
        ours => ours.visit(Latency { bench, flavor: Flavor::MultiThread, nodes: NODES }),
    };
    let one = move |which| match which {
        Which::Peer(peer) => run(bench, peer, Mode::One(TASKS)),
        ours => ours.visit(Contended { bench, tasks: TASKS }),
    };
    vec![
        Case { label: "1 task".into(), clients: CLIENTS, sample: Box::new(apart) },
        Case { label: format!("{TASKS} tasks"), clients: CLIENTS, sample: Box::new(one) },
    ]
}

/// The figures of a peer; none where its language is not installed.
fn run(bench: &Bench, peer: Peer, mode: Mode) -> Sample {
    let span = bench.pick(SPAN, SPAN / 2);
    let Some(mut asked) = Asked::start(bench, peer, mode, span) else { return Sample::new() };
    asked.go();
    let mut said = asked.hear();
    let mut sample = vec![(Metric::Violations, said.violations)];
    match mode {
        Mode::Apart => sample.extend(said.times()),
        Mode::One(_) => sample.extend(fairness(&said.turns, span)),
    }
    sample
}
