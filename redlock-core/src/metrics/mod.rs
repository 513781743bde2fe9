//! All counters, gauges and histograms of the crate (feature `metrics`, over the facade crate of
//! that name). Without the feature, every function here is empty and every type has no size.
//!
//! Labels are bounded: the `label` of a request, the name of a node, and the words of this crate.
//! A resource is never a label.

#[cfg(not(feature = "metrics"))]
mod off;
#[cfg(feature = "metrics")]
mod on;

#[cfg(not(feature = "metrics"))]
pub(crate) use off::*;
#[cfg(feature = "metrics")]
pub(crate) use on::*;

use crate::error::LockError;

/// How a request for a lock ended, as the value of a label.
pub(crate) fn outcome<T>(acquired: &Result<T, LockError>) -> &'static str {
    acquired.as_ref().map_or_else(outcome_of, |_| "acquired")
}

/// The outcome of a request that ended with this error, as the value of a label.
pub(crate) fn outcome_of(error: &LockError) -> &'static str {
    match error {
        LockError::Held { .. } => "held",
        LockError::NoQuorum { .. } => "no_quorum",
        LockError::ShuttingDown { .. } => "shutting_down",
        LockError::Lost { .. } => "lost",
        LockError::InvalidResource { .. }
        | LockError::UnknownPool { .. }
        | LockError::Config { .. } => "misused",
    }
}
