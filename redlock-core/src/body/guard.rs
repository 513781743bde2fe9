//! The lock of a body that can be dropped: the body is polled only while the lock may be relied on
//! (rule 9).

use std::{
    fmt,
    mem::{Discriminant, discriminant},
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, ready},
};
use tracing::Span;

use super::scope;
use crate::{
    error::{LockError, LostReason},
    guard::{LockGuard, LockHandle},
    lease::{End, Judgement, until},
    op::release::Released,
    telemetry,
};

/// What happens to a body whose lock is lost.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLost {
    /// Drop it at once.
    Cancel,
    /// Let it finish, unless the client is shut down or releases all of its locks.
    Continue,
}

/// The lock of a body that can be dropped. Dropping it releases the lock in the background: drop
/// the body first. Bodies that re-enter share the guard, and the last of them releases.
#[doc(hidden)]
pub struct BodyGuard {
    guard: Arc<LockGuard>,
    span: Span,
    /// The body was polled: from then on it may have had effects.
    started: bool,
    /// The body has joined the hold of a body around it.
    joined: bool,
    /// Resolves when the body has to be looked at again although none of its own wakers was called.
    /// Waits until the hold is judged unlike this.
    changed: Option<(Discriminant<Judgement>, BoxFuture<'static, ()>)>,
    /// Resolves when a body that goes on after a loss has to end.
    dismissed: Option<BoxFuture<'static, ()>>,
}

impl BodyGuard {
    /// The lock of a body. From now on, its keys are not released before the body has ended (rule 13).
    #[must_use]
    pub(crate) fn new(guard: LockGuard) -> Self {
        guard.hold().mark_body();
        Self::over(Arc::new(guard), false)
    }

    /// The lock of another body under a hold that is there.
    pub(super) fn joining(guard: Arc<LockGuard>) -> Self {
        Self::over(guard, true)
    }

    fn over(guard: Arc<LockGuard>, joined: bool) -> Self {
        let span = telemetry::body(guard.resource(), guard.hold().metered.label);
        Self { guard, span, started: false, joined, changed: None, dismissed: None }
    }

    /// A handle to share.
    #[must_use]
    pub fn handle(&self) -> LockHandle {
        self.guard.handle()
    }

    /// Like [`poll_body`](Self::poll_body). With [`OnLost::Continue`], a body that has started
    /// continues even if the lock is lost, until a shutdown or `release_all` ends it (rule 13).
    pub(super) fn poll_to<R>(
        &mut self,
        on_lost: OnLost,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<Result<R, LockError>> {
        if self.started && on_lost == OnLost::Continue {
            return self.poll_on(cx, poll);
        }
        match self.poll_body(cx, poll) {
            // It was polled just now, and the lock ended meanwhile.
            Poll::Ready(Err(_)) if self.started && on_lost == OnLost::Continue => {
                self.poll_on(cx, |_| Poll::Pending)
            }
            polled => polled,
        }
    }

    /// Polls a body that goes on when its lock is lost.
    fn poll_on<R>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<Result<R, LockError>> {
        let hold = self.guard.hold();
        let dismissed = self.dismissed.get_or_insert_with(|| Arc::clone(hold).dismissed().boxed());
        if dismissed.as_mut().poll(cx).is_ready() {
            let end = match self.guard.client().leases.judge(hold) {
                Judgement::Ended(end) => end,
                Judgement::Valid(_) | Judgement::Doubtful => End::Lost(LostReason::Shutdown),
            };
            return Poll::Ready(Err(hold.lost_error(end)));
        }
        in_scope(&self.guard, &self.span, || poll(cx)).map(Ok)
    }

    /// Polls the body, if the lock may be relied on. After `Ready(Err(_))` the caller drops the body, then releases or
    /// drops this guard. The error is `Lost` only when the body was polled before. `LockHandle::current()` is this lock
    /// during the poll. The task is woken when the lock is lost. Not to be called again after an error.
    pub fn poll_body<R>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<Result<R, LockError>> {
        let hold = self.guard.hold();
        let client = self.guard.client();
        let leases = &client.leases;
        let mut poll = Some(poll);
        loop {
            let judged = leases.judge(hold);
            match judged {
                Judgement::Ended(end) if self.started || self.joined => {
                    return Poll::Ready(Err(hold.lost_error(end)));
                }
                Judgement::Ended(end) => {
                    let is_closed = client.is_closed();
                    return Poll::Ready(Err(hold.unused_error(end, &leases.nodes, is_closed)));
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
            // Judges the hold again once the listener is registered, so that no change falls
            // between the two.
            let unlike = discriminant(&judged);
            let (_, changed) = match &mut self.changed {
                Some(changed) if changed.0 == unlike => changed,
                changed => {
                    let (leases, hold) = (Arc::clone(leases), Arc::clone(hold));
                    let changes = until(leases, hold, move |now| discriminant(&now) != unlike);
                    changed.insert((unlike, changes.boxed()))
                }
            };
            match changed.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) => self.changed = None,
            }
        }
    }

    /// Runs what belongs to the body, such as its end: `LockHandle::current()` is its lock meanwhile.
    pub fn in_scope<R>(&self, part: impl FnOnce() -> R) -> R {
        in_scope(&self.guard, &self.span, part)
    }

    /// Releases; the body must be gone. The last body of the hold releases it. In most cases that is
    /// the outermost body, unless a body inside was moved out of it.
    pub fn release(self) -> BoxFuture<'static, Result<Released, LockError>> {
        let Self { guard, changed, dismissed, .. } = self;
        drop((changed, dismissed));
        let is_over = guard.hold().is_over();
        match Arc::into_inner(guard) {
            Some(guard) => guard.release().boxed(),
            None if is_over => ready(Ok(Released::AlreadyLost)).boxed(),
            None => ready(Ok(Released::Ours)).boxed(),
        }
    }
}

impl fmt::Debug for BodyGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BodyGuard").field(&self.guard).finish()
    }
}

/// Runs what belongs to a body: `LockHandle::current()` is its lock meanwhile.
fn in_scope<R>(guard: &Arc<LockGuard>, span: &Span, part: impl FnOnce() -> R) -> R {
    scope::within(guard, || span.in_scope(part))
}
