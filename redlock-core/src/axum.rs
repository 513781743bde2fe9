//! `LockHandle` as an axum extractor.

use std::convert::Infallible;

use axum_core::extract::{FromRequestParts, OptionalFromRequestParts};
use http::{StatusCode, request::Parts};

use crate::{LockHandle, extension::NoLock};

/// The lock that redlock-tower's layers took for this request. With several layers it is the lock of
/// the innermost one; see "Several locks around one handler" in the documentation of that crate.
/// Without a layer it is [`LockHandle::current`].
///
/// If there is no layer, or the layer let the request through without a lock, the handler does not run, and
/// the answer is 500. A handler with an `Option<LockHandle>` runs, and gets `None`.
impl<S: Send + Sync> FromRequestParts<S> for LockHandle {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        lock_of(parts).ok_or_else(|| {
            // The HTTP client cannot fix this. The event is for the operator.
            tracing::error!(
                method = %parts.method,
                path = parts.uri.path(),
                "a handler asks for a LockHandle, but this request has no lock: put a RedlockLayer \
                 around the route whose extractor always gives a key, or ask for Option<LockHandle>"
            );
            (StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error")
        })
    }
}

impl<S: Send + Sync> OptionalFromRequestParts<S> for LockHandle {
    type Rejection = Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        _state: &S,
    ) -> Result<Option<Self>, Self::Rejection> {
        Ok(lock_of(parts))
    }
}

/// An http or grpc layer puts its lock, or that there is none, into the extensions. A `RedlockLayer::new`
/// cannot, since it goes around requests of any type: its lock is only the current one. Where both are there,
/// the current one is the same or further inside.
fn lock_of(parts: &Parts) -> Option<LockHandle> {
    let taken = parts.extensions.get::<LockHandle>();
    let is_hidden =
        || taken.is_none() && parts.extensions.get::<NoLock>().is_some_and(NoLock::hides_current);
    LockHandle::current().filter(|_| !is_hidden()).or_else(|| taken.cloned())
}
