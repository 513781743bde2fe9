//! redlock-core asked for several locks at once, and for one after the other. The names of the resources
//! stand in one text, with a `+` between them.

use std::time::Duration;

use redlock_core::LockGuard;

use super::{Client, Failure, ours::Ours};

/// All locks of a set in one step.
#[derive(Debug, Clone)]
pub(super) struct Set(Ours);

impl Client for Set {
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
        self.0.0.lock_all(resource.split('+')).await.map_err(|error| error.to_string())
    }

    async fn release(&self, held: LockGuard) -> Result<(), Failure> {
        self.0.release(held).await
    }
}

/// One lock after the other, in the order of their names, which keeps tasks from waiting in a circle.
#[derive(Debug, Clone)]
pub(super) struct Ordered(Ours);

impl Client for Ordered {
    type Held = Vec<LockGuard>;

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

    async fn lock(&self, resource: &str) -> Result<Vec<LockGuard>, Failure> {
        let mut names: Vec<&str> = resource.split('+').collect();
        names.sort_unstable();
        let mut held = Vec::new();
        for name in names {
            held.push(self.0.lock(name).await?);
        }
        Ok(held)
    }

    async fn release(&self, held: Vec<LockGuard>) -> Result<(), Failure> {
        for guard in held {
            self.0.release(guard).await?;
        }
        Ok(())
    }
}
