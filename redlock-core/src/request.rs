//! A request for a lock: settings first, then `.await` or `.run(..)`.

use std::{future::IntoFuture, sync::Arc, time::Duration};

use crate::{
    body::{self, BodyFuture, OnLost, into_body},
    client::Client,
    error::LockError,
    guard::{LockGuard, LockHandle},
    lock_future::{Asked, LockFuture},
    op::acquire,
    options::{LockOptions, call_settings, request_setters},
    resources::Resources,
    telemetry,
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

call_settings!(request_setters, LockRequest);

impl LockRequest {
    pub(crate) fn new(client: &Arc<Client>, resources: Resources, options: LockOptions) -> Self {
        Self { client: Arc::clone(client), resources, options }
    }

    /// Asks for a [`FencingToken`](crate::FencingToken), which the protected store compares: the store then
    /// refuses a holder that was overtaken, however long that holder was paused. See [`fence`](crate::fence).
    /// Off by default.
    ///
    /// # Cost
    ///
    /// Usually one round trip, as without it. A second one when the nodes disagree on the number: after
    /// two clients have split the nodes between them, or a node was away. A lock that passes from task to
    /// task within a process takes the next number of a range that the nodes have reserved, without a
    /// round trip.
    ///
    /// Each node runs a script instead of one `SET`. With one task, a lock with its release takes 1.2 to 1.4
    /// times as long, and about 1.5 times the processor time of the servers. With 64 tasks and more, which share
    /// round trips, it takes about four times the processor time of the servers, and a client gets about a third
    /// as many locks a second (`cargo xtask bench --only latency`, `--only throughput`, `--only cost`).
    ///
    /// Each node also keeps one counter for each resource, `KEY:{KEY}:fence`, of about 180 bytes. It disappears
    /// by itself a day after the last fenced lock of its resource was taken, or twice `max_ttl` after, if that
    /// is longer.
    ///
    /// The nodes' users need `+time` beside what a lock needs, and scripts (`+eval +evalsha`). A node
    /// that refuses them gives no vote, and the error says why.
    pub fn fenced(mut self) -> Self {
        self.options = self.options.fenced();
        self
    }

    /// Asks for the lock as one of its readers: any number of readers hold it at once, and none while a
    /// writer does. A request without this is a writer. Off by default.
    ///
    /// Each reader holds the lock on a quorum of nodes with an expiry of its own. A writer that waits is
    /// not starved: as the first in the queue it has later readers wait behind it, for at most five
    /// seconds after it crashed. Readers that wait pass the turn on to each other, and get the lock
    /// together.
    ///
    /// [`fenced`](Self::fenced) with it is [`Config`](LockError::Config): a token tells the order of
    /// holders, and readers have none. So is a set of resources. The lock of a reader cannot be handed to
    /// another process. [`Redlock::inspect`](crate::Redlock::inspect) names no reader.
    ///
    /// A body that holds the lock as a reader is joined by readers inside of it. A writer inside is
    /// refused at once as [`Held`](LockError::Held), since it could only wait for itself. Readers inside
    /// of a writer join it.
    ///
    /// # Cost
    ///
    /// Each node runs a script instead of one `SET`, and keeps a sorted set under the key. The nodes'
    /// users need `+type +time +zadd +zrem +zrange +zscore +zremrangebyscore +exists`. With `key_prefix("")`, other
    /// Redlock clients find the key taken while there are readers, and cannot be readers themselves.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let redlock = redlock_core::Redlock::in_memory(3);
    /// let one = redlock.lock("report").shared().await?;
    /// let other = redlock.lock("report").shared().await?;
    /// assert!(redlock.try_lock("report").await.unwrap_err().is_held());
    /// one.release().await?;
    /// other.release().await?;
    /// redlock.try_lock("report").await?.release().await?;
    /// # Ok::<(), redlock_core::LockError>(()) }).unwrap();
    /// ```
    pub fn shared(mut self) -> Self {
        self.options = self.options.shared();
        self
    }

    #[cfg(test)]
    pub(crate) fn options_set(&self) -> &LockOptions {
        &self.options
    }

    /// Takes the lock, runs `body` and releases the lock.
    ///
    /// The body is dropped at its next await when the lock is lost. Tasks that it spawned go on,
    /// and can watch [`LockHandle::lost`]. A body that finishes keeps its result. A panic is passed
    /// on after the release.
    ///
    /// # Re-entry
    ///
    /// Inside of a body that holds the same resource of the same client, this joins the hold that is
    /// there, however far inside, and also in several branches of a `join!` at once. The same goes for
    /// annotated functions and layered handlers. No node is asked, and the lock is released when the
    /// outermost body has ended. A loss drops all bodies, and each reports
    /// [`Lost`](LockError::Lost). Spawned tasks do not join, and neither do siblings of the body.
    ///
    /// The hold keeps its settings: the `ttl`, `auto_extend` and `max_hold` of a request that joins
    /// have no effect. A set joins a hold with all of its resources; a set that shares only some of them
    /// with a hold around it is [`Held`](LockError::Held) at once, since it could only wait for itself.
    /// A `fenced` request joins a fenced hold alone, and has its token. A `min_hold`
    /// joins a hold with one at least as long.
    ///
    /// # Errors
    ///
    /// The errors of the request, when the body did not run; [`LockError::Lost`] when it was
    /// dropped, or would have joined a hold that is lost. [`Config`](LockError::Config) when the hold to
    /// join has no token, or no `min_hold` as long.
    ///
    /// # Cancellation safety
    ///
    /// When the future is dropped, the body is dropped first, and then the lock is released. A future that was
    /// polled once must be polled further or dropped: otherwise it blocks the waiters behind it.
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
        let guard = self.for_body().await?;
        body::run(guard, OnLost::Cancel, async move |lock: LockHandle| body(&lock).await).await
    }

    /// Asks for the lock of a body, or joins the hold of a body around this request.
    #[doc(hidden)]
    pub fn for_body(self) -> BodyFuture {
        let Self { client, resources, options } = self;
        let terms = client.settings.terms(&options);
        BodyFuture::new(Asked::new(terms, |terms| async move {
            let joined = body::join(&client, &resources, &terms);
            if let Some(joined) = joined.inspect_err(telemetry::refused)? {
                return Ok(joined);
            }
            if body::waits_for_itself(&client, &resources, &terms) {
                return Err(acquire::held_around(&client, resources, &terms));
            }
            let hold = acquire::acquire(&client, resources, &terms).await?;
            Ok(into_body(LockGuard::new(&client, hold)))
        }))
    }
}

impl IntoFuture for LockRequest {
    type Output = Result<LockGuard, LockError>;
    type IntoFuture = LockFuture;

    fn into_future(self) -> LockFuture {
        let Self { client, resources, options } = self;
        let terms = client.settings.terms(&options);
        LockFuture::new(Asked::new(terms, |terms| async move {
            if body::waits_for_itself(&client, &resources, &terms) {
                return Err(acquire::held_around(&client, resources, &terms));
            }
            let hold = acquire::acquire(&client, resources, &terms).await?;
            Ok(LockGuard::new(&client, hold))
        }))
    }
}
