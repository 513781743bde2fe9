//! All spans and events of the crate, through `tracing`. No event carries a token, a password or a
//! whole URL (rule 19).

use std::time::Duration;

use tracing::Span;

use crate::{
    error::{LockError, LostReason, NodeError},
    fence::FencingToken,
};

/// The span of a request for a lock, from the call to its answer.
pub(crate) fn acquiring(resource: &str, label: &'static str) -> Span {
    tracing::debug_span!("redlock.acquire", resource, label = named(label))
}

/// The span of a body that runs under a lock: `run`, annotated functions, layered handlers.
pub(crate) fn body(resource: &str, label: &'static str) -> Span {
    tracing::info_span!("redlock.body", resource, label = named(label))
}

/// A field that is absent when there is no such name: a request without a label.
fn named(name: &str) -> Option<&str> {
    (!name.is_empty()).then_some(name)
}

/// The nodes have answered an attempt, inside the span of its request.
pub(crate) fn attempted(
    attempt: u32,
    granted: usize,
    refused: usize,
    failed: impl FnOnce() -> Vec<NodeError>,
) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let failed = failed();
    tracing::debug!(attempt, granted, refused, failed = failed.len(), "attempt answered");
    for error in failed {
        tracing::debug!(attempt, node = %error.node, kind = ?error.kind, "no vote: {}", error.reason);
    }
}

/// Reports that a waiting request asks again, inside its span.
pub(crate) fn woken(cause: &'static str, waited: Duration) {
    tracing::debug!(cause, ?waited, "asking again");
}

/// Reports that a request got its lock.
pub(crate) fn acquired(resource: &str) {
    tracing::debug!(resource, "lock acquired");
}

/// Reports that a holder has released its lock, or passed it on, `held` after it was asked for.
pub(crate) fn released(resource: &str, held: Duration) {
    tracing::debug!(resource, ?held, "lock released");
}

/// Reports that a request was refused: the lock is held, or there is no quorum.
pub(crate) fn refused(error: &LockError) {
    match error {
        LockError::Held { resource, attempts, .. } => {
            tracing::debug!(resource, attempts, "lock refused: {error}");
        }
        LockError::NoQuorum { resource, .. }
        | LockError::Lost { resource, .. }
        | LockError::InvalidResource { resource, .. }
        | LockError::ShuttingDown { resource } => {
            tracing::warn!(resource = named(resource), "lock refused: {error}");
        }
        LockError::UnknownPool { .. } | LockError::Config { .. } => {
            tracing::warn!("lock refused: {error}");
        }
    }
}

/// The same for a request whose error may not know its resource: a setting or a pool is wrong.
pub(crate) fn refused_for(resource: &str, label: &'static str, error: &LockError) {
    if let LockError::UnknownPool { .. } | LockError::Config { .. } = error {
        tracing::warn!(resource = named(resource), label = named(label), "lock refused: {error}");
    } else {
        refused(error);
    }
}

/// Reports that a lease was not adopted. To the adopter, an adoption that came second looks like keys that are gone.
pub(crate) fn not_adopted(resource: &str, error: &LockError) {
    let resource = named(resource);
    match error {
        LockError::Lost { reason: LostReason::Refused, .. } => tracing::warn!(
            resource,
            "lease not adopted: it was adopted before, or too many nodes no longer have its lock"
        ),
        LockError::Lost { reason: LostReason::Expired, .. } => {
            tracing::warn!(resource, "lease not adopted: it has expired");
        }
        _ => tracing::warn!(resource, "lease not adopted: {error}"),
    }
}

/// Reports that a lock that was held is lost.
pub(crate) fn lost(resource: &str, reason: LostReason) {
    tracing::warn!(resource, ?reason, "lock lost: {reason}");
}

/// Reports why an annotated function has returned its default value. The value cannot tell.
pub(crate) fn defaulted(error: &LockError) {
    tracing::error!("an annotated function returned its default value: {error}");
}

/// Reports that a node cannot be used any more.
pub(crate) fn node_down(error: &NodeError) {
    tracing::warn!(node = %error.node, kind = ?error.kind, "node down: {}", error.reason);
}

/// Reports that a node has closed a connection that nothing waited for, as servers do with idle
/// clients.
pub(crate) fn closed_at_rest(error: &NodeError) {
    tracing::debug!(node = %error.node, "connection closed at rest: {}", error.reason);
}

/// Reports that such a connection was replaced at once.
pub(crate) fn connected_again(node: &str) {
    tracing::debug!(%node, "connected again");
}

/// Reports that a node can be used.
pub(crate) fn node_up(node: &str) {
    tracing::info!(%node, "node up");
}

/// Reports that a node may have forgotten locks, and gives no votes for new locks (rule 16).
pub(crate) fn node_sits_out(node: &str, why: &str, span: Duration) {
    tracing::warn!(
        %node,
        "node sits out: {why} and may have forgotten locks, so it gives no votes for {span:?}; a \
         node that persists every write may vote at once with Restarts::Trusted"
    );
}

/// Slots of a cluster may have forgotten locks and give no votes for new locks (rule 16).
#[cfg(feature = "cluster")]
pub(crate) fn slots_sit_out(node: &str, slots: usize, span: Duration) {
    tracing::warn!(
        %node,
        slots,
        "slots sit out: the masters of {slots} slots of the cluster were replaced, restarted or replicas for a \
         while and may have forgotten locks, so they give no votes for up to {span:?}; where a failover loses no write, \
         they may vote at once with Restarts::Trusted"
    );
}

/// Reports that a password is sent over a network without TLS.
pub(crate) fn unencrypted(node: &str) {
    tracing::warn!(%node, "the password goes over the network unencrypted; use rediss://");
}

/// Reports what an operator should change about a server that is used all the same.
pub(crate) fn node_needs(node: &str, advice: &str) {
    tracing::warn!(%node, "node needs attention: {advice}");
}

/// Reports that a key on a node has another remaining time than expected: the key was deleted, or
/// the node's clock was set (fault 18).
pub(crate) fn odd_expiry(node: &str, key: &str, anomaly: &str) {
    tracing::warn!(
        %node,
        key,
        "odd expiry of a lock: {anomaly}; was it deleted or evicted, or was the node's clock set?"
    );
}

/// Reports that an operator has taken a lock away from its holder.
pub(crate) fn forced(resource: &str, deleted: usize, nodes: usize) {
    tracing::warn!(
        resource,
        deleted,
        nodes,
        "lock taken away by hand on {deleted} of {nodes} nodes"
    );
}

/// Reports that this client leads from now on.
pub(crate) fn leads(role: &str, token: Option<FencingToken>) {
    let token = token.map(FencingToken::get);
    tracing::info!(role, token, "leads");
}

/// Reports that this client has resigned.
pub(crate) fn resigned(role: &str) {
    tracing::info!(role, "resigned");
}

/// Reports that no client can be elected until more nodes give votes.
pub(crate) fn quorum_missing(role: &str, votes: usize, nodes: usize) {
    tracing::warn!(
        role,
        votes,
        nodes,
        "no quorum to elect a leader: {votes} of {nodes} nodes give votes"
    );
}

/// Reports that a leader can be elected again.
pub(crate) fn quorum_back(role: &str, votes: usize, nodes: usize) {
    tracing::info!(
        role,
        votes,
        nodes,
        "quorum to elect a leader again: {votes} of {nodes} nodes give votes"
    );
}

/// Reports that no node keeps a queue for this client.
pub(crate) fn no_queue(resource: &str) {
    tracing::debug!(
        resource,
        "no node keeps a queue of waiting clients: this one asks for the lock now and then"
    );
}
