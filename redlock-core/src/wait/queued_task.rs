//! A task that waits in a queue of this process, and how it is told.

use std::{
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use super::wants::{NoTurn, Wants};
use crate::{
    clock::Moment,
    sync::{
        AtomicWaker, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// A task that waits for a turn `T`, which is given under the lock of the queues.
pub(super) struct QueuedTask<T> {
    pub(super) wants: Wants,
    /// When the request joined the queue.
    pub(super) since: Moment,
    turn: Mutex<Option<Result<T, NoTurn>>>,
    task: AtomicWaker,
}

impl<T> fmt::Debug for QueuedTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuedTask").field("wants", &self.wants).finish_non_exhaustive()
    }
}

impl<T> QueuedTask<T> {
    pub(super) fn new(wants: Wants, since: Moment) -> Arc<Self> {
        Arc::new(Self { wants, since, turn: Mutex::default(), task: AtomicWaker::new() })
    }

    /// Gives the turn. The caller wakes the task once nothing is locked.
    #[must_use]
    pub(super) fn give(&self, turn: Result<T, NoTurn>) -> Option<Waker> {
        *self.turn.lock() = Some(turn);
        self.waker()
    }

    /// Takes the outcome, if there is one.
    pub(super) fn take(&self) -> Option<Result<T, NoTurn>> {
        self.turn.lock().take()
    }

    /// Keeps the task that is to be woken when the outcome is there.
    pub(super) fn register(&self, cx: &Context<'_>) {
        self.task.register(cx.waker());
    }

    /// Wakes the waiter to check for itself.
    pub(super) fn waker(&self) -> Option<Waker> {
        self.task.take()
    }
}

/// Tells a front that a request behind it would have asked by now.
#[derive(Debug, Default)]
pub(super) struct Hurry {
    told: AtomicBool,
    front: AtomicWaker,
}

impl Hurry {
    /// The caller wakes the front once nothing is locked.
    #[must_use]
    pub(super) fn tell(&self) -> Option<Waker> {
        self.told.store(true, Ordering::Release);
        self.front.take()
    }

    pub(super) async fn told(&self) {
        poll_fn(|cx| {
            self.front.register(cx.waker());
            if self.told.swap(false, Ordering::AcqRel) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
