//! Bare redis-rs behind a fair queue: what first come, first served alone brings.

use tokio::sync::OwnedMutexGuard;

use super::{Client, Failure, bare, mutex};

#[derive(Debug, Clone)]
pub(super) struct Queued {
    queue: mutex::Mutex,
    bare: bare::Bare,
}

impl Client for Queued {
    type Held = (bare::Held, OwnedMutexGuard<()>);

    async fn open(urls: &[String]) -> Self {
        Self { queue: mutex::Mutex::default(), bare: bare::Bare::open(urls).await }
    }

    async fn ready(&self) {}

    async fn lock(&self, resource: &str) -> Result<Self::Held, Failure> {
        let turn = self.queue.lock(resource).await?;
        Ok((self.bare.lock(resource).await?, turn))
    }

    async fn release(&self, (held, turn): Self::Held) -> Result<(), Failure> {
        let released = self.bare.release(held).await;
        self.queue.release(turn).await?;
        released
    }
}
