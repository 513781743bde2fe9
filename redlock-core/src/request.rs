//! A request for a lock: settings first, then `.await` or `.run(..)`.

use std::{future::IntoFuture, sync::Arc, time::Duration};

use crate::{
    body::{self, BodyFuture, BodyGuard, OnLost},
    client::Client,
    error::LockError,
    guard::{LockGuard, LockHandle},
    lock_future::{Asked, LockFuture, Unasked},
    op::acquire,
    options::{LockOptions, call_settings, request_setters},
    resources::Resources,
    settings::Terms,
    telemetry,
};

/// A request for one lock, or for the locks of a set. Nothing happens until it is awaited or [`run`](Self::run).
///
/// Await it to get a [`LockGuard`]. Settings that are left unset are those of the client.
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

    /// Also requests a [`FencingToken`](crate::FencingToken). Pass it to the store with each write. The store refuses a
    /// token smaller than one that it has seen, so a holder cannot write once a later holder has registered there,
    /// however long it was paused. See [`fence`](crate::fence). Off by default.
    ///
    /// # Cost
    ///
    /// Usually one round trip, as without a token. A second round trip is needed when the nodes disagree on the number:
    /// after two clients have split the nodes between them, or a node was away. A lock that passes from task to
    /// task within a process takes the next number of a range that the nodes have reserved, without a
    /// round trip.
    ///
    /// Each node runs a script instead of one `SET`. With one task, a lock with its release takes 1.2 to 1.4
    /// times as long, and about 1.5 times the processor time of the servers. With 64 tasks and more, which share
    /// round trips, it takes about four times the processor time of the servers, and a client gets about a third
    /// as many locks a second (`cargo xtask bench --only latency`, `--only throughput`, `--only cost`).
    ///
    /// Each node also keeps one counter of about 180 bytes for each resource, `KEY:{KEY}:fence`. The counter expires a
    /// day after the last fenced lock of its resource was taken, or twice `max_ttl` after it, if that is longer.
    ///
    /// The users of the nodes need `+time` in addition to what a lock needs, and scripts (`+eval +evalsha`). A node
    /// that refuses them gives no vote, and the error has the reason.
    pub fn fenced(mut self) -> Self {
        self.options = self.options.fenced();
        self
    }

    /// Requests the lock as one of its readers. Any number of readers can hold the lock at once, but not together with
    /// a writer. A request without this setting is a writer. Off by default.
    ///
    /// Each reader holds the lock on a quorum of nodes with its own expiry. A waiting writer does not starve. When it
    /// is first in the queue, new readers wait behind it. If that writer crashes, they wait at most five seconds.
    /// Readers that wait pass the turn on to each other, and get the lock together.
    ///
    /// [`fenced`](Self::fenced) readers are a [`Config`](LockError::Config) error: a token gives the order of holders,
    /// and readers have no order. Readers of a set of resources are an error, too. The lock of a reader cannot be given
    /// to another process. [`Redlock::inspect`](crate::Redlock::inspect) names no reader.
    ///
    /// Inside a body that holds the lock as a reader, readers join the hold. A writer there fails with
    /// [`Held`](LockError::Held) at once, since it could only wait for itself. Inside a writer, readers join its hold.
    ///
    /// # Cost
    ///
    /// Each node runs a script instead of one `SET`, and keeps a sorted set under the key. The users of the nodes
    /// need `+type +time +zadd +zrem +zrange +zscore +zremrangebyscore +exists`. With `key_prefix("")`, other
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
    /// If the lock is lost, the body is dropped at its next await. A body that does not await, or that blocks its
    /// thread, is not stopped: let it check [`LockHandle::is_valid`]. Tasks that the body has spawned continue. They
    /// can watch [`LockHandle::lost`]. A body that finishes keeps its result. A panic is passed on after the release.
    ///
    /// # Re-entry
    ///
    /// Inside a body that holds the same resource of the same client, this joins the hold that is there. It
    /// does so at any depth, and in several branches of a `join!` at once. Annotated functions and layered handlers
    /// join in the same way. No node is asked. The lock is released when the last of these bodies has ended: as a
    /// rule that is the outermost one. If it is lost, all bodies are dropped, and each reports
    /// [`Lost`](LockError::Lost). Spawned tasks do not join, and neither do siblings of the body.
    ///
    /// The hold keeps its settings. The `ttl`, `auto_extend` and `max_hold` of a request that joins
    /// have no effect. A set joins a hold that has all of its resources. If a hold around it has only some of them,
    /// the request fails with [`Held`](LockError::Held) at once, since it could only wait for itself.
    /// A `fenced` request joins only a fenced hold, and gets the token of that hold. A request with a `min_hold` joins
    /// only a hold with a `min_hold` that is at least as long.
    ///
    /// # Errors
    ///
    /// - The errors of the request. The body did not run.
    /// - [`Lost`](LockError::Lost) if the body was dropped, or would have joined a hold that is lost.
    /// - [`Config`](LockError::Config) if the hold to join has no token, or no `min_hold` that is long enough.
    ///
    /// # Cancellation safety
    ///
    /// If the future is dropped, the body is dropped first, and then the lock is released. Once the future was polled,
    /// poll it to its end or drop it: otherwise it blocks the waiters behind it. If the body panics, the panic
    /// continues after the release. If the future is dropped before that, only the panic hook sees the panic.
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
        let Self { client, mut resources, options } = self;
        let terms = terms(&client, &resources, &options);
        BodyFuture::new(Asked::new(terms, |terms| async move {
            let joined = body::join(&client, &resources, &terms);
            let told = |error: &_| telemetry::refused_for(resources.name(), terms.label, error);
            if let Some(joined) = joined.inspect_err(told)? {
                return Ok(joined);
            }
            if body::waits_for_itself(&client, &resources, &terms) {
                return Err(acquire::held_around(&client, resources, &terms));
            }
            let hold = acquire::acquire(&client, &mut resources, &terms).await?;
            Ok(BodyGuard::new(LockGuard::new(&client, hold)))
        }))
    }
}

/// The terms of a request, or what its refusal has to tell.
fn terms(
    client: &Client,
    resources: &Resources,
    options: &LockOptions,
) -> Result<Terms, Box<Unasked>> {
    client.settings.terms(options).map_err(|error| {
        let (resource, label) = (resources.name().to_owned(), options.label.unwrap_or_default());
        Box::new(Unasked { resource, label, error })
    })
}

impl IntoFuture for LockRequest {
    type Output = Result<LockGuard, LockError>;
    type IntoFuture = LockFuture;

    fn into_future(self) -> LockFuture {
        let Self { client, mut resources, options } = self;
        let terms = terms(&client, &resources, &options);
        LockFuture::new(Asked::new(terms, |terms| async move {
            if body::waits_for_itself(&client, &resources, &terms) {
                return Err(acquire::held_around(&client, resources, &terms));
            }
            let hold = acquire::acquire(&client, &mut resources, &terms).await?;
            Ok(LockGuard::new(&client, hold))
        }))
    }
}
