//! The requests of this process that have no lock yet.

use std::time::Duration;

/// The requests of this process for one lock; see [`Redlock::waiting`](crate::Redlock::waiting).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    resource: String,
    requests: usize,
    longest: Duration,
}

impl Waiting {
    pub(crate) fn new(resource: &str, requests: usize, longest: Duration) -> Self {
        Self { resource: resource.to_owned(), requests, longest }
    }

    /// The resource that they wait for.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// How many requests there are, at least one.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// How long the first of them has waited for its turn.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.longest
    }
}
