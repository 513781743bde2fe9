//! Transfers between two of 20 accounts: both locks in one step, beside one lock after the other.

use std::{
    array,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Bench, Case, Flavor, Workload, contended::fairness, throughput::NODES};
use crate::{
    client::{Client, Visit, Which},
    hold::Timer,
    load::{Turns, fresh},
    metric::{Metric, Sample},
    servers,
    witness::Witness,
};

const ACCOUNTS: usize = 20;

/// Clients in this process, each with its own connections.
const CLIENTS: usize = 4;

pub(super) const WORKLOAD: Workload = Workload {
    name: "sets",
    about: "4 clients, transfers between two of 20 accounts in a loop, held for 1 ms, on 5 nodes",
    rounds: (5, 1),
    cases,
};

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    let case = |tasks| Case {
        label: format!("{tasks} tasks"),
        clients: &[Which::Ordered, Which::Set],
        sample: Box::new(move |which| which.visit(Transfers { bench, tasks })),
    };
    [4, 16, 64].map(case).into()
}

struct Transfers<'a> {
    bench: &'a Bench,
    tasks: usize,
}

impl Visit for Transfers<'_> {
    type Output = Sample;

    fn with<C: Client>(self) -> Sample {
        let span = self.bench.pick(Duration::from_secs(3), Duration::from_secs(1));
        Flavor::MultiThread.runtime().block_on(async {
            let mut clients: Vec<C> = Vec::new();
            for _ in 0..CLIENTS {
                clients.push(self.bench.client(NODES, 1).await);
            }
            let before = servers::count(&self.bench.nodes);
            let (run, end) = (fresh(), Instant::now() + span);
            let accounts: Arc<[Witness; ACCOUNTS]> =
                Arc::new(array::from_fn(|_| Witness::default()));
            let tasks: Vec<_> = (0..self.tasks)
                .map(|task| {
                    let client = clients[task % CLIENTS].clone();
                    let accounts = Arc::clone(&accounts);
                    tokio::spawn(transfer(client, task, run.clone(), end, accounts))
                })
                .collect();
            let mut turns = Vec::new();
            for task in tasks {
                turns.push(task.await.expect("no task panics"));
            }
            let counted = servers::count(&self.bench.nodes).since(before);
            let taken: u64 = turns.iter().map(|task| task.count).sum();
            let commands = counted.commands as f64 / (taken.max(1) as f64 * NODES as f64);
            let violations: u64 = accounts.iter().map(Witness::violations).sum();
            let mut sample = fairness(&turns, span);
            sample.extend([(Metric::Commands, commands), (Metric::Violations, violations as f64)]);
            sample
        })
    }
}

async fn transfer<C: Client>(
    client: C,
    task: usize,
    run: String,
    end: Instant,
    accounts: Arc<[Witness; ACCOUNTS]>,
) -> Turns {
    let (mut timer, mut had) = (Timer::new(), Turns::default());
    // A generator of its own: all clients see the same transfers.
    let mut random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(task as u64 + 1);
    let mut any = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    while Instant::now() < end {
        let from = any(ACCOUNTS);
        let to = (from + 1 + any(ACCOUNTS - 1)) % ACCOUNTS;
        let asked = Instant::now();
        let both = format!("{run}:{from:02}+{run}:{to:02}");
        let taken = tokio::time::timeout_at(end.into(), client.lock(&both)).await;
        had.longest = had.longest.max(asked.elapsed());
        let held = match taken {
            Ok(Ok(held)) => held,
            Ok(Err(_)) => {
                had.failures += 1;
                continue;
            }
            Err(_) => break,
        };
        accounts[from].enter();
        accounts[to].enter();
        timer.hold().await;
        accounts[from].leave();
        accounts[to].leave();
        had.count += 1;
        if client.release(held).await.is_err() {
            had.failures += 1;
        }
    }
    had
}
