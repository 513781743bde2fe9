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
/// Dropping it releases the lock in the background, also outside of the runtime, after its end and during a panic.
/// The ttl only bounds how long the lock outlives a crash. Use [`release`](Self::release) to wait until the
/// nodes have confirmed the release, and [`lost`](Self::lost) to learn that the lock is not yours any more.
#[must_use = "a guard that is not bound to a name releases its lock at once"]
pub struct LockGuard {
    client: Arc<Client>,
    handle: LockHandle,
}

/// A view of a held lock: all that its [`LockGuard`] tells, without owning the lock. Cheap to clone.
#[derive(Clone)]
pub struct LockHandle {
    pub(crate) leases: Arc<Leases>,
    pub(crate) hold: Arc<Hold>,
}

/// The reads of a guard and its handles.
macro_rules! reads {
    () => {
        /// The resource that is locked; the first that was named of a set.
        #[must_use]
        pub fn resource(&self) -> &str {
            self.as_handle().hold.resources.first()
        }

        /// All resources that are locked, in the order in which
        /// [`lock_all`](crate::Redlock::lock_all) named them, each once. One for other locks.
        #[must_use]
        pub fn resources(&self) -> &[String] {
            self.as_handle().hold.resources.as_slice()
        }

        /// How much longer the lock may be relied on; zero once lost. Computed from the clock at
        /// each call.
        #[must_use]
        pub fn validity(&self) -> Duration {
            let LockHandle { leases, hold } = self.as_handle();
            leases.validity(hold)
        }

        /// How long ago this holder began to take the lock, or was handed it. Counts on after the hold has
        /// ended.
        #[must_use]
        pub fn age(&self) -> Duration {
            let LockHandle { leases, hold } = self.as_handle();
            leases.nodes.clock.now().since(hold.since)
        }

        /// Whether the lock may be relied on now.
        #[must_use]
        pub fn is_valid(&self) -> bool {
            !self.validity().is_zero()
        }

        /// Resolves when the lock is no longer held, released included; at once when it is not held
        /// now.
        ///
        /// The future is `'static` and does not keep the lock. It needs no network: validity that runs out
        /// is enough. It does need a tokio runtime to be woken by the clock. Cancel safe.
        pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
            let LockHandle { leases, hold } = self.as_handle().clone();
            until(leases, hold, |judgement| matches!(judgement, Judgement::Ended(_)))
        }

        /// The fencing token, if the lock was asked for with
        /// [`fenced`](crate::LockRequest::fenced); see [`fence`](crate::fence). It stays the same
        /// for as long as the lock is held, and is still told afterwards.
        #[must_use]
        pub fn fencing_token(&self) -> Option<FencingToken> {
            self.as_handle().hold.token
        }

        /// How many nodes have the lock of this holder, as of the last confirmed round. Late
        /// answers still count. Zero once the hold has ended.
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

    /// A handle to share.
    #[must_use]
    pub fn handle(&self) -> LockHandle {
        self.handle.clone()
    }

    /// Extends the lock as if it were acquired now with this ttl, and later renewals keep the ttl.
    /// Never shortens what is left.
    ///
    /// # Errors
    ///
    /// [`Lost`](LockError::Lost) when the lock is not held any more. [`Config`](LockError::Config)
    /// for a ttl that cannot work, and outside a tokio runtime. [`NoQuorum`](LockError::NoQuorum) when the outcome is unknown:
    /// the lock is then still held for what was left of it.
    ///
    /// # Cancellation safety
    ///
    /// When the future is dropped, the extension may have happened or not. The lock is held either
    /// way.
    pub async fn extend(&self, ttl: Duration) -> Result<(), LockError> {
        extend::extend(&self.client, &self.handle.hold, ttl).await
    }

    /// Releases the lock. Returns when a quorum has confirmed it, or at once when the lock passes to the next
    /// task of this process. With a `min_hold` the lock stays taken for the rest of it.
    ///
    /// # Errors
    ///
    /// [`NoQuorum`](LockError::NoQuorum), after one `node_timeout`, when no quorum confirmed it.
    /// Clean-up goes on in the background until the keys' ttl. [`Config`](LockError::Config)
    /// outside a tokio runtime, where the release goes on in the background as after a drop.
    ///
    /// # Cancellation safety
    ///
    /// When the future is dropped, the release goes on in the background.
    pub async fn release(self) -> Result<Released, LockError> {
        check_runtime()?;
        self.client.ensure_moving(self.client.nodes.clock.now());
        release::release(&self.client, &self.handle.hold).await
    }

    /// Hands the lock to another process, which takes it up with [`Redlock::adopt`](crate::Redlock::adopt),
    /// once. The hold ends here: [`lost`](Self::lost) resolves, no more renewals are sent, and this
    /// process must not work under the lock any more. No node is asked. The lock stays taken until it
    /// is adopted, and expires when it is not. A lock that cannot be adopted is released.
    ///
    /// A fencing token goes along, and a store cannot tell the two holders apart by it: finish all writes before. One that
    /// timed out here may still be on its way, and is not finished. The settings `ttl`, `clock_drift_factor`, `auto_extend`, `min_hold` and
    /// `max_hold` do, too, and what is left of the last two is told by the wall clocks of both
    /// processes. A lock that is lost already, or in doubt, cannot be adopted, and neither can that of a
    /// reader or a permit.
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
    /// Works outside of a runtime, during a panic and during a shutdown.
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
