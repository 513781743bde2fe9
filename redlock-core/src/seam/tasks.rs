//! In a simulation, each task belongs to the simulated process that spawns it.

use std::{future::Future, sync::OnceLock};

use futures_util::{FutureExt, future::BoxFuture};

/// A task of the crate.
pub type Task = BoxFuture<'static, ()>;

static ADOPT: OnceLock<fn(Task) -> Task> = OnceLock::new();

/// Passes every task that is spawned from now on through `adopt`. The first call counts.
pub fn adopt_by(adopt: fn(Task) -> Task) {
    let _ = ADOPT.set(adopt);
}

/// The future that is spawned in place of `task`.
pub(crate) fn adopted(task: impl Future<Output = ()> + Send + 'static) -> Task {
    let task = task.boxed();
    match ADOPT.get() {
        Some(adopt) => adopt(task),
        None => task,
    }
}
