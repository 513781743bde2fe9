//! Running a body from the request for its lock to the release.

use std::{
    any::Any,
    fmt,
    future::Future,
    mem,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::future::BoxFuture;

use super::{BodyFuture, BodyGuard, OnLost};
use crate::{error::LockError, guard::LockHandle, op::release::Released};

/// Runs a body under a lock that was just given, and releases it.
///
/// A body that finishes keeps its result; what the release finds never replaces it (rule 11). A
/// panic goes on after the release.
pub(crate) fn run<T, Fut>(
    guard: BodyGuard,
    on_lost: OnLost,
    body: impl FnOnce(LockHandle) -> Fut,
) -> impl Future<Output = Result<T, LockError>>
where
    Fut: Future<Output = T>,
{
    let body = call(body, guard.handle());
    Running::new(Run::of(guard), on_lost, body)
}

/// The closure may do work before it makes its future. That work is part of the body, and runs
/// under the lock.
async fn call<T, Fut>(body: impl FnOnce(LockHandle) -> Fut, lock: LockHandle) -> T
where
    Fut: Future<Output = T>,
{
    body(lock).await
}

/// A body under its lock. The output is that of the body, or why the body did not finish.
///
/// Each body makes a type of its own of this, so it does as little as it can. The work is with
/// [`Run`], which is compiled once.
pub(crate) struct Running<F: Future> {
    // Dropped in this order: a lock is not released while its body is there (rule 13).
    body: Slot<F>,
    run: Box<Run>,
}

// The body has a place of its own, and nothing else is pinned.
impl<F: Future> Unpin for Running<F> {}

impl<F: Future> Running<F> {
    pub(crate) fn new(mut run: Box<Run>, on_lost: OnLost, body: F) -> Self {
        run.on_lost = on_lost;
        // On the heap: otherwise each future around this one would have room for it once more.
        Self { body: Slot { body: Some(Box::pin(body)), output: None }, run }
    }
}

impl<F: Future> Future for Running<F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        match this.run.poll(cx, &mut this.body) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(error)) => Poll::Ready(Err(error)),
            Poll::Ready(None) => match this.body.output.take() {
                Some(output) => Poll::Ready(Ok(output)),
                // Polled again after its end.
                None => Poll::Pending,
            },
        }
    }
}

impl<F: Future> fmt::Debug for Running<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

/// A body without its type.
trait Body {
    /// Polls it; the output stays where it is.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Drops it, but not its output.
    fn end(&mut self);
}

/// A body, and its output once it has finished.
struct Slot<F: Future> {
    body: Option<Pin<Box<F>>>,
    output: Option<F::Output>,
}

impl<F: Future> Body for Slot<F> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(body) = &mut self.body else { return Poll::Pending };
        body.as_mut().poll(cx).map(|output| self.output = Some(output))
    }

    fn end(&mut self) {
        self.body = None;
    }
}

/// How far a lock with a body has come: asked for, held, released.
pub(crate) struct Run {
    state: State,
    on_lost: OnLost,
}

enum State {
    Asking(BodyFuture),
    Held(BodyGuard),
    Releasing(BoxFuture<'static, Result<Released, LockError>>, Outcome),
    Refused(LockError),
    Ended,
}

/// The outcome of the body.
enum Outcome {
    Finished,
    Lost(LockError),
    Panicked(Box<dyn Any + Send>),
}

impl Run {
    /// A lock that was just given.
    fn of(guard: BodyGuard) -> Box<Self> {
        Self::at(State::Held(guard))
    }

    /// A lock that is asked for at the first poll.
    pub(crate) fn asking(lock: BodyFuture) -> Box<Self> {
        Self::at(State::Asking(lock))
    }

    /// A lock that could not even be asked for.
    pub(crate) fn refused(error: LockError) -> Box<Self> {
        Self::at(State::Refused(error))
    }

    fn at(state: State) -> Box<Self> {
        Box::new(Self { state, on_lost: OnLost::Cancel })
    }

    /// `None` when the body has finished. Not to be called again after it is ready.
    fn poll(&mut self, cx: &mut Context<'_>, body: &mut dyn Body) -> Poll<Option<LockError>> {
        loop {
            match &mut self.state {
                State::Asking(request) => {
                    self.state = match ready!(Pin::new(request).poll(cx)) {
                        Ok(guard) => State::Held(guard),
                        Err(error) => State::Refused(error),
                    }
                }
                State::Held(guard) => {
                    let on_lost = self.on_lost;
                    let polled = guard.poll_to(on_lost, cx, |cx| match caught(|| body.poll(cx)) {
                        Ok(polled) => polled.map(Ok),
                        Err(panic) => Poll::Ready(Err(panic)),
                    });
                    let outcome = match ready!(polled) {
                        Ok(Ok(())) => Outcome::Finished,
                        Ok(Err(panic)) => Outcome::Panicked(panic),
                        Err(lost) => Outcome::Lost(lost),
                    };
                    // A lock is never released while its body may still be running (rule 13).
                    let ended = guard.in_scope(|| caught(|| body.end()));
                    let outcome = match (outcome, ended) {
                        (Outcome::Finished | Outcome::Lost(_), Err(panic)) => {
                            Outcome::Panicked(panic)
                        }
                        (outcome, _) => outcome,
                    };
                    let State::Held(guard) = mem::replace(&mut self.state, State::Ended) else {
                        return Poll::Pending;
                    };
                    self.state = State::Releasing(guard.release(), outcome);
                }
                State::Releasing(released, _) => {
                    let _ = ready!(released.as_mut().poll(cx));
                    let State::Releasing(_, outcome) = mem::replace(&mut self.state, State::Ended)
                    else {
                        return Poll::Pending;
                    };
                    return match outcome {
                        Outcome::Finished => Poll::Ready(None),
                        Outcome::Lost(error) => Poll::Ready(Some(error)),
                        Outcome::Panicked(panic) => resume_unwind(panic),
                    };
                }
                State::Refused(_) => match mem::replace(&mut self.state, State::Ended) {
                    State::Refused(error) => return Poll::Ready(Some(error)),
                    _ => return Poll::Pending,
                },
                State::Ended => return Poll::Pending,
            }
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("on_lost", &self.on_lost).finish_non_exhaustive()
    }
}

/// Catches a panic so that it can go on later. A body that has panicked is not used again, only
/// dropped.
fn caught<R>(part: impl FnOnce() -> R) -> std::thread::Result<R> {
    catch_unwind(AssertUnwindSafe(part))
}
