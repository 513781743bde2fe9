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
    match acquired {
        Ok(_) => "acquired",
        Err(LockError::Held { .. }) => "held",
        Err(LockError::NoQuorum { .. }) => "no_quorum",
        Err(LockError::ShuttingDown { .. }) => "shutting_down",
        Err(LockError::Lost { .. }) => "lost",
        Err(
            LockError::InvalidResource { .. }
            | LockError::UnknownPool { .. }
            | LockError::Config { .. },
        ) => "misused",
    }
}
