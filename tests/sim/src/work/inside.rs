//! What a body asks of the lock that it runs under: bodies inside of it join its hold, and everything
//! else is refused or waits.

use std::{
    future::{Future, IntoFuture, poll_fn},
    pin::pin,
    task::Poll,
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use redlock_core::{
    LockError, LockHandle, Redlock,
    seam::simulation::{believes, claim},
};
use tokio::{join, sync::oneshot};

use super::{
    super::{
        plan::{Cancel, Inside, Mode, Step, Take},
        report::Oddity,
        world::{ms, sleep},
    },
    Worker,
    cancel::{OnDrop, cancellable},
    in_mode,
};

/// A body that began inside of another one, and goes on outside of it.
pub(super) struct Moved(BoxFuture<'static, ()>);

impl Moved {
    /// Waits for the ends of bodies that have outlived theirs.
    pub(super) async fn all(moved: Vec<Self>) {
        join_all(moved.into_iter().map(|body| body.0)).await;
    }
}

/// The `wait` of a request that can only be refused: it must not use it.
const LONG: u64 = 60 * 60 * 1000;

/// A body under its lock, of which others ask for the same.
#[derive(Clone)]
struct Around {
    worker: Worker,
    redlock: Redlock,
    take: Take,
    lock: LockHandle,
    /// The number of its belief.
    root: u64,
}

impl Worker {
    /// How long a body and what it asks for may take, its wait for the lock included.
    pub(super) fn longest(&self, take: &Take) -> u64 {
        let held: u64 = take.steps.iter().map(Step::span).sum();
        let inside = |inside: &Inside| match inside {
            Inside::Nested { depth, span, .. } => u64::from(*depth) * (*span + self.round()),
            Inside::Joined([one, other]) => one.max(other) + self.round(),
            Inside::Spawned { take, is_awaited: true } => self.longest(take),
            Inside::Moved(_) | Inside::Bare | Inside::Spawned { .. } => 0,
        };
        let inside: u64 = take.inside.iter().map(inside).sum();
        self.give_up_after(take) + held + inside + self.round()
    }

    /// Does what a body does inside. Returns the bodies that go on when it has ended.
    pub(super) async fn inside(
        &self,
        take: &Take,
        redlock: &Redlock,
        lock: &LockHandle,
        root: u64,
    ) -> Vec<Moved> {
        let mut moved = Vec::new();
        if take.inside.is_empty() {
            return moved;
        }
        let (worker, redlock, lock) = (self.clone(), redlock.clone(), lock.clone());
        let around = Around { worker, redlock, take: take.clone(), lock, root };
        for inside in &take.inside {
            self.say(53, 0, || format!("asks for what it has: {inside:?}"));
            match inside {
                Inside::Nested { depth, span, cancel } => {
                    around.nested(*depth, *span, *cancel, true).await;
                }
                Inside::Joined([one, other]) => {
                    join!(around.nested(1, *one, None, true), around.nested(1, *other, None, true));
                }
                Inside::Moved(span) => {
                    let (around, span) = (around.clone(), *span);
                    let mut body = async move { around.nested(1, span, None, false).await }.boxed();
                    let begun = poll_fn(|cx| Poll::Ready(body.as_mut().poll(cx))).await;
                    if begun.is_pending() {
                        moved.push(Moved(body));
                    }
                }
                Inside::Bare => around.bare(),
                Inside::Spawned { take, is_awaited } => {
                    let (tell, told) = oneshot::channel();
                    let worker = Self { number: self.number + 10, ..self.clone() };
                    self.world.spawn(&self.client, spawned(worker, take.as_ref().clone(), tell));
                    if *is_awaited {
                        // Such a task says nothing.
                        drop(told.await);
                    }
                }
            }
        }
        moved
    }
}

/// A task that a body spawns, and that is inside of no body.
fn spawned(worker: Worker, take: Take, tell: oneshot::Sender<()>) -> BoxFuture<'static, ()> {
    async move {
        worker.take(&take).await;
        drop(tell);
    }
    .boxed()
}

impl Around {
    /// Bodies inside of each other, and what has to hold of each: it has the hold of the body around it,
    /// runs only while that is valid, and ends with it. It ends in time if it `is_polled`.
    fn nested(
        &self,
        depth: u32,
        span: u64,
        cancel: Option<Cancel>,
        is_polled: bool,
    ) -> BoxFuture<'_, ()> {
        let Self { worker, redlock, take, root, lock: outer } = self;
        let body = async move |lock: &LockHandle| {
            worker.world.log.odd(Oddity::Nested);
            worker.say(54, u64::from(depth), || "joins the body around it".to_owned());
            let current = LockHandle::current();
            let is_joined = |lock: &LockHandle| {
                claim(lock) == claim(outer) && lock.fencing_token() == outer.fencing_token()
            };
            if !is_joined(lock) || !current.as_ref().is_some_and(is_joined) {
                worker.violation("a body inside has another lock than the body around it");
            }
            let id = worker.relies(take, lock.clone(), Some(*root), true);
            let _end = OnDrop(|| {
                worker.say(55, u64::from(depth), || "leaves the body around it".to_owned());
                worker.world.ledger.end(id, false);
            });
            let mut steps = pin!(async {
                sleep(span).await;
                if depth > 1 {
                    self.nested(depth - 1, span, None, is_polled).await;
                }
            });
            poll_fn(|cx| {
                if !believes(lock) {
                    worker
                        .violation("a body inside of another runs on without their lock (rule 9)");
                }
                steps.as_mut().poll(cx)
            })
            .await;
        };
        // A body may join with some of the keys of a set.
        let mut names = take.names();
        names.truncate(if depth.is_multiple_of(2) { 1 } else { names.len() });
        // Readers join a writer.
        let as_reader = take.mode == Mode::Writer && names.len() == 1 && span.is_multiple_of(3);
        let mode = if as_reader { Mode::Reader } else { take.mode };
        let mut request = in_mode(redlock.lock_all(names).wait(ms(LONG)), mode);
        if take.fenced && !as_reader && span.is_multiple_of(2) {
            request = request.fenced();
        }
        async move {
            let limit = u64::from(depth) * (span + worker.round());
            let limit = if is_polled { limit } else { u64::MAX / 2 };
            let run = cancellable(request.run(body), cancel);
            match worker.bounded("run, inside of a body,", limit, run).await {
                None | Some(Ok(())) => {}
                Some(Err(error @ LockError::Lost { .. })) => {
                    worker.say(56, 0, || format!("inside: {error}"));
                    if believes(outer) {
                        worker.violation("a body inside was told of a loss, and the lock is valid");
                    }
                }
                Some(Err(error)) => {
                    worker.violation(format!("a body did not join the body around it: {error}"));
                }
            }
        }
        .boxed()
    }

    /// A bare request is refused at once, and by this process.
    fn bare(&self) {
        let Self { worker, redlock, take, lock, .. } = self;
        if !believes(lock) {
            return;
        }
        let plain = || redlock.lock_all(take.names()).wait(ms(LONG));
        let mut answers = vec![in_mode(plain(), take.mode).into_future().now_or_never()];
        if take.mode == Mode::Reader {
            // A writer does not join readers.
            answers.push(plain().into_future().now_or_never());
            let body = plain().for_body().now_or_never();
            if !matches!(body, Some(Err(LockError::Held { .. } | LockError::ShuttingDown { .. }))) {
                worker.violation(format!("a writer waits for readers around it: {body:?}"));
            }
        }
        for answer in answers {
            match answer {
                Some(Err(
                    LockError::Held { by_this_client: true, .. } | LockError::ShuttingDown { .. },
                )) => {}
                answer => worker.violation(format!("a request waits for itself: {answer:?}")),
            }
        }
    }
}
