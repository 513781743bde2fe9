//! skeleton
use crate::{LockError, LockHandle, guard::Released};
use futures_util::future::BoxFuture;
use std::task::{Context, Poll};
/// What happens to a body whose lock is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(hidden)]
pub enum OnLost {
    /// Drop it at once.
    Cancel,
    /// Let it finish.
    Continue,
}
/// The lock of a body that can be dropped. Dropping it releases the lock in the background:
/// drop the body first.
#[derive(Debug)]
#[doc(hidden)]
pub struct BodyGuard {}
impl BodyGuard {
    /// .
    pub fn handle(&self) -> LockHandle {
        todo!()
    }
    /// Polls the body, if the lock may be relied on. `Ready(Err(Lost))`: the lock is lost: the
    /// caller drops the body, then releases or drops this guard. `LockHandle::current()` is this
    /// lock during the poll. The task is woken when the lock is lost. Not called again after Err.
    pub fn poll_body<R>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<Result<R, LockError>> {
        todo!()
    }
    /// Releases; the body must be gone.
    pub fn release(self) -> BoxFuture<'static, Result<Released, LockError>> {
        todo!()
    }
}
