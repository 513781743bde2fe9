//! What it is to have a place in a line, and a turn: values that, dropped, pass on what they stand
//! for.

use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

use super::line::{First, Line, Refusal, Wants};
use crate::{
    bug::{Bug, planted},
    client::{Arriving, Client},
    lease::{Hold, Lease},
    op::{acquire::Failure, release},
};

/// What a place in the line comes to.
pub(crate) enum Turn {
    Head(Head),
    Refused(Refusal),
    Closed,
}

/// One who waits. His turn is given under the lock of the lines.
pub(super) struct Waiter {
    pub(super) wants: Wants,
    turn: Mutex<Option<Turn>>,
    task: AtomicWaker,
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiter").field("wants", &self.wants).finish_non_exhaustive()
    }
}

impl Waiter {
    pub(super) fn new(wants: Wants) -> Arc<Self> {
        Arc::new(Self { wants, turn: Mutex::default(), task: AtomicWaker::new() })
    }

    pub(super) fn give(&self, turn: Turn) {
        *self.turn.lock() = Some(turn);
        self.task.wake();
    }

    /// Has him look after himself.
    pub(super) fn nudge(&self) {
        self.task.wake();
    }
}

/// A place in the line. Dropped, it is given up, and a turn that had come is passed on.
pub(crate) struct Place {
    client: Arc<Client>,
    key: Arc<str>,
    waiter: Arc<Waiter>,
    /// Its turn has come and was taken: there is nothing to give up.
    served: bool,
}

impl Place {
    pub(super) fn new(client: &Arc<Client>, key: &Arc<str>, waiter: Arc<Waiter>) -> Self {
        Self { client: Arc::clone(client), key: Arc::clone(key), waiter, served: false }
    }

    /// Waits for its turn, at most for `limit`.
    pub(crate) async fn turn(mut self, limit: Duration) -> Turn {
        let turn = poll_fn(|cx| {
            self.waiter.task.register(cx.waker());
            // A runtime that ended took the client's tasks with it; whoever waits starts them
            // again (rule 13).
            self.client.ensure_running();
            match self.waiter.turn.lock().take() {
                Some(turn) => Poll::Ready(turn),
                None => Poll::Pending,
            }
        });
        match tokio::time::timeout(limit, turn).await {
            Ok(turn) => {
                self.served = true;
                turn
            }
            Err(_) => {
                let refusal = self.leave();
                // It may have come at the last moment.
                self.waiter.turn.lock().take().unwrap_or(Turn::Refused(refusal))
            }
        }
    }

    fn leave(&self) -> Refusal {
        self.client.lines.leave(&self.key, &self.waiter)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.served {
            return;
        }
        self.leave();
        let turn = self.waiter.turn.lock().take();
        if planted(Bug::HandOverToGone) {
            std::mem::forget(turn);
            return;
        }
        // Outside of the lock, which a turn that is given back takes again.
        drop(turn);
    }
}

/// The turn to ask the nodes, or to take over what a hold before has had. Dropped, it is the next
/// one's, and a lease is released.
pub(crate) struct Head {
    client: Arc<Client>,
    key: Arc<str>,
    given: Given,
    /// The lock is there: the turn is over by itself.
    over: bool,
    /// It stood back before it asked.
    stood_back: bool,
}

/// Why a head asks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// A bell rang.
    Rung,
    /// Its own time has come.
    Due,
    /// Somebody behind it would have asked by now.
    Hurried,
}

/// What a turn comes with.
#[derive(Default)]
pub(super) struct Given {
    /// What a hold before has had. On its way it counts as arriving: a shutdown waits for it.
    pub(super) lease: Option<(Lease, Arriving)>,
    /// To stand back for so long before asking.
    pub(super) pause: Option<Duration>,
    /// What came of the attempt that the one before made last: there is no need to ask again.
    pub(super) known: Option<Arc<Failure>>,
}

impl Head {
    pub(super) fn new(client: &Arc<Client>, key: &Arc<str>, given: Given) -> Self {
        Self {
            client: Arc::clone(client),
            key: Arc::clone(key),
            given,
            over: false,
            stood_back: false,
        }
    }

    /// What a hold before has had, if it is still as good as it was.
    pub(crate) fn take_lease(&mut self, wants: Wants) -> Option<(Lease, Arriving)> {
        let now = self.client.clock.now();
        if self.given.lease.as_ref().is_some_and(|(lease, _)| wants.fits(lease, now)) {
            return self.given.lease.take();
        }
        self.release();
        None
    }

    fn release(&mut self) {
        if let Some((lease, _)) = self.given.lease.take() {
            release::give_back(&self.client, &lease);
        }
    }

    pub(crate) fn pause(&self) -> Option<Duration> {
        self.given.pause
    }

    /// It has stood back for as long as it had to.
    pub(crate) fn stood_back(&mut self) {
        self.stood_back = true;
    }

    /// Waits for a bell, for `pace` and `jitter` at most, and for no longer than those behind it
    /// would.
    pub(crate) async fn listen(
        &self,
        rung: impl Future<Output = ()>,
        pace: Duration,
        jitter: Duration,
    ) -> Wake {
        let due = tokio::time::sleep(pace.saturating_add(jitter));
        tokio::pin!(rung, due);
        let hurry = self.with_line(|line| Arc::clone(&line.hurry)).unwrap_or_default();
        loop {
            let hurried = self.with_line(|line| line.hurried(pace, jitter)).flatten();
            let left = hurried.map(|at| at.since(self.client.clock.now()));
            tokio::select! {
                biased;
                () = &mut rung => return Wake::Rung,
                () = &mut due => return Wake::Due,
                () = tokio::time::sleep(left.unwrap_or_default()), if left.is_some() => {
                    return Wake::Hurried;
                }
                () = hurry.notified() => {}
            }
        }
    }

    pub(crate) fn known(&mut self) -> Option<Arc<Failure>> {
        self.given.known.take()
    }

    /// For how long the lock has not been here.
    pub(crate) fn without(&self) -> Duration {
        let now = self.client.clock.now();
        self.with_line(|line| now.since(line.without)).unwrap_or_default()
    }

    fn with_line<T>(&self, change: impl FnOnce(&mut Line) -> T) -> Option<T> {
        self.client.lines.with_line(&self.key, change)
    }

    /// An attempt has failed: its own, or one that it has been told of and that is as old as it
    /// was.
    pub(crate) fn failed(&mut self, failure: &Arc<Failure>) {
        self.stood_back = false;
        let now = self.client.clock.now();
        self.with_line(|line| {
            line.streak.has_company();
            if line.last.as_ref().is_some_and(|(last, _)| Arc::ptr_eq(last, failure)) {
                return;
            }
            line.last = Some((Arc::clone(failure), now));
            line.tell_once();
        });
    }

    /// This hold has the lock: it has the first place until it ends, unless it has ended already,
    /// which then told a line that did not know it.
    pub(crate) fn acquired(mut self, hold: &Arc<Hold>) {
        let now = self.client.clock.now();
        let has_place = self.with_line(|line| {
            if self.stood_back {
                line.streak.was_alone();
            }
            line.streak.has_lock(now);
            line.last = None;
            if hold.is_over() {
                return false;
            }
            line.first = First::Hold(hold.id, Arc::downgrade(hold));
            line.tell_once();
            true
        });
        self.over = has_place == Some(true);
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        self.release();
        if !self.over {
            let now = self.client.clock.now();
            self.client.lines.promote(&self.client, &self.key, now);
        }
    }
}
