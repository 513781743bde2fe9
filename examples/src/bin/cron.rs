//! A job that is due on every replica and must run on one. Two replicas come to it at the same
//! moments; the annotation lets one of them in and skips the other (`skip_if_held`), and keeps the
//! lock for half a second even though the job is done sooner (`min_hold`), so that a replica whose
//! clock is a little late does not run it again.

use std::{error::Error, time::Duration};

use redlock_core::{LockError, Redlock, redlock};
use redlock_examples::connect;
use tokio::time::{interval, sleep};

const ROUNDS: usize = 5;

struct Replica {
    name: &'static str,
    locks: Redlock,
}

impl Replica {
    /// `None` when it was skipped.
    #[redlock(
        resource = "nightly-report",
        client = self.locks,
        skip_if_held,
        min_hold = "500ms",
    )]
    async fn report(&self, round: usize) -> Result<Option<usize>, LockError> {
        sleep(Duration::from_millis(20)).await;
        println!("round {round}: replica {} wrote the report", self.name);
        Ok(Some(round))
    }

    /// Comes to the job once a second, a little later each than the one before.
    async fn run(self, late: Duration) -> Result<usize, LockError> {
        let mut due = interval(Duration::from_secs(1));
        let mut written = 0;
        for round in 1..=ROUNDS {
            due.tick().await;
            sleep(late).await;
            written += usize::from(self.report(round).await?.is_some());
        }
        Ok(written)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = connect().await?;
    let (a, b) = tokio::try_join!(
        Replica { name: "a", locks: locks.clone() }.run(Duration::ZERO),
        Replica { name: "b", locks: locks.clone() }.run(Duration::from_millis(100)),
    )?;
    println!("{} reports in {ROUNDS} rounds: {a} by replica a, {b} by replica b", a + b);
    locks.shutdown(Duration::from_secs(1)).await;
    Ok(())
}
