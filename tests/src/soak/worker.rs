//! One process of those that contend: tasks that take, hold and release locks in every possible
//! way, until the directory says stop.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use redlock_core::{LockError, LockGuard, LockHandle, LockRequest, Redlock, Restarts};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{
    KEYS, MAX_TTL,
    journal::{Entry, Journal, Record, Tally},
    key,
};
use crate::chance::Chance;

/// How many tasks share the client of one process.
const TASKS: u64 = 6;

/// How often the counts are written down and the directory is looked at.
const TICK: Duration = Duration::from_millis(200);

/// How long a process may take to release everything at its end.
const GRACE: Duration = Duration::from_secs(2);

/// What a worker is started with, on its command line.
#[derive(Debug, Clone)]
pub(super) struct Orders {
    /// Names its files.
    pub(super) name: String,
    pub(super) seed: u64,
    pub(super) directory: PathBuf,
    /// A word for [`super::restarts`].
    pub(super) restarts: String,
    pub(super) urls: Vec<String>,
}

impl Orders {
    pub(super) fn words(&self) -> Vec<String> {
        let directory = self.directory.display().to_string();
        let first = [self.name.clone(), self.seed.to_string(), directory, self.restarts.clone()];
        first.into_iter().chain(self.urls.iter().cloned()).collect()
    }

    /// The opposite of [`words`](Self::words).
    pub(super) fn read(words: &[String]) -> Option<Self> {
        let [name, seed, directory, restarts, urls @ ..] = words else { return None };
        Some(Self {
            name: name.clone(),
            seed: seed.parse().ok()?,
            directory: directory.into(),
            restarts: restarts.clone(),
            urls: urls.to_vec(),
        })
    }
}

/// The file of this worker's holds.
pub(super) fn journal_of(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.holds"))
}

/// Workers end when this file is there.
pub(super) fn stop_file(directory: &Path) -> PathBuf {
    directory.join("stop")
}

#[derive(Debug, Default)]
struct Counts {
    refused: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
}

impl Counts {
    fn tally(&self) -> Tally {
        Tally {
            refused: self.refused.load(Relaxed),
            failed: self.failed.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
        }
    }
}

/// Works until the directory says stop. Panics when anything happens that must not.
pub(super) fn work(orders: &Orders) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    let restarts = super::restarts(&orders.restarts).unwrap();
    let client = client(&orders.urls, restarts);
    let journal = Journal::open(&journal_of(&orders.directory, &orders.name));
    let counts = Arc::new(Counts::default());
    let stop = Arc::new(AtomicBool::new(false));
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        let mut chance = Chance::new(orders.seed);
        for _ in 0..TASKS {
            let mut task = Task {
                client: client.clone(),
                journal: Arc::clone(&journal),
                counts: Arc::clone(&counts),
                chance: chance.branch(),
            };
            let stop = Arc::clone(&stop);
            tasks.spawn(async move {
                while !stop.load(Relaxed) {
                    task.turn().await;
                    let pause = task.chance.millis(0, 20);
                    sleep(pause).await;
                }
            });
        }
        // No task ends by itself: a task that ends before the others has panicked.
        while !stop_file(&orders.directory).exists() {
            if let Ok(Some(ended)) = timeout(TICK, tasks.join_next()).await {
                ended.unwrap();
            }
            journal.write(Record::Tally(counts.tally()));
        }
        stop.store(true, Relaxed);
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        client.shutdown(GRACE).await;
    });
    journal.write(Record::Tally(counts.tally()));
    journal.write(Record::End);
}

fn client(urls: &[String], restarts: Restarts) -> Redlock {
    Redlock::builder()
        .nodes(urls.iter().map(String::as_str))
        .ttl(MAX_TTL)
        .max_ttl(MAX_TTL)
        .retry_delay(Duration::from_millis(20))
        .retry_jitter(Duration::from_millis(30))
        .restarts(restarts)
        .build()
        .unwrap()
}

struct Task {
    client: Redlock,
    journal: Arc<Journal>,
    counts: Arc<Counts>,
    chance: Chance,
}

impl Task {
    /// One lock, taken and released in some way.
    async fn turn(&mut self) {
        let number = self.chance.below(KEYS);
        let way = self.chance.below(100);
        let mut request = if way < 15 {
            self.client.try_lock(key(number))
        } else {
            self.client.lock(key(number)).wait(self.chance.millis(0, 3000))
        };
        request = request.ttl(self.chance.millis(300, 2000));
        if self.chance.percent(15) {
            request = request.auto_extend(false);
        }
        let work = Work::draw(&mut self.chance);
        match way {
            15..30 => {
                let give_up_after = self.chance.millis(0, 60);
                match timeout(give_up_after, self.bare(request, number, work)).await {
                    Ok(outcome) => self.count(outcome),
                    Err(_) => self.cancelled(),
                }
            }
            30..55 => {
                let body = async |lock: &LockHandle| {
                    work.go(self.journal.begin(number, lock.clone())).await;
                };
                let outcome = request.run(body).await;
                self.count(outcome);
            }
            55..65 => {
                let give_up_after = self.chance.millis(0, 300);
                let body = async |lock: &LockHandle| {
                    work.go(self.journal.begin(number, lock.clone())).await;
                };
                match timeout(give_up_after, request.run(body)).await {
                    Ok(outcome) => self.count(outcome),
                    Err(_) => self.cancelled(),
                }
            }
            _ => {
                let outcome = self.bare(request, number, work).await;
                self.count(outcome);
            }
        }
    }

    /// A guard with work under it, released in one of three ways.
    async fn bare(&self, request: LockRequest, number: usize, work: Work) -> Result<(), LockError> {
        let guard = request.await?;
        // Declared behind the guard, so it is dropped before the guard when this future is dropped.
        let entry = self.journal.begin(number, guard.handle());
        if work.extends {
            // The next check tells whether the lock is lost.
            let _ = guard.extend(MAX_TTL).await;
        }
        work.go(entry).await;
        match work.end {
            Release::Awaited => {
                // What the nodes say to it does not matter here: they are disturbed.
                let _ = guard.release().await;
            }
            Release::Dropped => drop::<LockGuard>(guard),
            Release::DroppedElsewhere => drop(thread::spawn(move || drop(guard))),
        }
        Ok(())
    }

    fn count(&self, outcome: Result<(), LockError>) {
        match outcome {
            // A loss is in the journal.
            Ok(()) | Err(LockError::Lost { .. }) => {}
            Err(LockError::Held { .. }) => drop(self.counts.refused.fetch_add(1, Relaxed)),
            Err(LockError::NoQuorum { .. }) => drop(self.counts.failed.fetch_add(1, Relaxed)),
            Err(error) => panic!("{error}"),
        }
    }

    fn cancelled(&self) {
        self.counts.cancelled.fetch_add(1, Relaxed);
    }
}

/// The work under a lock.
#[derive(Debug, Clone, Copy)]
struct Work {
    lasts: Duration,
    /// How often the lock is checked.
    pace: Duration,
    extends: bool,
    end: Release,
}

#[derive(Debug, Clone, Copy)]
enum Release {
    Awaited,
    Dropped,
    /// Off the runtime.
    DroppedElsewhere,
}

impl Work {
    fn draw(chance: &mut Chance) -> Self {
        // Most are short, some take several renewals.
        let lasts = match chance.below(100) {
            0..3 => chance.millis(1000, 5000),
            3..20 => chance.millis(20, 300),
            _ => chance.millis(0, 10),
        };
        let end = match chance.below(10) {
            0..6 => Release::Awaited,
            6..9 => Release::Dropped,
            _ => Release::DroppedElsewhere,
        };
        Self { lasts, pace: chance.millis(1, 20), extends: chance.percent(5), end }
    }

    /// Acts and checks, again and again, until it is done or the lock is lost.
    async fn go(self, mut entry: Entry) {
        let start = Instant::now();
        while entry.check() && start.elapsed() < self.lasts {
            sleep(self.pace).await;
        }
    }
}
