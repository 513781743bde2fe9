//! The settings of a layer.

use std::sync::Arc;

use redlock_core::{LockOptions, Redlock};

/// The settings that the layer, its services and their futures share.
pub(crate) struct Settings<X, P> {
    pub(crate) redlock: Redlock,
    pub(crate) options: LockOptions,
    pub(crate) extract: Arc<X>,
    pub(crate) protocol: P,
}

impl<X, P> Settings<X, P> {
    pub(crate) fn new(redlock: Redlock, extract: X, protocol: P) -> Self {
        Self { redlock, options: LockOptions::new(), extract: Arc::new(extract), protocol }
    }
}

// Not derived: that would require `Clone` of the extractor.
impl<X, P: Clone> Clone for Settings<X, P> {
    fn clone(&self) -> Self {
        Self {
            redlock: self.redlock.clone(),
            options: self.options.clone(),
            extract: Arc::clone(&self.extract),
            protocol: self.protocol.clone(),
        }
    }
}
