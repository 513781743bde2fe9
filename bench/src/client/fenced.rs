//! redlock-core with its defaults, asked for a fencing token.

use std::time::Duration;

use redlock_core::LockGuard;

use super::{Client, Failure, ours::Ours};

#[derive(Debug, Clone)]
pub(super) struct Fenced(Ours);

impl Client for Fenced {
    type Held = LockGuard;

    const PREFIX: &str = Ours::PREFIX;

    async fn open(urls: &[String]) -> Self {
        Self(Ours::open(urls).await)
    }

    async fn open_far(urls: &[String], round_trip: Duration) -> Self {
        Self(Ours::open_far(urls, round_trip).await)
    }

    async fn ready(&self) {
        self.0.ready().await;
    }

    async fn lock(&self, resource: &str) -> Result<LockGuard, Failure> {
        let guard = self.0.0.lock(resource).fenced().await.map_err(|error| error.to_string())?;
        // A lock without a token would not be what is measured.
        guard.fencing_token().is_some().then_some(guard).ok_or_else(|| "no token".to_owned())
    }

    async fn release(&self, held: LockGuard) -> Result<(), Failure> {
        self.0.release(held).await
    }
}
