//! skeleton
use crate::{LockError, body::BodyGuard};
use std::{future::Future, time::Duration};
/// .
#[derive(Debug)]
#[must_use = "a guard that is not bound to a name releases its lock at once"]
pub struct LockGuard {}
/// .
#[derive(Debug, Clone)]
pub struct LockHandle {}
/// .
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// .
    Ours,
    /// .
    AlreadyLost,
}
impl LockGuard {
    /// .
    pub fn resource(&self) -> &str {
        todo!()
    }
    /// .
    pub fn validity(&self) -> Duration {
        todo!()
    }
    /// .
    pub fn is_valid(&self) -> bool {
        todo!()
    }
    /// .
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        async { todo!() }
    }
    /// .
    pub fn votes(&self) -> usize {
        todo!()
    }
    /// .
    pub async fn extend(&self, ttl: Duration) -> Result<(), LockError> {
        todo!()
    }
    /// .
    pub fn handle(&self) -> LockHandle {
        todo!()
    }
    /// .
    pub async fn release(self) -> Result<Released, LockError> {
        todo!()
    }
    /// This lock as the lock of a body that can be dropped: at loss, at `release_all`, at shutdown.
    #[doc(hidden)]
    pub fn into_body(self) -> BodyGuard {
        todo!()
    }
}
impl LockHandle {
    /// The innermost lock of this task's body.
    pub fn current() -> Option<Self> {
        todo!()
    }
    /// .
    pub fn resource(&self) -> &str {
        todo!()
    }
    /// .
    pub fn validity(&self) -> Duration {
        todo!()
    }
    /// .
    pub fn is_valid(&self) -> bool {
        todo!()
    }
    /// .
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        async { todo!() }
    }
    /// .
    pub fn votes(&self) -> usize {
        todo!()
    }
}
