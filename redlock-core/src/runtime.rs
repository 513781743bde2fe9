//! The caller's runtime: whether its timers work, and how to run tasks on it.

use std::{cell::Cell, future::Future, panic::catch_unwind, time::Duration};

use tokio::runtime::Id;

use crate::{error::LockError, seam::adopted, sync::Handle};

thread_local! {
    /// The runtime that was checked last, and what is wrong with it.
    static LOOKED_AT: Cell<Option<(Id, Option<Unusable>)>> = const { Cell::new(None) };
}

/// Why no future of this crate can wait on the caller's runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// There is none.
    Missing,
    /// It was built without timers.
    NoTimers,
    /// It was shut down, and its handle is used to poll on.
    ShutDown,
}

/// The caller's runtime, if time passes on it.
pub(crate) fn runtime() -> Result<Handle, Unusable> {
    let runtime = Handle::try_current().map_err(|_| Unusable::Missing)?;
    let id = runtime.id();
    let problem = match LOOKED_AT.get() {
        Some((there, problem)) if there == id => problem,
        _ => {
            // Tokio has no other way to ask. Its panic message is reported, which says what to do.
            let has_timers = catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok();
            let problem = (!has_timers).then_some(Unusable::NoTimers);
            LOOKED_AT.set(Some((id, problem)));
            problem
        }
    };
    problem.map_or(Ok(runtime), Err)
}

/// Whether the caller can wait for time to pass.
pub(crate) fn in_runtime() -> bool {
    runtime().is_ok()
}

/// Why the caller cannot wait for time to pass.
pub(crate) fn unusable() -> Option<Unusable> {
    runtime().err()
}

/// Notes that timers of the caller's runtime do not work any more.
pub(crate) fn note_shut_down() {
    if let Ok(runtime) = Handle::try_current() {
        LOOKED_AT.set(Some((runtime.id(), Some(Unusable::ShutDown))));
    }
}

/// The caller's runtime.
pub(crate) fn here() -> Option<Id> {
    runtime().ok().map(|runtime| runtime.id())
}

/// Checks that the caller is in a runtime with timers. A future that waits for nodes cannot do so
/// elsewhere, and must not panic there (rule 18).
pub(crate) fn check_runtime() -> Result<(), LockError> {
    Err(LockError::config(match unusable() {
        None => return Ok(()),
        Some(Unusable::Missing | Unusable::NoTimers) => {
            "a lock must be awaited inside a tokio runtime with timers: use #[tokio::main] or \
             Runtime::block_on, and enable_all() where the runtime is built"
        }
        Some(Unusable::ShutDown) => {
            "the tokio runtime in which the lock is awaited was shut down: await it before that, or \
             on another runtime"
        }
    }))
}

/// Runs a task on the caller's runtime, if there is one.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = runtime() {
        spawn_on(&runtime, task);
    }
}

/// Runs a task on this runtime.
pub(crate) fn spawn_on(runtime: &Handle, task: impl Future<Output = ()> + Send + 'static) {
    runtime.spawn(adopted(task));
}
