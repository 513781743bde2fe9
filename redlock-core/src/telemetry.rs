//! What the crate tells through `tracing`, in one place. No event carries a token, a password or
//! a whole URL (rule 19).

use crate::error::{LockError, LostReason, NodeError};

/// A request was refused: somebody else has the lock, or there is no quorum.
pub(crate) fn refused(error: &LockError) {
    match error {
        LockError::Held { resource, attempts, .. } => {
            tracing::debug!(resource, attempts, "lock refused: {error}");
        }
        _ => tracing::warn!("lock refused: {error}"),
    }
}

/// A lock that was held is lost.
pub(crate) fn lost(resource: &str, reason: LostReason) {
    tracing::warn!(resource, ?reason, "lock lost: {reason}");
}

/// An annotated function answered with its default value, which cannot tell why.
pub(crate) fn defaulted(error: &LockError) {
    tracing::error!("an annotated function returned its default value: {error}");
}

/// A node cannot be used any more.
pub(crate) fn node_down(error: &NodeError) {
    tracing::warn!(node = %error.node, kind = ?error.kind, "node down: {}", error.reason);
}

/// A node can be used.
pub(crate) fn node_up(node: &str) {
    tracing::info!(node, "node up");
}
