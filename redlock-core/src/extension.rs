//! The parts of this crate that redlock-tower needs beyond the public interface.

use crate::{LockError, LockHandle, LockOptions};

/// A key that was refused before it was asked for. `resource` must be fit to be printed.
#[doc(hidden)]
#[must_use]
pub fn invalid_resource(resource: impl Into<String>, problem: impl Into<String>) -> LockError {
    LockError::InvalidResource { resource: resource.into(), problem: problem.into() }
}

/// A mistake in the program that no request can avoid. `problem` names the fix.
#[doc(hidden)]
#[must_use]
pub fn config_error(problem: impl Into<String>) -> LockError {
    LockError::config(problem)
}

/// In the extensions of a request that a layer has let through without a lock. It remembers the
/// lock that was around the layer: that lock is not the handler's. A lock that is taken further
/// inside is.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct NoLock {
    around: Option<LockHandle>,
}

impl NoLock {
    /// A request that passes without a lock, under the lock of this task, if there is one.
    #[must_use]
    pub fn here() -> Self {
        Self { around: LockHandle::current() }
    }

    /// The lock around the layer.
    #[must_use]
    pub fn around(&self) -> Option<&LockHandle> {
        self.around.as_ref()
    }
}

/// These options, changed by what `later` sets: what `LockRequest::options` does to a request.
#[doc(hidden)]
pub fn merge_options(options: LockOptions, later: LockOptions) -> LockOptions {
    options.merge(later)
}
