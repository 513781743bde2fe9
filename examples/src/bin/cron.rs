//! A job that is due on every replica and must run once. All replicas come to it at the same tick; the
//! annotation lets one of them in and skips the others. The key has the tick in it, and `min_hold` keeps it
//! when the job is done sooner, so that a replica whose clock is late does not run the job again.
//!
//! `cron [REPLICA..]` is these replicas in one process, or `a` and `b`. A second process is another replica
//! when both have the same `REDLOCK_NODES`.

use std::{
    env,
    error::Error,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use redlock_core::{LockError, Redlock, redlock};
use redlock_examples::connect;
use tokio::{task::JoinSet, time::sleep};

/// The seconds between two ticks. They are counted from 1970 on.
const EVERY: u64 = 1;

/// For how many seconds a tick stays taken: more than the largest difference between two clocks, plus the
/// longest time that a replica comes late, plus `wait`.
const MIN_HOLD: u64 = 60;

struct Replica {
    name: String,
    locks: Redlock,
    min_hold: Duration,
}

impl Replica {
    /// `tick`: when the job was due, in seconds since 1970. False when another replica has it. Replicas
    /// that come at the same instant may split the votes of the nodes: `wait` lets them try again.
    #[redlock(
        resource = "nightly-report:{tick}",
        client = self.locks,
        skip_if_held,
        wait = "500ms",
        min_hold = self.min_hold,
    )]
    async fn report(&self, tick: u64) -> Result<bool, LockError> {
        println!("tick {tick}: replica {} wrote the report", self.name);
        Ok(true)
    }

    /// Comes to the next `ticks` ticks by the clock of this machine, also to those for which it is late.
    /// Returns how many reports it has written.
    async fn run(self, ticks: u64) -> u64 {
        let last = now().as_secs() / EVERY;
        let mut written = 0;
        for tick in (1..=ticks).map(|it| (last + it) * EVERY) {
            sleep(Duration::from_secs(tick).saturating_sub(now())).await;
            match self.report(tick).await {
                Ok(true) => written += 1,
                Ok(false) => eprintln!("tick {tick}: replica {} skipped it", self.name),
                // The next tick is another chance.
                Err(error) => eprintln!("tick {tick}: replica {}: {error}", self.name),
            }
        }
        println!("replica {}: {written} of {ticks} reports", self.name);
        written
    }
}

/// Since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A setting from the environment.
fn setting(name: &str, default: u64) -> Result<u64, Box<dyn Error>> {
    Ok(env::var(name).map_or(Ok(default), |it| it.parse())?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let ticks = setting("TICKS", 5)?;
    let min_hold = Duration::from_secs(setting("MIN_HOLD_SECONDS", MIN_HOLD)?);
    let mut names: Vec<String> = env::args().skip(1).collect();
    if names.is_empty() {
        names = vec!["a".to_owned(), "b".to_owned()];
    }
    let locks = connect().await?;
    let mut replicas = JoinSet::new();
    for name in names {
        replicas.spawn(Replica { name, locks: locks.clone(), min_hold }.run(ticks));
    }
    let mut written = 0;
    while let Some(replica) = replicas.join_next().await {
        written += replica?;
    }
    println!("{written} reports in {ticks} ticks");
    locks.shutdown(Duration::from_secs(1)).await;
    Ok(())
}
