//! A mutex inside the process: first come, first served, and no nodes. Its pace is the most that
//! the hold itself allows.

use std::{sync::Arc, time::Duration};

use tokio::sync::OwnedMutexGuard;

use super::{Client, Failure};

#[derive(Debug, Clone, Default)]
pub(super) struct Mutex(Arc<tokio::sync::Mutex<()>>);

impl Client for Mutex {
    type Held = OwnedMutexGuard<()>;

    async fn open(_: &[String]) -> Self {
        Self::default()
    }

    /// There is one mutex, whatever number of clients wants it.
    async fn another(&self, _: &[String], _: Duration) -> Self {
        self.clone()
    }

    async fn ready(&self) {}

    async fn lock(&self, _: &str) -> Result<Self::Held, Failure> {
        Ok(Arc::clone(&self.0).lock_owned().await)
    }

    async fn release(&self, held: Self::Held) -> Result<(), Failure> {
        drop(held);
        Ok(())
    }
}
