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

use super::{BodyFuture, BodyGuard, OnLost, Refusal};
use crate::{error::LockError, guard::LockHandle, op::release::Released, telemetry};

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
    Running::new(Run::of(guard), Refusal::new((), |(), error| Err(error)), on_lost, body)
}

/// The closure may do work before it makes its future. That work is part of the body, and runs
/// under the lock.
async fn call<T, Fut>(
    body: impl FnOnce(LockHandle) -> Fut,
    lock: LockHandle,
) -> Result<T, LockError>
where
    Fut: Future<Output = T>,
{
    Ok(body(lock).await)
}

/// A body under its lock. The output is that of the body, or the answer to what kept the body from
/// finishing.
///
/// Each body makes a type of its own of this struct, and a program may have hundreds of them. The compiler copies the
/// function around a body to each place that polls it, so as little as possible goes along. `Run` does the work, and is
/// compiled once. Only what needs the type of the body is compiled once for each body.
pub struct Running<S, R, F> {
    // Dropped in this order: a lock is not released while its body is there (rule 13).
    body: Slot<S, R, F>,
    run: Box<Run>,
}

// The body has a place of its own, and nothing else is pinned.
impl<S, R, F> Unpin for Running<S, R, F> {}

impl<S, R, F: Future<Output = R>> Running<S, R, F> {
    pub(crate) fn new(mut run: Box<Run>, refusal: Refusal<S, R>, on_lost: OnLost, body: F) -> Self {
        run.on_lost = on_lost;
        // On the heap: otherwise each future around this one would have room for it once more.
        let body = Slot { body: Some(Box::pin(body)), refusal: Some(refusal), output: None };
        Self { body, run }
    }
}

impl<S, R, F: Future<Output = R>> Future for Running<S, R, F> {
    type Output = R;

    #[inline(never)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let this = self.get_mut();
        ready!(this.run.poll(cx, &mut this.body));
        // There is none when it is polled again after its end.
        this.body.output.take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<S, R, F> fmt::Debug for Running<S, R, F> {
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

    /// Puts the answer to this error in the place of the output that the body does not have.
    fn refuse(&mut self, error: LockError);
}

/// A body, and its output once it has finished.
struct Slot<S, R, F> {
    body: Option<Pin<Box<F>>>,
    refusal: Option<Refusal<S, R>>,
    output: Option<R>,
}

impl<S, R, F: Future<Output = R>> Body for Slot<S, R, F> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // There is no output yet, and the compiler writes no code that drops one.
        let Self { body: Some(body), output: output @ None, .. } = self else {
            return Poll::Pending;
        };
        *output = Some(ready!(body.as_mut().poll(cx)));
        Poll::Ready(())
    }

    fn end(&mut self) {
        self.body = None;
    }

    fn refuse(&mut self, error: LockError) {
        answer(&mut self.refusal, error, &mut self.output);
    }
}

/// Answers for all bodies with this output, so that it is compiled once for them.
#[inline(never)]
fn answer<S, R>(refusal: &mut Option<Refusal<S, R>>, error: LockError, output: &mut Option<R>) {
    *output = refusal.take().map(|refusal| refusal.answer(error));
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
    /// The run of a body whose lock was given just now.
    fn of(guard: BodyGuard) -> Box<Self> {
        Self::at(State::Held(guard))
    }

    /// A lock that is asked for at the first poll.
    pub(crate) fn asking(lock: BodyFuture) -> Box<Self> {
        Self::at(State::Asking(lock))
    }

    /// A lock that could not even be asked for.
    pub(crate) fn refused(resource: &str, label: &'static str, error: LockError) -> Box<Self> {
        telemetry::refused_for(resource, label, &error);
        Self::at(State::Refused(error))
    }

    fn at(state: State) -> Box<Self> {
        Box::new(Self { state, on_lost: OnLost::Cancel })
    }

    /// Ready when the body has its output, or the answer in place of one. Not to be called again after
    /// that.
    fn poll(&mut self, cx: &mut Context<'_>, body: &mut dyn Body) -> Poll<()> {
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
                    match outcome {
                        Outcome::Finished => {}
                        Outcome::Lost(error) => body.refuse(error),
                        Outcome::Panicked(panic) => resume_unwind(panic),
                    }
                    return Poll::Ready(());
                }
                State::Refused(_) => {
                    let State::Refused(error) = mem::replace(&mut self.state, State::Ended) else {
                        return Poll::Pending;
                    };
                    body.refuse(error);
                    return Poll::Ready(());
                }
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
