//! More callers than the processors can serve, on free locks, while one client holds some for
//! long: held locks must be renewed, no caller may be refused, and the work must go on.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redlock_core::{LockError, LockGuard, Redlock};
use tokio::time::timeout_at;

use super::{Bench, Case, Flavor, Workload, throughput::NODES};
use crate::{
    client::{Client, Visit, Which},
    load,
    metric::{Metric, Sample},
};

pub(super) const WORKLOAD: Workload = Workload {
    name: "overload",
    about: "1,000 to 20,000 tasks on free locks beside 100 held ones with a ttl of 2 s, on 5 nodes",
    rounds: (2, 1),
    cases,
};

/// How many tasks lock and release.
const CALLERS: [usize; 3] = [1000, 5000, 20_000];
/// How many locks are held meanwhile.
const HELD: usize = 100;
/// How long a lock without a renewal lives.
const TTL: Duration = Duration::from_secs(2);

fn cases(bench: &Bench) -> Vec<Case<'_>> {
    let case = |callers| Case {
        label: format!("{callers} callers"),
        clients: &[Which::Bare, Which::Ours, Which::Rslock, Which::Sockets],
        sample: Box::new(move |which| match which {
            Which::Ours => Flavor::MultiThread.runtime().block_on(ours(bench, callers)),
            other => other.visit(Overload { bench, callers }),
        }),
    };
    CALLERS.map(case).into()
}

fn span(bench: &Bench) -> Duration {
    bench.pick(3 * TTL, 2 * TTL)
}

/// How one lock with its release ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    NoQuorum,
    Held,
    Failed,
}

impl From<LockError> for Outcome {
    fn from(error: LockError) -> Self {
        match error {
            LockError::NoQuorum { .. } => Self::NoQuorum,
            LockError::Held { .. } => Self::Held,
            _ => Self::Failed,
        }
    }
}

/// The result of all callers.
#[derive(Debug, Default)]
struct Sum {
    done: u64,
    no_quorum: u64,
    held: u64,
    failed: u64,
}

impl Sum {
    fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Done => self.done += 1,
            Outcome::NoQuorum => self.no_quorum += 1,
            Outcome::Held => self.held += 1,
            Outcome::Failed => self.failed += 1,
        }
    }

    fn sample(self, span: Duration) -> Sample {
        vec![
            (Metric::PerSecond, self.done as f64 / span.as_secs_f64()),
            (Metric::NoQuorum, self.no_quorum as f64),
            (Metric::FalselyHeld, self.held as f64),
            (Metric::Failures, self.failed as f64),
        ]
    }
}

/// Callers that lock and release, each time another resource. A lock that the end cuts short does
/// not count.
async fn call<Call, Answer>(callers: usize, span: Duration, once: Call) -> Sum
where
    Call: Fn(String) -> Answer + Clone + Send + 'static,
    Answer: Future<Output = Outcome> + Send,
{
    let (run, end) = (load::fresh(), Instant::now() + span);
    let callers = (0..callers).map(|caller| {
        let (once, name) = (once.clone(), format!("{run}:{caller}"));
        tokio::spawn(async move {
            let mut sum = Sum::default();
            for turn in 0_u64.. {
                let answer = timeout_at(end.into(), once(format!("{name}:{turn}"))).await;
                match answer {
                    Ok(outcome) if Instant::now() < end => sum.add(outcome),
                    _ => break,
                }
            }
            sum
        })
    });
    let callers: Vec<_> = callers.collect();
    let mut all = Sum::default();
    for sum in join_all(callers).await {
        let sum = sum.expect("no task panics");
        all.done += sum.done;
        all.no_quorum += sum.no_quorum;
        all.held += sum.held;
        all.failed += sum.failed;
    }
    all
}

async fn ours(bench: &Bench, callers: usize) -> Sample {
    let span = span(bench);
    let builder = Redlock::builder().nodes(bench.urls(NODES)).ttl(TTL);
    let redlock = builder.build().expect("plain URLs and defaults");
    let mut held: Vec<LockGuard> = Vec::with_capacity(HELD);
    while held.len() < HELD {
        held.push(redlock.lock(load::fresh()).await.expect("a free lock and idle nodes"));
    }
    let client = redlock.clone();
    let sum = call(callers, span, move |resource| {
        let client = client.clone();
        async move {
            match client.lock(resource).await {
                Ok(guard) => guard.release().await.map_or_else(Outcome::from, |_| Outcome::Done),
                Err(error) => error.into(),
            }
        }
    })
    .await;
    // Commands in flight at the end may still delay a renewal.
    tokio::time::sleep(TTL / 2).await;
    let valid = held.iter().filter(|guard| guard.is_valid()).count();
    drop(held);
    redlock.shutdown(Duration::ZERO).await;
    let mut sample = sum.sample(span);
    sample.push((Metric::Lost, (HELD - valid) as f64));
    sample
}

/// The other clients do not renew, so they hold no lock meanwhile.
struct Overload<'a> {
    bench: &'a Bench,
    callers: usize,
}

impl Visit for Overload<'_> {
    type Output = Sample;

    fn with<C: Client>(self) -> Sample {
        let span = span(self.bench);
        Flavor::MultiThread.runtime().block_on(async {
            let client: C = self.bench.client(NODES, 1).await;
            let sum = call(self.callers, span, move |resource| {
                let client = client.clone();
                async move {
                    let Ok(held) = client.lock(&resource).await else { return Outcome::Failed };
                    client.release(held).await.map_or(Outcome::Failed, |()| Outcome::Done)
                }
            })
            .await;
            sum.sample(span)
        })
    }
}
