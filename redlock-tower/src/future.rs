//! One request: key, lock, handler, release, answer.
//!
//! # Invariants
//!
//! 1. The service inside is called only while its lock may be relied on, and its future is
//!    polled only then (rule 9).
//! 2. Its future is dropped before its lock is released, whether it has answered, failed, panicked,
//!    lost its lock or is dropped with the whole request (rule 13). So the fields of `State` are in the
//!    order in which they have to be dropped, and `State::Done` comes before a release.
//! 3. An error of the release never replaces the answer (rule 11).

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_util::future::BoxFuture;
use pin_project::pin_project;
use redlock_core::{
    __private::{BodyFuture, BodyGuard},
    LockError, Released,
};
use tower_service::Service;

use crate::{
    extract::{Extract, checked},
    protocol::{Protocol, Refusal, SendsBody},
    settings::Settings,
};

/// The answer to one request; made by [`RedlockService`](crate::RedlockService).
///
/// # Cancellation safety
///
/// Dropping it drops the call to the inner service first, and then releases the lock in the background.
/// If it is dropped while it waits for the lock, no key stays behind.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture<S, X, P, Req>
where
    S: Service<Req>,
    X: Extract<Req>,
    P: Protocol<Req, S::Response, S::Error>,
{
    // Six independent types come together here. An alias would hide some of them.
    #[allow(clippy::type_complexity)]
    #[pin]
    state: State<S, Req, X::Future, S::Future, P::Response, P::Error>,
    settings: Arc<Settings<X, P>>,
    /// Whether the client is sent the body of the answer.
    sends_body: SendsBody,
}

/// The state of a request. Each option is `Some` until its state is left.
#[pin_project(project = StateProj)]
enum State<S, Req, K, F, R, E> {
    /// Nothing was done yet: `call` may run in another task, as behind a `tower::buffer`, where a panic of the extractor
    /// would end the service for all requests.
    Arriving {
        call: Option<(S, Req)>,
    },
    Extracting {
        #[pin]
        key: K,
        service: Option<S>,
    },
    Locking {
        lock: BodyFuture,
        call: Option<(S, Req)>,
    },
    Calling {
        call: Option<(S, Req)>,
        guard: Option<BodyGuard>,
    },
    Running {
        #[pin]
        response: F,
        guard: Option<BodyGuard>,
    },
    /// The extractor gave no key, or was not asked for one.
    Passing {
        call: Option<(S, Req)>,
    },
    Unlocked {
        #[pin]
        response: F,
    },
    Releasing {
        release: BoxFuture<'static, Result<Released, LockError>>,
        answer: Option<Result<R, E>>,
    },
    Done,
}

impl<S, X, P, Req> ResponseFuture<S, X, P, Req>
where
    S: Service<Req>,
    X: Extract<Req>,
    P: Protocol<Req, S::Response, S::Error>,
{
    pub(crate) fn new(ready: S, request: Req, settings: Arc<Settings<X, P>>) -> Self {
        let sends_body = P::sends_body(&request);
        Self { state: State::Arriving { call: Some((ready, request)) }, settings, sends_body }
    }
}

impl<S, X, P, Req> Future for ResponseFuture<S, X, P, Req>
where
    S: Service<Req>,
    X: Extract<Req>,
    P: Protocol<Req, S::Response, S::Error>,
{
    type Output = Result<P::Response, P::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let settings = &**this.settings;
        let (outcome, guard) = loop {
            match this.state.as_mut().project() {
                StateProj::Arriving { call } => {
                    let Some((service, request)) = call.take() else { return Poll::Pending };
                    let next = if settings.protocol.locks(&request) {
                        let key = settings.extract.extract(request);
                        State::Extracting { key, service: Some(service) }
                    } else {
                        State::Passing { call: Some((service, request)) }
                    };
                    this.state.set(next);
                }
                StateProj::Extracting { key, service } => {
                    let (request, key) = ready!(key.poll(cx));
                    let Some(service) = service.take() else { return Poll::Pending };
                    let next = match key.and_then(checked) {
                        Ok(Some(key)) => {
                            let lock = settings.redlock.lock(key).options(settings.options.clone());
                            State::Locking { lock: lock.for_body(), call: Some((service, request)) }
                        }
                        Ok(None) => State::Passing { call: Some((service, request)) },
                        Err(refusal) => break (Err(refusal), None),
                    };
                    this.state.set(next);
                }
                StateProj::Locking { lock, call } => match ready!(Pin::new(lock).poll(cx)) {
                    Ok(guard) => {
                        let call = call.take().map(|(service, mut request)| {
                            P::attach(&mut request, Some(guard.handle()));
                            (service, request)
                        });
                        this.state.set(State::Calling { call, guard: Some(guard) });
                    }
                    Err(error) => break (Err(error.into()), None),
                },
                // A state of its own: while the lock is in doubt, the guard polls nothing, and the
                // request is kept until the doubt ends.
                StateProj::Calling { call, guard } => {
                    let Some(held) = guard else { return Poll::Pending };
                    let start = |_: &mut Context<'_>| {
                        Poll::Ready(call.take().map(|(mut service, request)| service.call(request)))
                    };
                    match ready!(held.poll_body(cx, start)) {
                        Ok(None) => return Poll::Pending,
                        Ok(Some(response)) => {
                            let guard = guard.take();
                            this.state.set(State::Running { response, guard });
                        }
                        Err(lost) => break (Err(lost.into()), guard.take()),
                    }
                }
                StateProj::Running { mut response, guard } => {
                    let Some(held) = guard else { return Poll::Pending };
                    let result = ready!(held.poll_body(cx, |cx| response.as_mut().poll(cx)));
                    break (result.map_err(Refusal::from), guard.take());
                }
                StateProj::Passing { call } => {
                    let Some((mut service, mut request)) = call.take() else {
                        return Poll::Pending;
                    };
                    P::attach(&mut request, None);
                    let response = service.call(request);
                    this.state.set(State::Unlocked { response });
                }
                StateProj::Unlocked { response } => break (Ok(ready!(response.poll(cx))), None),
                StateProj::Releasing { release, answer } => {
                    // Invariant 3. redlock-core has an event for a release that failed.
                    let _released = ready!(release.as_mut().poll(cx));
                    return answer.take().map_or(Poll::Pending, Poll::Ready);
                }
                StateProj::Done => return Poll::Pending,
            }
        };
        // Invariant 2. Only then may `on_reject` run and the body of the answer be looked at.
        match &guard {
            Some(guard) => guard.in_scope(|| this.state.set(State::Done)),
            None => this.state.set(State::Done),
        }
        let (answer, guard) = match (outcome, guard) {
            (Err(refusal), guard) => (settings.protocol.refuse(refusal), guard),
            (Ok(result), Some(guard)) => settings.protocol.finish(result, guard, *this.sends_body),
            (Ok(result), None) => (settings.protocol.answer(result), None),
        };
        let Some(guard) = guard else { return Poll::Ready(answer) };
        let mut release = guard.release();
        if release.as_mut().poll(cx).is_ready() {
            return Poll::Ready(answer);
        }
        this.state.set(State::Releasing { release, answer: Some(answer) });
        Poll::Pending
    }
}

// Not derived: that would require `Debug` of the service, its future and the request.
impl<S, X, P, Req> fmt::Debug for ResponseFuture<S, X, P, Req>
where
    S: Service<Req>,
    X: Extract<Req>,
    P: Protocol<Req, S::Response, S::Error>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Arriving { .. } => "Arriving",
            State::Extracting { .. } => "Extracting",
            State::Locking { .. } => "Locking",
            State::Calling { .. } => "Calling",
            State::Running { .. } => "Running",
            State::Passing { .. } => "Passing",
            State::Unlocked { .. } => "Unlocked",
            State::Releasing { .. } => "Releasing",
            State::Done => "Done",
        };
        f.debug_struct("ResponseFuture").field("state", &state).finish_non_exhaustive()
    }
}
