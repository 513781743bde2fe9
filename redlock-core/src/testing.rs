//! What unit tests over nodes in memory begin and end with.

use crate::MemoryNode;

/// So many nodes that are up and empty.
pub(crate) fn nodes(count: usize) -> Vec<MemoryNode> {
    (0..count).map(|_| MemoryNode::new()).collect()
}

/// Whether no node has a key.
pub(crate) fn are_empty(nodes: &[MemoryNode]) -> bool {
    nodes.iter().all(|node| node.keys().is_empty())
}
