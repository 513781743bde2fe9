//! The counters of what goes wrong with a node.

use std::sync::Arc;

use ::metrics::counter;

use crate::error::NodeErrorKind;

pub(super) const NODE_FAILURES: &str = "redlock_node_failures_total";
pub(super) const NODE_ODD_EXPIRIES: &str = "redlock_node_odd_expiries_total";

pub(crate) fn node_failure(node: &Arc<str>, kind: NodeErrorKind) {
    count_failures(node, kind, 1);
}

/// Shows the failures of a node as none, before there is one: an alert on a counter that grows does not see its first
/// value.
pub(super) fn show_failures(node: &Arc<str>) {
    use NodeErrorKind::{Disconnected, Down, Overloaded, Server, SitsOut, Timeout, Twin};
    for kind in [Down, Timeout, Disconnected, Server, Overloaded, SitsOut, Twin] {
        count_failures(node, kind, 0);
    }
    count_odd_expiries(node, 0);
}

fn count_failures(node: &Arc<str>, kind: NodeErrorKind, count: u64) {
    let kind = match kind {
        NodeErrorKind::Down => "down",
        NodeErrorKind::Timeout => "timeout",
        NodeErrorKind::Disconnected => "disconnected",
        NodeErrorKind::Server => "server",
        NodeErrorKind::Overloaded => "overloaded",
        NodeErrorKind::SitsOut => "sits_out",
        NodeErrorKind::Twin => "twin",
    };
    counter!(NODE_FAILURES, "node" => Arc::clone(node), "kind" => kind).increment(count);
}

/// Counts that the node keeps a key for another time than it was asked to.
pub(crate) fn node_odd_expiry(node: &Arc<str>) {
    count_odd_expiries(node, 1);
}

fn count_odd_expiries(node: &Arc<str>, count: u64) {
    counter!(NODE_ODD_EXPIRIES, "node" => Arc::clone(node)).increment(count);
}
