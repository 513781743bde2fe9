//! Tasks that belong to a client and outlive any one caller (rules 12 and 13).

use std::{
    cell::Cell,
    future::Future,
    panic::catch_unwind,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};

thread_local! {
    /// The runtime that was looked at last, and whether it has timers.
    static LOOKED_AT: Cell<Option<(Id, bool)>> = const { Cell::new(None) };
}

/// The caller's runtime, if it was built with timers: where one can wait for time to pass.
fn runtime() -> Option<Handle> {
    let runtime = Handle::try_current().ok()?;
    let id = runtime.id();
    let has_timers = match LOOKED_AT.get() {
        Some((there, has_timers)) if there == id => has_timers,
        _ => {
            // Tokio has no other way to ask. The panic is reported, which is as well: it says what
            // to do.
            let has_timers = catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok();
            LOOKED_AT.set(Some((id, has_timers)));
            has_timers
        }
    };
    has_timers.then_some(runtime)
}

/// Whether the caller can wait for time to pass.
pub(crate) fn in_runtime() -> bool {
    runtime().is_some()
}

/// Whether a background task runs. It is started on the runtime of whoever needs it first, and
/// again on the caller's when that runtime has ended: a client in [`pools`](crate::pools)
/// outlives the runtime of a `#[tokio::test]`.
#[derive(Debug, Default)]
pub(crate) struct Background {
    running: Arc<AtomicBool>,
    /// Where it was started last.
    runtime: Mutex<Option<Id>>,
}

impl Background {
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }

    /// The caller's runtime, if it is another one than that of the task: that one may be blocked, or
    /// not be driven at all.
    pub(crate) fn elsewhere(&self) -> Option<Id> {
        let here = runtime()?.id();
        self.runtime.lock().is_some_and(|there| there != here).then_some(here)
    }

    /// Makes sure that the task runs. `task` is called only when it has to be started. Does
    /// nothing outside a runtime: there is nowhere to run then.
    ///
    /// `ended` runs when the task is over, however that comes: returned, panicked, or dropped
    /// with its runtime.
    pub(crate) fn ensure<F>(&self, task: impl FnOnce() -> F, ended: impl FnOnce() + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if self.is_running() {
            return;
        }
        let Some(runtime) = runtime() else { return };
        {
            let mut there = self.runtime.lock();
            if self.running.swap(true, Ordering::AcqRel) {
                return;
            }
            *there = Some(runtime.id());
        }
        let over = Over { running: Arc::clone(&self.running), ended: Some(ended) };
        let task = task();
        #[cfg(redlock_sim)]
        let task = crate::simulation::inherited(task);
        runtime.spawn(async move {
            let _over = over;
            task.await;
        });
    }
}

struct Over<E: FnOnce()> {
    running: Arc<AtomicBool>,
    ended: Option<E>,
}

impl<E: FnOnce()> Drop for Over<E> {
    fn drop(&mut self) {
        self.running.store(false, Ordering::Release);
        if let Some(ended) = self.ended.take() {
            ended();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, time::Duration};

    use super::*;

    #[test]
    fn a_task_starts_again_on_the_next_runtime() {
        let background = Background::default();
        background.ensure(|| async { unreachable!("there is no runtime") }, || ());
        for _ in 0..2 {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let (tell, told) = std::sync::mpsc::channel();
            runtime.block_on(async {
                background.ensure(pending::<()>, move || tell.send(()).unwrap());
                background.ensure(|| async { unreachable!("it runs") }, || ());
            });
            assert!(background.is_running());
            drop(runtime);
            told.recv_timeout(Duration::from_secs(30)).unwrap();
            assert!(!background.is_running());
        }
    }
}
