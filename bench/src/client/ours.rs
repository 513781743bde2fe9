//! redlock-core, through its public interface and with its defaults.

use std::{future::Future, marker::PhantomData, time::Duration};

use redlock_core::{Builder, LockGuard, NodeHealth, Redlock};

use super::{Client, Failure};

/// The default of 5 s is shorter than some runs with many tasks on one key. A task that gave up
/// would only ask again.
const WAIT: Duration = Duration::from_secs(120);

/// The default.
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

/// What redlock-core is asked for.
pub(super) trait Way: Send + Sync + 'static {
    type Held: Send + 'static;

    /// How many tasks may hold one resource at once.
    const TOGETHER: u64 = 1;

    fn lock(
        redlock: &Redlock,
        resource: &str,
    ) -> impl Future<Output = Result<Self::Held, Failure>> + Send;

    fn release(held: Self::Held) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// A lock, and nothing else.
#[derive(Debug)]
pub(super) struct Plain;

impl Way for Plain {
    type Held = LockGuard;

    async fn lock(redlock: &Redlock, resource: &str) -> Result<LockGuard, Failure> {
        redlock.lock(resource).await.map_err(|error| error.to_string())
    }

    async fn release(held: LockGuard) -> Result<(), Failure> {
        release(held).await
    }
}

/// Returns when the release of a lock is confirmed.
pub(super) async fn release(held: LockGuard) -> Result<(), Failure> {
    held.release().await.map(drop).map_err(|error| error.to_string())
}

#[derive(Debug)]
pub(super) struct Ours<W> {
    redlock: Redlock,
    way: PhantomData<W>,
}

impl<W> Ours<W> {
    fn build(builder: Builder) -> Self {
        let redlock = builder.wait(WAIT).build().expect("plain URLs and defaults");
        Self { redlock, way: PhantomData }
    }
}

impl<W> Clone for Ours<W> {
    fn clone(&self) -> Self {
        Self { redlock: self.redlock.clone(), way: PhantomData }
    }
}

impl<W: Way> Client for Ours<W> {
    type Held = W::Held;

    const PREFIX: &str = "redlock:";
    const TOGETHER: u64 = W::TOGETHER;

    async fn open(urls: &[String]) -> Self {
        Self::build(Redlock::builder().nodes(urls))
    }

    async fn open_far(urls: &[String], round_trip: Duration) -> Self {
        // The default is for nodes nearby: a machine that is busy for a moment would exceed it.
        let timeout = NODE_TIMEOUT + 4 * round_trip;
        Self::build(Redlock::builder().nodes(urls).node_timeout(timeout))
    }

    async fn ready(&self) {
        while !self.redlock.health().await.iter().all(NodeHealth::is_up) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn lock(&self, resource: &str) -> Result<W::Held, Failure> {
        W::lock(&self.redlock, resource).await
    }

    async fn release(&self, held: W::Held) -> Result<(), Failure> {
        W::release(held).await
    }
}
