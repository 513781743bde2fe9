//! Running a body under a lock: polled only while the lock may be relied on, dropped when it is
//! lost, released afterwards (rules 9 and 13).

use std::{
    any::Any,
    fmt,
    future::Future,
    mem,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_util::{FutureExt, future::BoxFuture};
use tracing::Span;

use crate::{
    error::LockError,
    guard::{LockGuard, LockHandle},
    lease::{Judgement, until},
    lock_future::LockFuture,
    op::release::Released,
    telemetry,
};

tokio::task_local! {
    static CURRENT: LockHandle;
}

impl LockHandle {
    /// The innermost lock of this task's body, in `run`, annotated functions and layered
    /// handlers. Spawned tasks have none of their own.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }
}

/// What happens to a body whose lock is lost.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLost {
    /// Drop it at once.
    Cancel,
    /// Let it finish.
    Continue,
}

/// The lock of a body that can be dropped. Dropping it releases the lock in the background: drop
/// the body first.
#[doc(hidden)]
pub struct BodyGuard {
    guard: LockGuard,
    span: Span,
    /// The body was polled: from then on it may have had effects.
    started: bool,
    /// Resolves when the body has to be looked at again although nothing of its own woke it.
    changed: Option<BoxFuture<'static, ()>>,
}

/// The lock of a body that can be dropped. From now on, its keys are not released before the body has
/// ended (rule 13).
#[doc(hidden)]
#[must_use]
pub fn into_body(guard: LockGuard) -> BodyGuard {
    BodyGuard::new(guard)
}

impl BodyGuard {
    fn new(guard: LockGuard) -> Self {
        guard.hold().mark_body();
        let span = telemetry::body(guard.resource(), guard.hold().metered.label);
        Self { guard, span, started: false, changed: None }
    }

    /// A handle to share.
    #[must_use]
    pub fn handle(&self) -> LockHandle {
        self.guard.handle()
    }

    /// As [`poll_body`](Self::poll_body); with [`OnLost::Continue`], a body that has started goes on
    /// whatever becomes of the lock.
    fn poll_to<R>(
        &mut self,
        on_lost: OnLost,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<Result<R, LockError>> {
        if self.started && on_lost == OnLost::Continue {
            return in_scope(&self.guard, &self.span, || poll(cx)).map(Ok);
        }
        self.poll_body(cx, poll)
    }

    /// Polls the body, if the lock may be relied on. `Ready(Err(_))`, which is `Lost` only when
    /// the body was polled before: the caller drops the body, then releases or drops this guard.
    /// `LockHandle::current()` is this lock during the poll. The task is woken when the lock is
    /// lost. Not to be called again after an error.
    pub fn poll_body<R>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<Result<R, LockError>> {
        let hold = self.guard.hold();
        let leases = &self.guard.client().leases;
        let mut poll = Some(poll);
        loop {
            let judged = leases.judge(hold);
            match judged {
                Judgement::Ended(end) if self.started => {
                    return Poll::Ready(Err(hold.lost_error(end)));
                }
                Judgement::Ended(end) => {
                    return Poll::Ready(Err(hold.unused_error(end, &leases.nodes)));
                }
                Judgement::Valid(_) => {
                    if let Some(poll) = poll.take() {
                        self.started = true;
                        let polled = in_scope(&self.guard, &self.span, || poll(cx));
                        if let Poll::Ready(output) = polled {
                            return Poll::Ready(Ok(output));
                        }
                    }
                }
                Judgement::Doubtful => {}
            }
            // Judges again once it listens, so that no change falls between the two.
            let changed = self.changed.get_or_insert_with(|| {
                let unlike = std::mem::discriminant(&judged);
                let (leases, hold) = (Arc::clone(leases), Arc::clone(hold));
                until(leases, hold, move |now| std::mem::discriminant(&now) != unlike).boxed()
            });
            match changed.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) => self.changed = None,
            }
        }
    }

    /// Releases; the body must be gone.
    pub fn release(self) -> BoxFuture<'static, Result<Released, LockError>> {
        let Self { guard, changed, .. } = self;
        drop(changed);
        guard.release().boxed()
    }
}

impl fmt::Debug for BodyGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BodyGuard").field(&self.guard).finish()
    }
}

/// Runs a body under a lock that was just given, and releases it.
///
/// A body that finishes keeps its result; what the release finds never replaces it (rule 11). A
/// panic goes on after the release.
pub(crate) fn run<T, Fut>(
    guard: LockGuard,
    on_lost: OnLost,
    body: impl FnOnce(LockHandle) -> Fut,
) -> impl Future<Output = Result<T, LockError>>
where
    Fut: Future<Output = T>,
{
    let body = call(body, guard.handle());
    Running::new(Run::of(guard), on_lost, body)
}

/// What the closure does before it makes its future is part of the body, and under the lock.
async fn call<T, Fut>(body: impl FnOnce(LockHandle) -> Fut, lock: LockHandle) -> T
where
    Fut: Future<Output = T>,
{
    body(lock).await
}

/// A body under its lock: it answers what the body gives, or why that did not finish.
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
        // On the heap, or each of the futures around it would have room for it once more.
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
    Asking(LockFuture),
    Held(BodyGuard),
    Releasing(BoxFuture<'static, Result<Released, LockError>>, Outcome),
    Refused(LockError),
    Ended,
}

/// What came of the body.
enum Outcome {
    Finished,
    Lost(LockError),
    Panicked(Box<dyn Any + Send>),
}

impl Run {
    /// A lock that was just given.
    fn of(guard: LockGuard) -> Box<Self> {
        Self::at(State::Held(into_body(guard)))
    }

    /// A lock that is asked for at the first poll.
    pub(crate) fn asking(lock: LockFuture) -> Box<Self> {
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
                        Ok(guard) => State::Held(into_body(guard)),
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
                    let ended = in_scope(&guard.guard, &guard.span, || caught(|| body.end()));
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

/// Runs what belongs to a body: `LockHandle::current()` is its lock meanwhile.
fn in_scope<R>(guard: &LockGuard, span: &Span, part: impl FnOnce() -> R) -> R {
    CURRENT.sync_scope(guard.handle(), || span.in_scope(part))
}

/// Catches a panic so that it can go on later. What has panicked is not used again, only dropped.
fn caught<R>(part: impl FnOnce() -> R) -> std::thread::Result<R> {
    catch_unwind(AssertUnwindSafe(part))
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use tokio::time::sleep;

    use super::*;
    use crate::{Redlock, op::release};

    /// What comes of a body that is polled for the first time now.
    async fn first_poll(mut guard: BodyGuard) -> Result<(), LockError> {
        poll_fn(|cx| guard.poll_body(cx, |_| Poll::Ready(()))).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_to_finish_keeps_its_key_until_it_has() {
        let redlock = Redlock::in_memory(3);
        let keys = |redlock: &Redlock| redlock.memory_nodes()[0].keys();
        let running = tokio::spawn({
            let redlock = redlock.clone();
            async move {
                let body = async |lock: LockHandle| {
                    lock.lost().await;
                    sleep(Duration::from_secs(1)).await;
                    keys(&redlock)
                };
                let guard = redlock.lock("r").await?;
                run(guard, OnLost::Continue, body).await
            }
        });
        while redlock.held().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
        redlock.release_all().await;
        assert_eq!(running.await.unwrap().unwrap(), ["redlock:r"], "while it ran");
        assert_eq!(keys(&redlock), [""; 0]);
    }

    #[test]
    fn a_large_body_makes_no_large_future() {
        let redlock = Redlock::in_memory(1);
        let running = redlock.lock("r").run(async |_: &LockHandle| {
            let large = [0_u8; 10_000];
            sleep(Duration::from_secs(1)).await;
            large.len()
        });
        assert!(size_of_val(&running) < 1000, "{} bytes", size_of_val(&running));
    }

    /// A closure that does something before it makes its future is part of the body.
    #[tokio::test(start_paused = true)]
    async fn what_a_closure_does_at_once_is_under_the_lock_too() {
        let redlock = Redlock::in_memory(3);
        let mut current = None;
        let body = |_: &LockHandle| {
            current = LockHandle::current().map(|lock| lock.resource().to_owned());
            async { sleep(Duration::from_secs(1)).await }
        };
        redlock.lock("r").run(body).await.unwrap();
        assert_eq!(current.as_deref(), Some("r"));

        let panics = |_: &LockHandle| -> std::future::Ready<()> { panic!("at once") };
        let panicked = AssertUnwindSafe(redlock.lock("r").run(panics)).catch_unwind().await;
        assert!(panicked.is_err());
        assert_eq!(redlock.memory_nodes()[0].keys(), [""; 0], "released before");
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_in_the_end_of_a_body_goes_on_after_the_release() {
        struct Panics;

        impl Drop for Panics {
            fn drop(&mut self) {
                assert!(LockHandle::current().is_some_and(|lock| lock.resource() == "r"));
                panic!("while it is dropped");
            }
        }

        let redlock = Redlock::in_memory(3);
        let body = async |_: &LockHandle| {
            let _panics = Panics;
            sleep(Duration::from_secs(60)).await;
        };
        let request = redlock.lock("r").auto_extend(false);
        let panicked = AssertUnwindSafe(request.run(body)).catch_unwind().await.unwrap_err();
        assert_eq!(panicked.downcast_ref::<&str>(), Some(&"while it is dropped"));
        assert_eq!(redlock.memory_nodes()[0].keys(), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_to_finish_does_not_start_without_its_lock() {
        let redlock = Redlock::in_memory(3);
        let guard = redlock.lock("r").await.unwrap();
        drop(release::end_all(redlock.client()));
        let body = async |_| panic!("it ran");
        let error = run::<(), _>(guard, OnLost::Continue, body).await.unwrap_err();
        assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_that_ends_before_its_body_starts_is_not_lost() {
        let redlock = Redlock::in_memory(3);
        let late = into_body(redlock.lock("late").auto_extend(false).await.unwrap());
        sleep(Duration::from_secs(31)).await;
        let error = first_poll(late).await.unwrap_err();
        assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
        assert!(error.to_string().contains("came too late"), "{error}");

        let closed = into_body(redlock.lock("closed").await.unwrap());
        redlock.shutdown(Duration::ZERO).await;
        let error = first_poll(closed).await.unwrap_err();
        assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
    }
}
