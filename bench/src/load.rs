//! Tasks that take and release locks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use redlock_tests::history::History;

use crate::{
    client::Client,
    hold::Timer,
    metric::{Metric, Sample},
    stats,
    witness::Witness,
};

/// The result of tasks without rivals.
#[derive(Debug, Default)]
pub(crate) struct Uncontended {
    /// How long each lock and release took, in microseconds.
    pub(crate) latencies: Vec<f64>,
    /// How many of them failed.
    pub(crate) failures: u64,
    /// From the first lock to the end of the last.
    pub(crate) elapsed: Duration,
}

impl Uncontended {
    /// The result of two loads that ran beside each other.
    pub(crate) fn together(mut one: Self, other: Self) -> Self {
        one.latencies.extend(other.latencies);
        one.failures += other.failures;
        one.elapsed = one.elapsed.max(other.elapsed);
        one
    }

    /// The figures of many tasks: how many locks per second, and how long each took.
    pub(crate) fn sample(mut self) -> Sample {
        let per_second = self.latencies.len() as f64 / self.elapsed.as_secs_f64();
        let mut sample =
            vec![(Metric::PerSecond, per_second), (Metric::Failures, self.failures as f64)];
        for (metric, part) in [(Metric::P50, 0.5), (Metric::P99, 0.99)] {
            sample.extend(stats::percentile(&mut self.latencies, part).map(|it| (metric, it)));
        }
        sample
    }
}

/// Keeps the keys of runs apart.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// A resource that no client has locked before.
pub(crate) fn fresh() -> String {
    format!("run{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed))
}

/// Tasks that lock and release for at least this long, each time another resource.
pub(crate) async fn uncontended<C: Client>(
    client: &C,
    tasks: usize,
    span: Duration,
) -> Uncontended {
    let (run, begun) = (fresh(), Instant::now());
    let end = begun + span;
    let tasks: Vec<_> = (0..tasks)
        .map(|task| tokio::spawn(lock_and_release(client.clone(), format!("{run}:{task}"), end)))
        .collect();
    let mut sum = Uncontended::default();
    for task in tasks {
        let one = task.await.expect("no task panics");
        sum.latencies.extend(one.latencies);
        sum.failures += one.failures;
    }
    sum.elapsed = begun.elapsed();
    sum
}

async fn lock_and_release<C: Client>(client: C, name: String, end: Instant) -> Uncontended {
    let mut done = Uncontended::default();
    let mut begun = Instant::now();
    for turn in 0_u64.. {
        let taken = client.lock(&format!("{name}:{turn}")).await;
        let released = match taken {
            Ok(held) => client.release(held).await,
            Err(failure) => Err(failure),
        };
        let now = Instant::now();
        match released {
            Ok(()) => done.latencies.push((now - begun).as_nanos() as f64 / 1000.0),
            Err(_) => done.failures += 1,
        }
        if now >= end {
            break;
        }
        begun = now;
    }
    done
}

/// The share of one task among rivals.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Turns {
    /// How often it had the lock.
    pub(crate) count: u64,
    /// Its longest wait. A wait that the end of the run cut short counts.
    pub(crate) longest: Duration,
    /// How many requests failed.
    pub(crate) failures: u64,
}

/// One resource and all tasks that want it.
#[derive(Debug, Clone)]
pub(crate) struct Rivals {
    pub(crate) resource: Arc<str>,
    pub(crate) begin: Instant,
    /// No task waits longer than this.
    pub(crate) end: Instant,
    /// How many turns each takes at most.
    pub(crate) turns: u64,
}

impl Rivals {
    /// Rivals for a fresh resource, from now on.
    pub(crate) fn new(span: Duration, turns: u64) -> Self {
        let begin = Instant::now();
        Self { resource: fresh().into(), begin, end: begin + span, turns }
    }
}

/// Tasks that all want one resource, and hold it for a millisecond. Returns how often two held it
/// at once, and the share of each task. Holds are recorded for comparison with other processes, if
/// asked.
pub(crate) async fn contended<C: Client>(
    client: &C,
    tasks: usize,
    rivals: &Rivals,
    history: Option<&History>,
) -> (Vec<Turns>, u64) {
    contended_by(vec![client.clone(); tasks], rivals, history).await
}

/// Like [`contended`], with a client for each task. The shares are in the order of the clients.
pub(crate) async fn contended_by<C: Client>(
    clients: Vec<C>,
    rivals: &Rivals,
    history: Option<&History>,
) -> (Vec<Turns>, u64) {
    let witness = Arc::new(Witness::with_room(C::TOGETHER));
    let tasks: Vec<_> = clients
        .into_iter()
        .enumerate()
        .map(|(task, client)| {
            let (witness, rivals) = (Arc::clone(&witness), rivals.clone());
            tokio::spawn(take_turns(client, task, rivals, witness, history.cloned()))
        })
        .collect();
    let mut turns = Vec::new();
    for task in tasks {
        turns.push(task.await.expect("no task panics"));
    }
    (turns, witness.violations())
}

async fn take_turns<C: Client>(
    client: C,
    task: usize,
    rivals: Rivals,
    witness: Arc<Witness>,
    history: Option<History>,
) -> Turns {
    let mut timer = Timer::new();
    let owner = format!("{}:{task}", std::process::id());
    let mut had = Turns::default();
    tokio::time::sleep_until(rivals.begin.into()).await;
    let mut asked = Instant::now();
    while had.count < rivals.turns && Instant::now() < rivals.end {
        let taken = tokio::time::timeout_at(rivals.end.into(), client.lock(&rivals.resource)).await;
        had.longest = had.longest.max(asked.elapsed());
        let held = match taken {
            Ok(Ok(held)) => held,
            Ok(Err(_)) => {
                // The task goes on waiting: `asked` stays as it was.
                had.failures += 1;
                continue;
            }
            Err(_) => break,
        };
        witness.enter();
        let recording = history.as_ref().map(|history| history.begin(&rivals.resource, &owner));
        timer.hold().await;
        if let Some(mut recording) = recording {
            recording.confirm(|| true);
        }
        witness.leave();
        had.count += 1;
        if client.release(held).await.is_err() {
            had.failures += 1;
        }
        asked = Instant::now();
    }
    had
}
