//! Tasks that belong to a client and outlive any one caller (rules 12 and 13).

use std::{future::Future, sync::Arc, time::Duration};

use tokio::runtime::Id;

use crate::{
    clock::Moment,
    runtime::{here, runtime, spawn_on},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// How much later than expected a task may run before another runtime takes it over. A busy machine
/// delays tasks by this much now and then. The task of a node loses its connection, and what is in flight.
const LATE: Duration = Duration::from_millis(300);

/// Whether a background task runs, and where. It is started on the first runtime that needs it, and
/// again on the caller's when that runtime has ended: a client in [`pools`](crate::pools) outlives
/// the runtime of a `#[tokio::test]`.
///
/// A runtime may also be blocked, or not be driven at all. A task that tells by its [`Pulse`] when it
/// expects to run can be [taken over](Self::take_over) by another runtime.
#[derive(Debug, Default)]
pub(crate) struct Background {
    progress: Arc<Progress>,
    started: Mutex<Started>,
}

#[derive(Debug, Default)]
struct Started {
    /// How many tasks there have been.
    number: u64,
    /// The runtime of the last task.
    runtime: Option<Id>,
}

#[derive(Debug)]
struct Progress {
    /// The number of the task that runs, or zero.
    current: AtomicU64,
    /// When the task expects to run, in nanoseconds; never when it waits for others.
    awake_at: AtomicU64,
    /// The last runtime that is known to have ended.
    ended_runtime: Mutex<Option<Id>>,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            current: AtomicU64::new(0),
            awake_at: AtomicU64::new(u64::MAX),
            ended_runtime: Mutex::default(),
        }
    }
}

/// The progress that a task reports.
#[derive(Debug)]
pub(crate) struct Pulse {
    progress: Arc<Progress>,
    number: u64,
}

impl Pulse {
    /// Whether the task is still to go on: another runtime may have taken it over.
    pub(crate) fn is_current(&self) -> bool {
        self.progress.current.load(Ordering::Acquire) == self.number
    }

    /// Notes that the task will run again at `moment`, unless it is told to run earlier.
    pub(crate) fn sleeps_until(&self, moment: Moment) {
        if self.is_current() {
            self.progress.awake_at.store(moment.as_nanos(), Ordering::Release);
        }
    }
}

impl Background {
    pub(crate) fn is_running(&self) -> bool {
        self.progress.current.load(Ordering::Acquire) != 0
    }

    /// The caller's runtime, if the task is on another runtime. That runtime may be blocked, or not
    /// be driven at all.
    pub(crate) fn elsewhere(&self) -> Option<Id> {
        let here = here()?;
        self.started.lock().runtime.is_some_and(|there| there != here).then_some(here)
    }

    /// Tells the task at `now` that there is something to look at.
    pub(crate) fn expect(&self, now: Moment) {
        self.progress.awake_at.fetch_min(now.as_nanos(), Ordering::AcqRel);
    }

    /// Whether the task should have run long ago.
    fn is_late(&self, now: Moment) -> bool {
        self.is_running() && self.awake_at() + LATE < now
    }

    /// When a task on another runtime, which should have run `overdue` ago, may be taken over.
    pub(crate) fn late_at(&self, now: Moment, overdue: Duration) -> Option<Moment> {
        let awake_at = self.awake_at();
        let is_overdue =
            self.is_running() && awake_at + overdue < now && self.elsewhere().is_some();
        is_overdue.then(|| awake_at + LATE)
    }

    fn awake_at(&self) -> Moment {
        Moment::from_nanos(self.progress.awake_at.load(Ordering::Acquire))
    }

    /// Makes sure that the task runs. `task` is called only when it has to be started. Does
    /// nothing outside a runtime: there is nowhere to run then.
    ///
    /// What `ended` returns runs when the task is over, however that comes: returned, panicked, or dropped
    /// with its runtime. It does not run when the task was taken over. `ended` is called only when the task
    /// is started, too: what it keeps alive has a count, to which all threads would write with each lock.
    pub(crate) fn ensure<F, E>(&self, task: impl FnOnce(Pulse) -> F, ended: impl FnOnce() -> E)
    where
        F: Future<Output = ()> + Send + 'static,
        E: FnOnce() + Send + 'static,
    {
        if !self.is_running() {
            let _ = self.start(None, task, ended);
        }
    }

    /// Starts the task on the caller's runtime, at `now`, in place of a task on another runtime that should
    /// have run long ago. The old task ends when it finds out. Returns whether it was taken over.
    pub(crate) fn take_over<F, E>(
        &self,
        now: Moment,
        task: impl FnOnce(Pulse) -> F,
        ended: impl FnOnce() -> E,
    ) -> bool
    where
        F: Future<Output = ()> + Send + 'static,
        E: FnOnce() + Send + 'static,
    {
        // Without a lock, because most tasks are not late.
        self.is_late(now) && self.start(Some(now), task, ended)
    }

    fn start<F, E>(
        &self,
        takes_over: Option<Moment>,
        task: impl FnOnce(Pulse) -> F,
        ended: impl FnOnce() -> E,
    ) -> bool
    where
        F: Future<Output = ()> + Send + 'static,
        E: FnOnce() + Send + 'static,
    {
        let Ok(runtime) = runtime() else { return false };
        if *self.progress.ended_runtime.lock() == Some(runtime.id()) {
            return false;
        }
        let number = {
            let mut started = self.started.lock();
            let is_here = started.runtime == Some(runtime.id());
            // Another caller may have been faster.
            let takes_over = takes_over.filter(|now| !is_here && self.is_late(*now));
            if self.is_running() && takes_over.is_none() {
                return false;
            }
            started.number += 1;
            started.runtime = Some(runtime.id());
            let awake_at = takes_over.map_or(u64::MAX, Moment::as_nanos);
            self.progress.awake_at.store(awake_at, Ordering::Release);
            self.progress.current.store(started.number, Ordering::Release);
            started.number
        };
        let task = task(Pulse { progress: Arc::clone(&self.progress), number });
        let mut over = Over {
            progress: Arc::clone(&self.progress),
            number,
            unpolled_on: Some(runtime.id()),
            ended: Some(ended()),
        };
        spawn_on(&runtime, async move {
            over.unpolled_on = None;
            task.await;
            drop(over);
        });
        true
    }
}

struct Over<E: FnOnce()> {
    progress: Arc<Progress>,
    number: u64,
    /// The runtime of a task that was not polled yet.
    unpolled_on: Option<Id>,
    ended: Option<E>,
}

impl<E: FnOnce()> Drop for Over<E> {
    fn drop(&mut self) {
        if let Some(runtime) = self.unpolled_on {
            // A runtime that ends drops each task that is spawned there. Thousands of guards may be dropped with
            // the tasks of such a runtime: each would start a task anew, whose end looks at all that is held.
            *self.progress.ended_runtime.lock() = Some(runtime);
        }
        let current = &self.progress.current;
        let was_current =
            current.compare_exchange(self.number, 0, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if was_current && let Some(ended) = self.ended.take() {
            ended();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{Ready, pending, ready},
        time::Duration,
    };

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
    }

    #[test]
    fn a_task_starts_again_on_the_next_runtime() {
        let background = Background::default();
        background.ensure(|_| async { unreachable!("there is no runtime") }, || || ());
        for _ in 0..2 {
            let runtime = runtime();
            let (tell, told) = std::sync::mpsc::channel();
            runtime.block_on(async {
                background.ensure(|_| pending::<()>(), || move || tell.send(()).unwrap());
                background.ensure(|_| async { unreachable!("it runs") }, || || ());
            });
            assert!(background.is_running());
            drop(runtime);
            told.recv_timeout(Duration::from_secs(30)).unwrap();
            assert!(!background.is_running());
        }
    }

    /// Each guard that is dropped with a task of such a runtime would start one.
    #[test]
    fn a_runtime_that_has_ended_is_not_tried_twice() {
        let background = Background::default();
        let over = runtime();
        let handle = over.handle().clone();
        drop(over);
        let (tell, told) = std::sync::mpsc::channel();
        let ended = || {
            let tell = tell.clone();
            move || tell.send(()).unwrap()
        };
        {
            let _entered = handle.enter();
            background.ensure(|_| async { unreachable!("it has ended") }, ended);
            background.ensure(|_| -> Ready<()> { unreachable!("it is known") }, ended);
        }
        assert!(!background.is_running());
        runtime().block_on(async {
            background.ensure(|_| ready(()), ended);
            while background.is_running() {
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(told.try_iter().count(), 2);
    }

    #[test]
    fn a_task_that_is_late_is_taken_over_and_no_other() {
        let background = Background::default();
        let at = |ms| Moment::ORIGIN + Duration::from_millis(ms);
        let (first, second) = (runtime(), runtime());
        let (tell, told) = std::sync::mpsc::channel();
        let taken = || background.take_over(at(1000), |_| pending::<()>(), || || ());
        first.block_on(async {
            background.ensure(
                |pulse| {
                    pulse.sleeps_until(at(800));
                    tell.send(pulse).unwrap();
                    pending::<()>()
                },
                || || unreachable!("it was taken over"),
            );
        });
        let pulse = told.recv().unwrap();
        let is_taken = second.block_on(async { taken() });
        assert!(!is_taken && pulse.is_current(), "it is not late");
        background.expect(at(600));
        let is_taken = first.block_on(async { taken() });
        assert!(!is_taken && pulse.is_current(), "nor could it run any sooner here");
        let is_taken = second.block_on(async { taken() });
        assert!(is_taken && !pulse.is_current() && background.is_running());
        // The progress and the end of this task no longer count.
        pulse.sleeps_until(Moment::NEVER);
        assert!(background.is_late(at(2000)));
        let late_at = || background.late_at(at(2000), Duration::from_millis(50));
        assert_eq!(second.block_on(async { late_at() }), None, "it is here");
        assert_eq!(first.block_on(async { late_at() }), Some(at(1300)));
        background.expect(at(1960));
        let late_at = |now| background.late_at(at(now), Duration::from_millis(1020));
        assert_eq!(first.block_on(async { late_at(2010) }), None, "it may run at any moment");
        drop(first);
        assert!(background.is_running());
    }
}
