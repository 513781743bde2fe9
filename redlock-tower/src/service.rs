//! The service that takes a lock before it calls the one inside.

use std::{
    fmt, mem,
    sync::Arc,
    task::{Context, Poll},
};

use tower_service::Service;

use crate::{extract::Extract, future::ResponseFuture, protocol::Protocol, settings::Settings};

/// A service whose requests run under a lock; made by [`RedlockLayer`](crate::RedlockLayer).
pub struct RedlockService<S, X, P> {
    inner: S,
    settings: Arc<Settings<X, P>>,
}

impl<S, X, P> RedlockService<S, X, P> {
    pub(crate) fn new(inner: S, settings: Arc<Settings<X, P>>) -> Self {
        Self { inner, settings }
    }

    /// The inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The inner service, mutably.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Returns the inner service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, X, P, Req> Service<Req> for RedlockService<S, X, P>
where
    S: Service<Req> + Clone,
    X: Extract<Req>,
    P: Protocol<Req, S::Response, S::Error>,
{
    type Response = P::Response;
    type Error = P::Error;
    type Future = ResponseFuture<S, X, P, Req>;

    /// The readiness of the inner service. No lock is taken here: the key is not known yet, and a
    /// service that is ready may never be called.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(P::error)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        // The future takes the instance that was polled ready, a clone of it need not be: see
        // https://docs.rs/tower-service/0.3/tower_service/trait.Service.html#be-careful-when-cloning-inner-services
        let clone = self.inner.clone();
        let ready = mem::replace(&mut self.inner, clone);
        ResponseFuture::new(ready, request, Arc::clone(&self.settings))
    }
}

/// `Server::add_service` asks for it.
#[cfg(feature = "tonic")]
impl<S: tonic::server::NamedService, X, P> tonic::server::NamedService for RedlockService<S, X, P> {
    const NAME: &'static str = S::NAME;
}

// Not derived, here and below: that would require `Clone` and `Debug` of the extractor.
impl<S: Clone, X, P> Clone for RedlockService<S, X, P> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), settings: Arc::clone(&self.settings) }
    }
}

impl<S: fmt::Debug, X, P> fmt::Debug for RedlockService<S, X, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedlockService").field("inner", &self.inner).finish_non_exhaustive()
    }
}
