//! Waiting for a lock.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, pending},
};

use crate::{
    error::LockError, guard::LockGuard, runtime::check_runtime, settings::Terms, telemetry,
};

/// The future of a [`LockRequest`](crate::LockRequest).
///
/// Cancel safe: it can be dropped at any point, and no key stays behind once the clean-up has run.
///
/// Once polled, the future has a place in the queue of this process, and the lock may be handed to it at any time.
/// Poll it to its end or drop it. Otherwise it blocks the waiters behind it, as with tokio's own mutex.
#[must_use = "futures do nothing unless polled"]
pub struct LockFuture(Asked<LockGuard>);

impl LockFuture {
    pub(crate) fn new(asked: Asked<LockGuard>) -> Self {
        Self(asked)
    }
}

impl Future for LockFuture {
    type Output = Result<LockGuard, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx)
    }
}

/// A request in progress, for a guard or for the lock of a body.
pub(crate) struct Asked<T>(BoxFuture<'static, Result<T, LockError>>);

/// A request with terms that cannot work: nothing is asked for.
pub(crate) struct Unasked {
    pub(crate) resource: String,
    pub(crate) label: &'static str,
    pub(crate) error: LockError,
}

impl<T: Send + 'static> Asked<T> {
    /// Asks for a lock by these terms, when it is first polled. The terms are made before, so that the
    /// future has no room for the options that they are made of.
    pub(crate) fn new<F>(terms: Result<Terms, Box<Unasked>>, ask: impl FnOnce(Terms) -> F) -> Self
    where
        F: Future<Output = Result<T, LockError>> + Send + 'static,
    {
        Self(match terms {
            Ok(terms) => ask(terms).boxed(),
            Err(unasked) => async move {
                let Unasked { resource, label, error } = *unasked;
                telemetry::refused_for(&resource, label, &error);
                Err(error)
            }
            .boxed(),
        })
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, LockError>> {
        // Timers need a runtime at each poll, not only at the first.
        if let Err(error) = check_runtime() {
            // The place in the queue, and a lease that was given, are dropped at once.
            self.0 = pending().boxed();
            return Poll::Ready(Err(error));
        }
        let polled = self.0.as_mut().poll(cx);
        // The runtime may have ended while the request waited.
        if let Poll::Ready(Err(_)) = polled {
            check_runtime()?;
        }
        polled
    }
}

impl fmt::Debug for LockFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockFuture").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::IntoFuture;

    use crate::Redlock;

    /// glibc has pieces of up to 1,000 bytes at hand, and searches for larger ones. With the feature
    /// `metrics` it has to search.
    #[test]
    fn a_lock_takes_little_room_while_it_is_asked_for() {
        let asking = Redlock::in_memory(1).lock("r").into_future();
        let measured = if cfg!(feature = "metrics") { 64 } else { 0 };
        let size = size_of_val(&*asking.0.0);
        assert!(size <= 1000 + measured, "{size}");
    }
}
