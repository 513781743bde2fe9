//! A request for a lock: settings first, then `.await` or `.run(..)`.

use std::{future::IntoFuture, sync::Arc, time::Duration};

use crate::{
    body::{self, OnLost},
    client::Client,
    error::LockError,
    guard::{LockGuard, LockHandle},
    lock_future::LockFuture,
    op::acquire,
    options::{LockOptions, call_settings},
    resources::Resources,
};

/// A request for one lock. Nothing happens until it is awaited or [`run`](Self::run).
///
/// Await it for a [`LockGuard`]. Settings that are not made here are those of the client.
#[derive(Debug, Clone)]
#[must_use = "a request does nothing until it is awaited"]
pub struct LockRequest {
    client: Arc<Client>,
    resources: Resources,
    options: LockOptions,
}

macro_rules! setters {
    (
        of_client { $($(#[$of_client:meta])* $a:ident: $client:ty;)* }
        of_call { $($(#[$of_call:meta])* $b:ident: $call:ty;)* }
    ) => {
        impl LockRequest {
            $(
                $(#[$of_client])*
                pub fn $a(mut self, $a: $client) -> Self {
                    self.options = self.options.$a($a);
                    self
                }
            )*
            $(
                $(#[$of_call])*
                pub fn $b(mut self, $b: $call) -> Self {
                    self.options = self.options.$b($b);
                    self
                }
            )*
        }
    };
}

call_settings!(setters);

impl LockRequest {
    pub(crate) fn new(client: &Arc<Client>, resources: Resources, options: LockOptions) -> Self {
        Self { client: Arc::clone(client), resources, options }
    }

    /// Asks for a [`FencingToken`](crate::FencingToken), which the protected store compares: the lock is
    /// then held safely however long a holder is paused. See [`fence`](crate::fence). Off by default.
    ///
    /// # Cost
    ///
    /// Usually one round trip, as without it. A second one when the nodes disagree on the number: after
    /// two clients have split the nodes between them, or a node was away. A lock that passes from task to
    /// task within a process takes the next number of a range that the nodes have reserved, without a
    /// round trip.
    ///
    /// Each node runs a script instead of one `SET`: about 1.4 times the processor time of a lock and its
    /// release on the servers, and 1.2 to 1.4 times the time until a free lock is held (`cargo xtask
    /// bench --only cost`). Each node also keeps one counter for each resource, `KEY:{KEY}:fence`, of
    /// about 100 bytes. It disappears by itself a day after the last fenced lock of its resource was
    /// taken, or twice `max_ttl` after, if that is longer.
    ///
    /// The nodes' users need `+time` beside what a lock needs, and scripts (`+eval +evalsha`). A node
    /// that refuses them gives no vote, and the error says why.
    pub fn fenced(mut self) -> Self {
        self.options = self.options.fenced();
        self
    }

    #[cfg(test)]
    pub(crate) fn options_set(&self) -> &LockOptions {
        &self.options
    }

    /// Applies the settings of these options.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.options = self.options.merge(options);
        self
    }

    /// Takes the lock, runs `body` and releases the lock.
    ///
    /// The body is dropped at its next await when the lock is lost. Tasks that it spawned go on,
    /// and can watch [`LockHandle::lost`]. A body that finishes keeps its result. A panic is passed
    /// on after the release.
    ///
    /// # Errors
    ///
    /// The errors of the request, when the body did not run; [`LockError::Lost`] when it was
    /// dropped.
    ///
    /// # Cancellation safety
    ///
    /// When the future is dropped, the body is dropped first, and then the lock is released.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let redlock = redlock_core::Redlock::in_memory(3);
    /// let total = redlock.lock("invoice:42").run(async |lock| {
    ///     assert!(lock.is_valid());
    ///     7
    /// }).await?;
    /// assert_eq!(total, 7);
    /// # Ok::<(), redlock_core::LockError>(()) }).unwrap();
    /// ```
    pub async fn run<T, F>(self, body: F) -> Result<T, LockError>
    where
        F: AsyncFnOnce(&LockHandle) -> T,
    {
        let guard = self.await?;
        body::run(guard, OnLost::Cancel, async move |lock: LockHandle| body(&lock).await).await
    }
}

impl IntoFuture for LockRequest {
    type Output = Result<LockGuard, LockError>;
    type IntoFuture = LockFuture;

    fn into_future(self) -> LockFuture {
        let Self { client, resources, options } = self;
        LockFuture::new(async move {
            let terms = client.settings.terms(&options)?;
            let hold = acquire::acquire(&client, resources, &terms).await?;
            Ok(LockGuard::new(&client, hold))
        })
    }
}
