//! The guard that owns the lock, and handles that only read it.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use crate::{
    body::{BodyGuard, current},
    client::{Client, check_runtime},
    error::LockError,
    fence::FencingToken,
    lease::{Hold, Judgement, until},
    op::{extend, release},
};

/// A lock that is held. It renews itself, and holds until it is released or dropped.
///
/// Dropping it releases the lock in the background, also outside of the runtime and during a panic.
/// The ttl only bounds how long the lock outlives a crash. Use [`release`](Self::release) to know
/// that the lock is free, and [`lost`](Self::lost) to learn that it is not yours any more.
#[must_use = "a guard that is not bound to a name releases its lock at once"]
pub struct LockGuard {
    hold: Arc<Hold>,
}

/// Read access to a lock: the reads of its [`LockGuard`], without ownership.
#[derive(Clone)]
pub struct LockHandle {
    hold: Arc<Hold>,
}

/// The outcome of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// The lock was held until the release.
    Ours,
    /// The lock had been lost before: the work may have overlapped with that of another holder.
    AlreadyLost,
}

macro_rules! reads {
    () => {
        /// The resource that is locked.
        #[must_use]
        pub fn resource(&self) -> &str {
            &self.hold.resource
        }

        /// How much longer the lock may be relied on; zero once lost. Computed from the clock at
        /// each call.
        #[must_use]
        pub fn validity(&self) -> Duration {
            self.hold.validity()
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
        /// is enough (rule 9). It does need a tokio runtime to be woken by the clock. Cancel safe.
        pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
            until(Arc::clone(&self.hold), |judgement| matches!(judgement, Judgement::Ended(_)))
        }

        /// The fencing token, if the lock was asked for with
        /// [`fenced`](crate::LockRequest::fenced); see [`fence`](crate::fence). It stays the same
        /// for as long as the lock is held, and is still told afterwards.
        #[must_use]
        pub fn fencing_token(&self) -> Option<FencingToken> {
            self.hold.token
        }

        /// How many nodes have the lock of this holder, as of the last confirmed round. Late
        /// answers still count. Zero once the hold has ended.
        #[must_use]
        pub fn votes(&self) -> usize {
            self.hold.votes()
        }
    };
}

impl LockGuard {
    pub(crate) fn new(hold: Arc<Hold>) -> Self {
        Self { hold }
    }

    reads!();

    /// A handle to share.
    #[must_use]
    pub fn handle(&self) -> LockHandle {
        LockHandle { hold: Arc::clone(&self.hold) }
    }

    /// Extends the lock as if it were acquired now with this ttl, and later renewals keep the ttl.
    /// Never shortens what is left.
    ///
    /// # Errors
    ///
    /// [`Lost`](LockError::Lost) when the lock is not held any more. [`Config`](LockError::Config)
    /// for a ttl that cannot work. [`NoQuorum`](LockError::NoQuorum) when the outcome is unknown:
    /// the lock is then still held for what was left of it.
    ///
    /// # Cancellation safety
    ///
    /// When the future is dropped, the extension may have happened or not. The lock is held either
    /// way.
    pub async fn extend(&self, ttl: Duration) -> Result<(), LockError> {
        extend::extend(&self.hold, ttl).await
    }

    /// Releases the lock and returns when a quorum has confirmed it.
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
        let hold = Arc::clone(&self.hold);
        hold.client.ensure_running();
        release::release(&hold).await
    }

    /// The lock of a body that can be dropped.
    #[doc(hidden)]
    pub fn into_body(self) -> BodyGuard {
        self.mark_body();
        BodyGuard::new(self)
    }

    /// Notes that a body runs under the lock: its keys are not released before the body has ended
    /// (rule 13).
    pub(crate) fn mark_body(&self) {
        self.hold.mark_body();
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        release::in_background(&self.hold);
    }
}

impl LockHandle {
    pub(crate) fn new(hold: Arc<Hold>) -> Self {
        Self { hold }
    }

    /// Whether this client holds the lock.
    pub(crate) fn is_of(&self, client: &Arc<Client>) -> bool {
        Arc::ptr_eq(&self.hold.client, client)
    }

    #[cfg(redlock_sim)]
    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// The innermost lock of this task's body, in `run`, annotated functions and layered
    /// handlers. Spawned tasks have none of their own.
    #[must_use]
    pub fn current() -> Option<Self> {
        current()
    }

    reads!();
}

// By hand, here and below: derived, these would print the client and the state of every round.
impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(f.debug_struct("LockGuard"), &self.hold)
    }
}

impl fmt::Debug for LockHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(f.debug_struct("LockHandle"), &self.hold)
    }
}

fn describe(mut shown: fmt::DebugStruct<'_, '_>, hold: &Hold) -> fmt::Result {
    shown.field("resource", &hold.resource).field("votes", &hold.votes()).finish_non_exhaustive()
}

#[cfg(test)]
mod tests {
    use crate::Redlock;

    #[tokio::test(start_paused = true)]
    async fn what_is_printed_is_what_a_person_needs() {
        let guard = Redlock::in_memory(3).lock("r").await.unwrap();
        let handle = guard.handle();
        assert_eq!(format!("{guard:?}"), r#"LockGuard { resource: "r", votes: 3, .. }"#);
        drop(guard);
        assert_eq!(format!("{handle:?}"), r#"LockHandle { resource: "r", votes: 0, .. }"#);
    }
}
