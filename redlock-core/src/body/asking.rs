//! Waiting for the lock of a body.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use super::BodyGuard;
use crate::{error::LockError, lock_future::Asked};

/// Asks for the lock of a body, or joins the hold of a body around it, when it is first polled.
/// Dropping it leaves no key behind.
#[doc(hidden)]
#[must_use = "futures do nothing unless polled"]
pub struct BodyFuture(Asked<BodyGuard>);

impl BodyFuture {
    pub(crate) fn new(asked: Asked<BodyGuard>) -> Self {
        Self(asked)
    }
}

impl Future for BodyFuture {
    type Output = Result<BodyGuard, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx)
    }
}

impl fmt::Debug for BodyFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyFuture").finish_non_exhaustive()
    }
}
