//! redlock-core, through its public interface and with its defaults.

use std::time::Duration;

use redlock_core::{Builder, LockGuard, NodeHealth, Redlock};

use super::{Client, Failure};

/// The default of 5 s is shorter than some runs with many tasks on one key. A task that gave up
/// would only ask again.
const WAIT: Duration = Duration::from_secs(120);

/// The default.
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

#[derive(Debug, Clone)]
pub(super) struct Ours(pub(super) Redlock);

impl Ours {
    fn build(builder: Builder) -> Self {
        Self(builder.wait(WAIT).build().expect("plain URLs and defaults"))
    }
}

impl Client for Ours {
    type Held = LockGuard;

    const PREFIX: &str = "redlock:";

    async fn open(urls: &[String]) -> Self {
        Self::build(Redlock::builder().nodes(urls))
    }

    async fn open_far(urls: &[String], round_trip: Duration) -> Self {
        // The default is for nodes nearby: a machine that is busy for a moment would exceed it.
        let timeout = NODE_TIMEOUT + 4 * round_trip;
        Self::build(Redlock::builder().nodes(urls).node_timeout(timeout))
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
