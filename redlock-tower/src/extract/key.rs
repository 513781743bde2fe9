//! The settings of every key that is read from a request.

use std::fmt;

use redlock_core::{__private as core, LockError};

/// The prefix of the keys of one extractor.
#[derive(Clone, Default)]
pub(super) struct Prefix(String);

impl Prefix {
    pub(super) fn new(prefix: impl Into<String>) -> Self {
        Self(prefix.into())
    }

    /// The key with the prefix in front. redlock-core checks the length of the whole.
    pub(super) fn key(&self, found: &str) -> Result<String, LockError> {
        if found.is_empty() {
            // Before the prefix is added: otherwise all requests with an empty key would share a
            // lock.
            return Err(self.unusable("it is empty"));
        }
        Ok([&self.0, found].concat())
    }

    /// The refusal of a request. The client is shown `problem`.
    pub(super) fn unusable(&self, problem: impl Into<String>) -> LockError {
        core::invalid_resource(self.0.as_str(), problem)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
