//! What the attribute promises about a call, one test a promise, on nodes inside the process and
//! on tokio's paused clock.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "these are tests, if not all of them are #[test]"
)]

mod bodies;
mod events;
mod keys;
mod pools;
mod refusals;
mod settings;
mod skipping;
mod values;

use std::time::Duration;

use redlock_core::{LockError, Redlock};
use tokio::time::{sleep, timeout};

#[derive(Debug)]
pub(crate) enum AppError {
    Locked(LockError),
    Own(&'static str),
}

impl From<LockError> for AppError {
    fn from(error: LockError) -> Self {
        Self::Locked(error)
    }
}

/// Waits until the resource is free, within a limit that only a hang reaches.
pub(crate) async fn free(locks: &Redlock, resource: &str) {
    let freed = async {
        while locks
            .memory_nodes()
            .iter()
            .any(|node| node.keys().iter().any(|k| k.ends_with(resource)))
        {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(60), freed).await.unwrap();
}
