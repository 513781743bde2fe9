//! redlock-core, through its public interface and with its defaults.

use std::time::Duration;

use redlock_core::{LockGuard, NodeHealth, Redlock};

use super::{Client, Failure};

/// The default of 5 s is shorter than some runs with many tasks on one key; a task that gave up
/// would only ask again.
const WAIT: Duration = Duration::from_secs(120);

#[derive(Debug, Clone)]
pub(super) struct Ours(Redlock);

impl Client for Ours {
    type Held = LockGuard;

    const PREFIX: &str = "redlock:";

    async fn open(urls: &[String]) -> Self {
        Self(Redlock::builder().nodes(urls).wait(WAIT).build().expect("plain URLs and defaults"))
    }

    async fn ready(&self) {
        while !self.0.health().await.iter().all(NodeHealth::is_up) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn lock(&self, resource: &str) -> Result<LockGuard, Failure> {
        self.0.lock(resource).await.map_err(|error| error.to_string())
    }

    async fn release(&self, held: LockGuard) -> Result<(), Failure> {
        held.release().await.map(drop).map_err(|error| error.to_string())
    }
}
