//! The guard that owns the lock, and handles that only read it.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use crate::{
    client::Client,
    error::LockError,
    fence::FencingToken,
    lease::{Hold, Judgement, Leases, until},
    op::{
        extend,
        hand_off::{self, Lease},
        release::{self, Released},
    },
    runtime::check_runtime,
};

/// A lock that is held. It renews itself until it is released, dropped or lost.
///
/// Dropping the guard releases the lock in the background. This also works outside a runtime and during a panic, and
/// on Unix after the runtime has ended, for nodes that are still connected. The ttl only limits how long the lock
/// outlives a crash. Use [`release`](Self::release) to wait until the nodes have confirmed the release, and
/// [`lost`](Self::lost) to learn that the lock is no longer held. A guard does not stop the code that uses it.
///
/// `let _ = redlock.lock("a").await?` drops the guard, and so releases the lock, at once. Write `let _guard = ..` to
/// keep it until the end of the scope.
#[must_use = "a guard that is not bound to a name releases its lock at once"]
pub struct LockGuard {
    client: Arc<Client>,
    handle: LockHandle,
}

/// A view of a held lock. It returns all that its [`LockGuard`] returns, and does not own the lock. Cheap to clone.
#[derive(Clone)]
pub struct LockHandle {
    pub(crate) leases: Arc<Leases>,
    pub(crate) hold: Arc<Hold>,
}

/// The reads of a guard and its handles.
macro_rules! reads {
    () => {
        /// The resource that is locked. For a set, the first resource that was named.
        #[must_use]
        pub fn resource(&self) -> &str {
            self.as_handle().hold.resources.first()
        }

        /// All resources that are locked, in the order in which
        /// [`lock_all`](crate::Redlock::lock_all) named them, each once. A lock that is not a set has one.
        #[must_use]
        pub fn resources(&self) -> &[String] {
            self.as_handle().hold.resources.as_slice()
        }

        /// How much longer the lock may be relied on. Each call reads the clock.
        ///
        /// Zero once the lock is lost. Zero also while the lock is in doubt: the process may have been paused, and a
        /// renewal has to confirm the lock first. After that, the validity may be positive again.
        #[must_use]
        pub fn validity(&self) -> Duration {
            let LockHandle { leases, hold } = self.as_handle();
            leases.validity(hold)
        }

        /// How long ago this holder began to take the lock, or was handed it. It keeps growing after the hold has
        /// ended.
        #[must_use]
        pub fn age(&self) -> Duration {
            let LockHandle { leases, hold } = self.as_handle();
            leases.nodes.clock.now().since(hold.since)
        }

        /// Whether the lock may be relied on now: its [`validity`](Self::validity) is positive.
        #[must_use]
        pub fn is_valid(&self) -> bool {
            !self.validity().is_zero()
        }

        /// Resolves when the lock is no longer held, because it was lost or released. If it is not held now, it
        /// resolves at once.
        ///
        /// The future is `'static` and does not keep the lock. It needs no network: it also resolves when the validity
        /// runs out. It needs a tokio runtime: the clock of the runtime wakes it. Cancel safe.
        pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
            let LockHandle { leases, hold } = self.as_handle().clone();
            until(leases, hold, |judgement| matches!(judgement, Judgement::Ended(_)))
        }

        /// The fencing token, if the lock was requested with
        /// [`fenced`](crate::LockRequest::fenced). See [`fence`](crate::fence). It stays the same
        /// while the lock is held, and is still returned afterwards.
        #[must_use]
        pub fn fencing_token(&self) -> Option<FencingToken> {
            self.as_handle().hold.token
        }

        /// How many nodes have the lock of this holder, according to the last confirmed round. Late
        /// answers to that round count. Zero once the hold has ended.
        #[must_use]
        pub fn votes(&self) -> usize {
            let LockHandle { leases, hold } = self.as_handle();
            hold.votes(leases.nodes.clock.read())
        }
    };
}

impl LockGuard {
    pub(crate) fn new(client: &Arc<Client>, hold: Arc<Hold>) -> Self {
        Self { client: Arc::clone(client), handle: LockHandle::new(&client.leases, hold) }
    }

    reads!();

    fn as_handle(&self) -> &LockHandle {
        &self.handle
    }

    /// Returns a handle to share.
    #[must_use]
    pub fn handle(&self) -> LockHandle {
        self.handle.clone()
    }

    /// Extends the lock as if it were acquired now with this ttl. Later renewals keep the ttl. The remaining time
    /// never becomes shorter.
    ///
    /// Most code does not need this: a lock renews itself. Use it for a lock with `auto_extend(false)`, or to hold a
    /// lock with a longer ttl from now on.
    ///
    /// # Errors
    ///
    /// - [`Lost`](LockError::Lost) if the lock is no longer held.
    /// - [`Config`](LockError::Config) for a ttl that cannot work, and outside a tokio runtime.
    /// - [`NoQuorum`](LockError::NoQuorum) if the outcome is unknown. The lock is then still held for the time that
    ///   it had left.
    ///
    /// # Cancellation safety
    ///
    /// If the future is dropped, the extension may have happened or not. The lock is held in both cases.
    pub async fn extend(&self, ttl: Duration) -> Result<(), LockError> {
        extend::extend(&self.client, &self.handle.hold, ttl).await
    }

    /// Releases the lock. Returns when a quorum of the nodes has confirmed the release, or at once if the lock passes
    /// to the next task of this process. With a `min_hold`, the lock stays taken for the rest of that time.
    ///
    /// # Errors
    ///
    /// - [`NoQuorum`](LockError::NoQuorum), after one `node_timeout`, if no quorum confirmed the release. The clean-up
    ///   continues in the background until the ttl of the keys ends.
    /// - [`Config`](LockError::Config) outside a tokio runtime. The release continues in the background, as after a
    ///   drop.
    ///
    /// # Cancellation safety
    ///
    /// If the future is dropped, the release continues in the background.
    pub async fn release(self) -> Result<Released, LockError> {
        check_runtime()?;
        self.client.ensure_moving(self.client.nodes.clock.now());
        release::release(&self.client, &self.handle.hold).await
    }

    /// Gives the lock to another process, which takes it over with [`Redlock::adopt`](crate::Redlock::adopt), once. The
    /// hold ends here: [`lost`](Self::lost) resolves, no more renewals are sent, and this process must not work under
    /// the lock any more. The lock stays taken until it is adopted. If it is not adopted in time, it expires. Nothing
    /// is sent, with two exceptions: a node that has not confirmed the lock yet may be asked to delete its key, and
    /// a lock that cannot be adopted is released.
    ///
    /// The adopter gets the same fencing token, so a store cannot tell the two processes apart. Finish all writes
    /// first; a write that timed out may still arrive. The adopter also gets the settings `ttl`, `clock_drift_factor`,
    /// `auto_extend`, `min_hold` and `max_hold`. The remaining `min_hold` and `max_hold` are computed from the wall
    /// clocks of both processes.
    ///
    /// A lock that is lost or in doubt cannot be adopted, and neither can the lock of a reader or a permit. Such a lock
    /// is released.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # use redlock_core::{MemoryNode, Redlock};
    /// # let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
    /// # let redlock = Redlock::builder().nodes(&nodes).build()?;
    /// # let other_process = Redlock::builder().nodes(&nodes).build()?;
    /// let guard = redlock.lock("invoice:42").fenced().await?;
    /// let token = guard.fencing_token();
    /// let lease = guard.into_lease(); // with the feature `serde`: send it as JSON, for example
    ///
    /// let guard = other_process.adopt(lease).await?;
    /// assert_eq!(guard.fencing_token(), token);
    /// guard.release().await?;
    /// # Ok::<(), redlock_core::LockError>(()) }).unwrap();
    /// ```
    pub fn into_lease(self) -> Lease {
        hand_off::hand_off(&self.client, &self.handle.hold)
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.handle.hold
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.client
    }
}

impl Drop for LockGuard {
    /// Works outside a runtime, during a panic and during a shutdown.
    fn drop(&mut self) {
        release::in_background(&self.client, &self.handle.hold);
    }
}

impl LockHandle {
    pub(crate) fn new(leases: &Arc<Leases>, hold: Arc<Hold>) -> Self {
        Self { leases: Arc::clone(leases), hold }
    }

    fn as_handle(&self) -> &Self {
        self
    }

    fn describe(&self, mut shown: fmt::DebugStruct<'_, '_>) -> fmt::Result {
        shown.field("resource", &self.hold.resources.name()).field("votes", &self.votes());
        shown.finish_non_exhaustive()
    }

    reads!();
}

// By hand, here and below: a derived `Debug` would print the client and the state of every round.
impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.describe(f.debug_struct("LockGuard"))
    }
}

impl fmt::Debug for LockHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(f.debug_struct("LockHandle"))
    }
}

#[cfg(test)]
mod tests {
    use crate::Redlock;

    #[tokio::test(start_paused = true)]
    async fn debug_shows_what_a_user_needs() {
        let guard = Redlock::in_memory(3).lock("r").await.unwrap();
        let handle = guard.handle();
        assert_eq!(format!("{guard:?}"), r#"LockGuard { resource: "r", votes: 3, .. }"#);
        drop(guard);
        assert_eq!(format!("{handle:?}"), r#"LockHandle { resource: "r", votes: 0, .. }"#);
    }
}
