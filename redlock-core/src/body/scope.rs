//! The locks whose bodies this task is inside of, from the outermost to the innermost.
//!
//! A body is in the list only while it is polled, or dropped because it has ended or its lock was lost. So the
//! list follows a body through all of its awaits and from thread to thread, and neither a spawned task nor a
//! sibling of the body sees it.

use std::{cell::RefCell, sync::Arc};

use tokio::task;

use crate::{
    client::Client,
    guard::{LockGuard, LockHandle},
    lease::{Hold, Leases},
};

thread_local! {
    static SCOPES: RefCell<Vec<Scope>> = const { RefCell::new(Vec::new()) };
}

struct Scope {
    guard: Arc<LockGuard>,
    /// The task that polls the body. A `LocalSet` that is polled inside of a body polls other tasks on
    /// the same thread.
    task: Option<task::Id>,
}

/// Ends the innermost scope, also when the body panics.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        let ended = SCOPES.try_with(|scopes| scopes.borrow_mut().pop());
        // With the list unlocked: the last guard of a hold releases it.
        drop(ended);
    }
}

/// Runs what belongs to the body under this guard.
pub(super) fn within<R>(guard: &Arc<LockGuard>, part: impl FnOnce() -> R) -> R {
    let scope = Scope { guard: Arc::clone(guard), task: task::try_id() };
    let entered = SCOPES.try_with(|scopes| scopes.borrow_mut().push(scope));
    let _leave = entered.is_ok().then_some(Leave);
    part()
}

/// The innermost guard of this task's bodies that `is_wanted`.
fn find(is_wanted: impl Fn(&LockGuard) -> bool) -> Option<Arc<LockGuard>> {
    let task = task::try_id();
    let find = |scopes: &RefCell<Vec<Scope>>| {
        let scopes = scopes.borrow();
        let mut own = scopes.iter().rev().filter(|scope| scope.task == task);
        own.find(|scope| is_wanted(&scope.guard)).map(|scope| Arc::clone(&scope.guard))
    };
    SCOPES.try_with(find).ok().flatten()
}

/// A place among the bodies of a task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Depth {
    bodies: usize,
    task: Option<task::Id>,
}

impl Depth {
    pub(crate) fn here() -> Self {
        let task = task::try_id();
        let count = |scopes: &RefCell<Vec<Scope>>| {
            scopes.borrow().iter().filter(|scope| scope.task == task).count()
        };
        Self { bodies: SCOPES.try_with(count).unwrap_or(0), task }
    }

    /// Whether this is inside of a body that began at that place or further inside. A task is inside of none
    /// of the bodies of another one.
    pub(crate) fn is_inside(self, outer: Self) -> bool {
        self.bodies > if self.task == outer.task { outer.bodies } else { 0 }
    }
}

impl LockHandle {
    /// Returns the innermost lock of the body that this task is inside of: in `run`, annotated functions and
    /// layered handlers. A spawned task is inside none of them.
    #[must_use]
    pub fn current() -> Option<Self> {
        find(|_| true).map(|guard| guard.handle())
    }
}

/// The innermost hold of this client that `is_wanted` and whose body this is inside of, however far
/// inside.
pub(super) fn own_hold(
    client: &Client,
    is_wanted: impl Fn(&Arc<Hold>) -> bool,
) -> Option<Arc<LockGuard>> {
    let is_of = |leases: &Arc<Leases>| Arc::ptr_eq(leases, &client.leases);
    find(|guard| is_of(&guard.client().leases) && is_wanted(guard.hold()))
}
