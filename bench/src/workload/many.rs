//! Very many locks that one client holds for a long time: the cost of their renewals, and whether
//! any lock is lost.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use redlock_core::{LockGuard, Redlock};

use super::{Bench, Case, Flavor, Workload, throughput::NODES};
use crate::{
    client::Which,
    load,
    metric::{Metric, Sample},
    servers,
};

pub(super) const WORKLOAD: Workload = Workload {
    name: "many",
    about: "100,000 locks held for three ttls of 30 s, on 5 nodes",
    rounds: (1, 1),
    cases,
};

/// How many are asked for at once.
const TOGETHER: usize = 64;

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    let (locks, ttl) =
        bench.pick((100_000, Duration::from_secs(30)), (2000, Duration::from_secs(2)));
    vec![Case {
        label: format!("{locks} locks, {ttl:?}"),
        clients: &[Which::Ours],
        sample: Box::new(move |_| Flavor::MultiThread.runtime().block_on(hold(bench, locks, ttl))),
    }]
}

async fn hold(bench: &Bench, locks: usize, ttl: Duration) -> Sample {
    let builder = Redlock::builder().nodes(bench.urls(NODES)).ttl(ttl);
    let redlock = builder.build().expect("plain URLs and defaults");
    drop(redlock.lock(load::fresh()).await);
    let empty = resident();
    let asked = stream::iter(0..locks).map(|_| redlock.lock(load::fresh()).into_future());
    let taken: Vec<_> = asked.buffer_unordered(TOGETHER).collect().await;
    let held: Vec<LockGuard> = taken.into_iter().filter_map(Result::ok).collect();
    let memory = resident().saturating_sub(empty);

    let (begun, before) = (Instant::now(), servers::count(&bench.nodes));
    tokio::time::sleep(3 * ttl).await;
    let counted = servers::count(&bench.nodes).since(before);
    let seconds = begun.elapsed().as_secs_f64();
    let valid = held.iter().filter(|guard| guard.is_valid()).count();
    // A renewal is a script; the servers count the PTTL that it calls as well.
    let commands = counted.commands as f64 / 2.0;
    drop(held);
    redlock.shutdown(Duration::ZERO).await;
    vec![
        (Metric::Lost, (locks - valid) as f64),
        (Metric::Memory, memory as f64 / locks as f64),
        (Metric::CommandsPerSecond, commands / seconds),
        (Metric::CommandsPerRead, commands / counted.reads as f64),
    ]
}

/// The memory of this process, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes =
        kibibytes.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.unwrap_or_default() * 1024
}
