//! The first lock of a client that has just been made, with every node healthy and with one of
//! them a black hole: it takes connections and bytes, and is silent.

use std::time::{Duration, Instant};

use redlock_tests::{Flow, Proxy};

use super::{Bench, Case, Flavor, Workload, throughput::NODES};
use crate::{
    client::{Client, Visit, Which},
    load,
    metric::{Metric, Sample},
    stats,
};

pub(super) const WORKLOAD: Workload = Workload {
    name: "first-lock",
    about: "the first lock of a fresh client, with and without a black hole among 5 nodes",
    rounds: (3, 1),
    cases,
};

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    vec![Case {
        label: "one black-holed".to_owned(),
        clients: &[Which::Ours, Which::Rslock],
        sample: Box::new(move |which| which.visit(FirstLock { bench })),
    }]
}

struct FirstLock<'a> {
    bench: &'a Bench,
}

impl Visit for FirstLock<'_> {
    type Output = Sample;

    fn with<C: Client>(self) -> Sample {
        let clients = self.bench.pick(10, 3);
        let hole = Proxy::start(self.bench.nodes[0].port());
        hole.both(Flow::Hold);
        let healthy = self.bench.urls(NODES);
        let mut holed = healthy.clone();
        holed[0] = hole.url();

        let (mut with_all, mut with_hole) = (Vec::new(), Vec::new());
        for _ in 0..clients {
            with_all.push(first_lock::<C>(&healthy));
            with_hole.push(first_lock::<C>(&holed));
        }
        let (Some(with_all), Some(with_hole)) =
            (stats::median(&with_all), stats::median(&with_hole))
        else {
            return Sample::new();
        };
        vec![
            (Metric::FirstLock, with_all),
            (Metric::FirstLockBlackHoled, with_hole),
            (Metric::FirstLockRatio, with_hole / with_all),
        ]
    }
}

/// In milliseconds, with a runtime of its own that is warm.
fn first_lock<C: Client>(urls: &[String]) -> f64 {
    let runtime = Flavor::MultiThread.runtime();
    let urls = urls.to_vec();
    let task = runtime.spawn(async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let begun = Instant::now();
        let client = C::open(&urls).await;
        let held = client.lock(&load::fresh()).await;
        let elapsed = begun.elapsed();
        if let Ok(held) = held {
            // Only the lock is of interest.
            let _ = client.release(held).await;
        }
        elapsed
    });
    let elapsed = runtime.block_on(task).expect("no task panics");
    runtime.shutdown_background();
    elapsed.as_secs_f64() * 1000.0
}
