//! The answer of a function whose lock was refused or lost.

use crate::error::LockError;

/// Makes the return value `R` of a function whose lock was refused or lost.
///
/// What `R` and the user's function must be able to do for it is asked once, by the constructor:
/// the attribute calls that with the return type in its hands, and rustc shows the place. This
/// type has no bounds, or rustc would tell the same again for `run`.
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
