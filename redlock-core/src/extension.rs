//! The parts of this crate that redlock-tower needs beyond the public interface.

use crate::{LockError, LockOptions, body::Depth, resources::invalid};

/// A key that was refused before it was asked for.
#[doc(hidden)]
#[must_use]
pub fn invalid_resource(resource: impl Into<String>, problem: impl Into<String>) -> LockError {
    invalid(&resource.into(), problem.into())
}

/// A mistake in the program that no request can avoid. `problem` names the fix.
#[doc(hidden)]
#[must_use]
pub fn config_error(problem: impl Into<String>) -> LockError {
    LockError::config(problem)
}

/// In the extensions of a request that a layer has let through without a lock. It remembers where the layer is:
/// a lock that is around it is not the handler's. One that is taken or joined further inside is.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct NoLock {
    layer: Depth,
}

impl NoLock {
    /// A request that passes without a lock, in the task that polls it.
    #[must_use]
    pub fn here() -> Self {
        Self { layer: Depth::here() }
    }

    /// Whether there is no lock but those around the layer.
    #[must_use]
    pub fn hides_current(&self) -> bool {
        !Depth::here().is_inside(self.layer)
    }
}

/// These options, changed by what `later` sets: what `LockRequest::options` does to a request.
#[doc(hidden)]
pub fn merge_options(options: LockOptions, later: LockOptions) -> LockOptions {
    options.merge(later)
}
