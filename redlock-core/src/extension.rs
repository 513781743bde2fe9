//! What redlock-tower needs of this crate beyond its public interface.

use crate::{LockError, LockOptions};

/// A key that was refused before it was asked for. `resource` must be fit to be printed.
#[doc(hidden)]
#[must_use]
pub fn invalid_resource(resource: impl Into<String>, problem: impl Into<String>) -> LockError {
    LockError::InvalidResource { resource: resource.into(), problem: problem.into() }
}

/// A mistake in the program that no request can make good. `problem` names the fix.
#[doc(hidden)]
#[must_use]
pub fn config_error(problem: impl Into<String>) -> LockError {
    LockError::config(problem)
}

/// In the extensions of a request that a layer has let through without a lock: whatever lock is
/// around it is not the handler's.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct NoLock;

/// These options, changed by what `later` sets: what `LockRequest::options` does to a request.
#[doc(hidden)]
pub fn merge_options(options: LockOptions, later: LockOptions) -> LockOptions {
    options.merge(later)
}
