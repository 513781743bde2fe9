//! What goes wrong in a schedule. All times are in milliseconds.

use super::super::network::Cut;

/// What happens to the node that keeps a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Blow {
    Stops {
        empty: bool,
    },
    Hangs,
    /// All clients are cut off from it.
    IsCutOff,
    /// The connections of all clients to it break.
    Resets,
}

/// A fault that strikes `after` milliseconds after the operation of this number has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planned {
    pub(crate) operation: u64,
    pub(crate) after: u64,
    pub(crate) span: u64,
    pub(crate) fault: Fault,
}

/// What goes wrong. The numbers of clients and nodes are taken modulo how many there are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// The way between a client and a node.
    Link {
        client: usize,
        node: usize,
        cut: Cut,
    },
    /// A client and `count` nodes.
    Partition {
        client: usize,
        first: usize,
        count: usize,
        cut: Cut,
    },
    /// All clients and a node.
    Unreachable {
        node: usize,
    },
    /// A connection breaks.
    Reset {
        client: usize,
        node: usize,
    },
    Restart {
        node: usize,
        empty: bool,
    },
    /// `count` nodes, one after the other.
    RollingRestart {
        first: usize,
        count: usize,
        empty: bool,
    },
    Hang {
        node: usize,
    },
    Slow {
        node: usize,
        delay: u64,
    },
    /// All keys on all nodes are deleted.
    Flush,
    /// All locks on `count` nodes go and the counters stay, as when the clocks of the nodes are set ahead.
    /// If there is a span, the locks come back after it, as from late commands of their holders.
    FlushLocks {
        first: usize,
        count: usize,
    },
    Stop {
        client: usize,
    },
    Freeze {
        client: usize,
    },
    /// The wall clock of a client is set ahead.
    Step {
        client: usize,
    },
    Crash {
        client: usize,
    },
    /// The queue node before a key.
    QueueNode {
        key: usize,
        blow: Blow,
    },
    /// The next client that is given its turn crashes or stops.
    Front {
        stops: bool,
    },
    /// A node refuses what takes memory, or all commands.
    Refuse {
        node: usize,
        all: bool,
    },
    /// The clock of a node is set back.
    SetBack {
        node: usize,
    },
}

impl Fault {
    /// For the statistics.
    pub(crate) const NAMES: [&str; 18] = [
        "link cuts",
        "partitions",
        "unreachable nodes",
        "resets",
        "restarts",
        "rolling restarts",
        "hangs",
        "slow nodes",
        "flushes",
        "stops",
        "freezes",
        "clock steps",
        "crashes",
        "blows to queues",
        "lost fronts",
        "lost locks",
        "refusing nodes",
        "clocks set back",
    ];

    pub(crate) fn kind(&self) -> usize {
        match self {
            Self::Link { .. } => 0,
            Self::Partition { .. } => 1,
            Self::Unreachable { .. } => 2,
            Self::Reset { .. } => 3,
            Self::Restart { .. } => 4,
            Self::RollingRestart { .. } => 5,
            Self::Hang { .. } => 6,
            Self::Slow { .. } => 7,
            Self::Flush => 8,
            Self::Stop { .. } => 9,
            Self::Freeze { .. } => 10,
            Self::Step { .. } => 11,
            Self::Crash { .. } => 12,
            Self::QueueNode { .. } => 13,
            Self::Front { .. } => 14,
            Self::FlushLocks { .. } => 15,
            Self::Refuse { .. } => 16,
            Self::SetBack { .. } => 17,
        }
    }
}
