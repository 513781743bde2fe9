//! The queue node of a lock: the node that keeps the queue between clients. Pure but for the look at which nodes are
//! connected.
//!
//! All clients compute the same node: the first that can be reached in the order of [`rank`], and that takes what it
//! is asked to keep.

use crate::{
    clock::Moment,
    node::{NodeHandle, queue_keys},
};

/// The rank of a node for a key: the node with the highest rank keeps the queue. It is the same in
/// every client that knows the server by its run id, whatever address the client uses.
fn rank(key: u64, node: u64) -> u64 {
    // The finalizer of SplitMix64: nodes differ in all bits of the result.
    let mut mixed = key ^ node.rotate_left(32);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The node that keeps the queue for this key, among the nodes that are connected and not
/// `refused`. One that refuses keys for now, as without memory, comes after all others: a waiter that goes on to
/// another node would never meet the releases there.
pub(super) fn queue_node_except(
    nodes: &[NodeHandle],
    key: &str,
    refused: &[usize],
) -> Option<usize> {
    if let ([only], []) = (nodes, refused) {
        return only.is_up().then_some(0);
    }
    // All permits of a lock have one queue, on one node.
    let key = queue_keys::queue_hash(key);
    let reached = nodes.iter().enumerate().filter(|(_, node)| node.is_up());
    let left = reached.filter(|(index, _)| !refused.contains(index));
    left.max_by_key(|(_, node)| (!node.refuses(key), rank(key, node.fingerprint())))
        .map(|(index, _)| index)
}

/// The node on which a release of this key gives the turn to the next waiter.
pub(crate) fn queue_node(nodes: &[NodeHandle], key: &str) -> Option<usize> {
    queue_node_except(nodes, key, &[])
}

/// The node that is asked for a permit: the one that keeps the queue, if it votes. To a node that sits out
/// permits look free that are taken (rule 16).
pub(crate) fn permit_node(nodes: &[NodeHandle], key: &str, now: Moment) -> Option<usize> {
    let numbered = nodes.iter().enumerate();
    let no_votes = numbered.filter(|(_, node)| node.why_no_vote(now).is_some());
    let refused: Vec<_> = no_votes.map(|(index, _)| index).collect();
    queue_node_except(nodes, key, &refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::fnv1a;

    #[test]
    fn the_queues_of_many_locks_are_spread_over_the_nodes() {
        let nodes: Vec<u64> = (0..5).map(|it| fnv1a(format!("run-{it}").as_bytes())).collect();
        let mut kept = [0_u32; 5];
        for key in 0..1000 {
            let key = fnv1a(format!("redlock:{key}").as_bytes());
            let best = (0..5).max_by_key(|node| rank(key, nodes[*node])).unwrap();
            kept[best] += 1;
        }
        assert!(kept.iter().all(|kept| (120..280).contains(kept)), "{kept:?}");
    }

    /// The order is fixed: clients of different versions must agree.
    #[test]
    fn the_order_of_the_nodes_is_fixed() {
        assert_eq!(fnv1a(b"redlock:a"), 16_458_218_217_413_237_854);
        let order = |key: &str| {
            let mut nodes = ["n0", "n1", "n2", "n3", "n4"];
            nodes.sort_by_key(|it| rank(fnv1a(key.as_bytes()), fnv1a(it.as_bytes())));
            nodes
        };
        assert_eq!(order("redlock:a"), order("redlock:a"));
        assert_ne!(order("redlock:a"), order("redlock:b"));
    }
}
