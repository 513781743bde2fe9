//! Mistakes in the program, told to the operator: once each, whatever answers the client.

use std::cell::Cell;

use redlock_core::LockError;

thread_local! {
    /// Whether the mistake that is being answered on this thread is told already.
    static TOLD: Cell<bool> = const { Cell::new(false) };
}

/// Reports a mistake in the program to the operator. The client learns nothing of it.
pub(crate) fn report_mistake(error: &LockError) {
    if is_mistake(error) && !TOLD.get() {
        tracing::error!(%error, "a request was refused: its lock cannot work as it is set up");
    }
}

/// Reports it, then answers the client. An `answer` of the user's may fall back to one of this crate, which
/// would report it again.
pub(crate) fn reported<A>(error: LockError, answer: impl FnOnce(LockError) -> A) -> A {
    report_mistake(&error);
    let _told = is_mistake(&error).then(Told::begin);
    answer(error)
}

fn is_mistake(error: &LockError) -> bool {
    matches!(error, LockError::Config { .. } | LockError::UnknownPool { .. })
}

/// Ends when the answer is there, or panics.
struct Told {
    before: bool,
}

impl Told {
    fn begin() -> Self {
        Self { before: TOLD.replace(true) }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        TOLD.set(self.before);
    }
}
