//! `LockHandle` as an axum extractor.

use std::convert::Infallible;

use axum_core::extract::{FromRequestParts, OptionalFromRequestParts};
use http::{StatusCode, request::Parts};

use crate::{LockHandle, extension::NoLock};

/// The lock that redlock-tower's layer took for this request: the one in its extensions, else, unless
/// a layer has let the request through without one, [`LockHandle::current`].
///
/// A handler that asks for it behind no layer, or whose request was let through without a lock,
/// answers 500: without the lock it was written for it must not run. `Option<LockHandle>` is
/// `None` then.
impl<S: Send + Sync> FromRequestParts<S> for LockHandle {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        lock_of(parts).ok_or_else(|| {
            // The client is told nothing it could use; whoever runs the service is.
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

/// `RedlockLayer::new` goes around requests of any type, and cannot put the lock into them.
fn lock_of(parts: &Parts) -> Option<LockHandle> {
    let none = parts.extensions.get::<NoLock>();
    let lock = parts.extensions.get().cloned();
    lock.or_else(|| if none.is_none() { LockHandle::current() } else { None })
}
