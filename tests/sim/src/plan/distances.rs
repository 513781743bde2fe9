//! How far clients are from nodes. All times are in milliseconds.

/// What a message takes at least, by the client and the node.
#[derive(Debug, Clone)]
pub(crate) struct Distances {
    /// The client's part of the way.
    pub(crate) clients: Vec<u64>,
    /// The node's part of the way.
    pub(crate) nodes: Vec<u64>,
}

impl Distances {
    /// From a client to a node. A process has the place of the process that it replaces.
    pub(crate) fn between(&self, client: usize, node: usize) -> u64 {
        self.clients[client % self.clients.len()] + self.nodes[node]
    }

    /// From a client to the node that is the furthest from it.
    pub(crate) fn of(&self, client: usize) -> u64 {
        self.between(client, 0) - self.nodes[0] + most(&self.nodes)
    }

    /// Whether all clients are equally far from each node.
    pub(crate) fn are_equal_for_clients(&self) -> bool {
        self.clients.windows(2).all(|two| two[0] == two[1])
    }

    /// Whether each client is equally far from all nodes.
    pub(crate) fn are_equal_for_nodes(&self) -> bool {
        self.nodes.windows(2).all(|two| two[0] == two[1])
    }

    /// From any client to any node.
    pub(crate) fn longest(&self) -> u64 {
        most(&self.clients) + most(&self.nodes)
    }
}

fn most(of: &[u64]) -> u64 {
    of.iter().copied().max().unwrap_or_default()
}
