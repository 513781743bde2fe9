//! Nodes that are far away, and a client with many tasks beside a client with one: no client may
//! keep the lock to itself because its tasks stand nearer to each other than the nodes do.

use std::time::Duration;

use super::{
    Bench, Case, Flavor, Workload,
    contended::fairness,
    growth::{Far, Growth},
};
use crate::{
    client::{Client, Visit, Which},
    load::{self, Rivals},
    metric::{Metric, Sample},
};

pub(super) const WORKLOAD: Workload = Workload {
    name: "far",
    about: "a client of 8 tasks against a client of one, and 64 clients, on 5 nodes up to 20 ms away",
    rounds: (2, 1),
    cases,
};

/// How many tasks the larger client has.
const CROWD: usize = 8;
/// How far away the nodes are, one way, in milliseconds.
const ONE_WAY: [u64; 4] = [0, 1, 5, 20];
/// This many clients of one task each, and how far away their nodes are.
const MANY: (usize, u64) = (64, 5);

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    let clients = &[Which::Ours, Which::Rslock, Which::Bare];
    let unequal = |milliseconds| {
        let one_way = Duration::from_millis(milliseconds);
        Case {
            label: format!("{milliseconds} ms, {CROWD} tasks against 1"),
            clients,
            sample: Box::new(move |which| which.visit(Unequal { bench, one_way })),
        }
    };
    let mut cases: Vec<Case<'_>> = ONE_WAY.into_iter().map(unequal).collect();
    let (count, milliseconds) = MANY;
    let one_way = Duration::from_millis(milliseconds);
    cases.push(Case {
        label: format!("{milliseconds} ms, {count} clients"),
        clients,
        sample: Box::new(move |which| which.visit(Growth::new(bench, count, one_way))),
    });
    cases
}

struct Unequal<'a> {
    bench: &'a Bench,
    one_way: Duration,
}

impl Visit for Unequal<'_> {
    type Output = Sample;

    fn with<C: Client>(self) -> Sample {
        let span = self.bench.pick(Duration::from_secs(10), Duration::from_secs(5));
        let far = Far::new(self.bench, self.one_way);
        Flavor::MultiThread.runtime().block_on(async {
            let mut clients: Vec<C> = far.clients(2).await;
            let single = clients.pop().expect("two clients");
            let crowd = clients.pop().expect("two clients");
            let mut rivals_of_it = vec![crowd; CROWD];
            rivals_of_it.push(single);
            let rivals = Rivals::new(span, u64::MAX);
            let (turns, violations) = load::contended_by(rivals_of_it, &rivals, None).await;
            let mut sample = fairness(&turns, span);
            let (crowd, single) = turns.split_at(CROWD);
            let of_crowd: u64 = crowd.iter().map(|task| task.count).sum();
            let of_single: u64 = single.iter().map(|task| task.count).sum();
            let mean = (of_crowd as f64 / CROWD as f64).max(f64::MIN_POSITIVE);
            sample.extend([
                (Metric::Share, of_single as f64 / mean),
                (Metric::Violations, violations as f64),
            ]);
            sample
        })
    }
}
