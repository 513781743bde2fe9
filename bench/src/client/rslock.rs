//! rslock, with its defaults.

use std::fmt;

use rslock::{LockGuard, LockManager};

use super::{Client, Failure, TTL};
use crate::load;

#[derive(Clone)]
pub(super) struct Rslock(LockManager);

impl fmt::Debug for Rslock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rslock").finish_non_exhaustive()
    }
}

impl Client for Rslock {
    type Held = LockGuard;

    async fn open(urls: &[String]) -> Self {
        Self(LockManager::new(urls.to_vec()))
    }

    async fn ready(&self) {
        // It asks all nodes and waits for each, connecting where it has to.
        let held = self.lock(&load::fresh()).await.expect("every node is up");
        self.release(held).await.expect("infallible");
    }

    async fn lock(&self, resource: &str) -> Result<LockGuard, Failure> {
        self.0.acquire(resource, TTL).await.map_err(|error| error.to_string())
    }

    async fn release(&self, held: LockGuard) -> Result<(), Failure> {
        held.release().await;
        Ok(())
    }
}
