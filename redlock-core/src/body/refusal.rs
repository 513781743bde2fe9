//! The answer of a function whose lock was refused or lost.

use crate::error::LockError;

/// Makes the return value `R` of a function whose lock was refused or lost.
///
/// The functions that make one, in `annotation.rs`, have the bounds on `R` and on the user's function. The
/// attribute calls them with the return type, so rustc reports a missing bound once, at the user's code. Bounds
/// here would repeat the error for `run`.
#[derive(Debug)]
pub struct Refusal<S, R> {
    state: S,
    answer: fn(S, LockError) -> R,
}

impl<S, R> Refusal<S, R> {
    pub(crate) fn new(state: S, answer: fn(S, LockError) -> R) -> Self {
        Self { state, answer }
    }

    pub(crate) fn answer(self, error: LockError) -> R {
        (self.answer)(self.state, error)
    }
}
