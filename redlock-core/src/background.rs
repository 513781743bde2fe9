//! Tasks that belong to a client and outlive any one caller (rules 12 and 13).

use std::{
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

/// Whether the caller can wait for time to pass: in a runtime, and one that was built with timers.
pub(crate) fn in_runtime() -> bool {
    // Tokio has no other way to ask. The panic is reported, which is as well: it says what to do.
    let timer = || drop(tokio::time::sleep(Duration::ZERO));
    Handle::try_current().is_ok() && catch_unwind(timer).is_ok()
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

    /// Whether it runs on another runtime than that of the caller, who has one: that one may be
    /// blocked, or not be driven at all.
    pub(crate) fn is_elsewhere(&self) -> bool {
        let here = Handle::try_current().map(|runtime| runtime.id());
        here.is_ok_and(|here| self.runtime.lock().is_some_and(|there| there != here))
            && in_runtime()
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
        let Ok(runtime) = Handle::try_current() else { return };
        if !in_runtime() {
            return;
        }
        if self.running.swap(true, Ordering::AcqRel) {
            return;
        }
        *self.runtime.lock() = Some(runtime.id());
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
