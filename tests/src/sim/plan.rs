//! What is to happen in one schedule. All times are in milliseconds.

use std::collections::BTreeSet;

use redlock_core::Restarts;

use super::network::{Cut, LinkQuality, Manners};

/// One schedule, all of it drawn from a seed.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What it was drawn from.
    pub seed: u64,
    /// The rates of the nodes' clocks, one a node.
    pub(super) nodes: Vec<f64>,
    pub(super) keys: usize,
    pub(super) settings: Settings,
    pub(super) clients: Vec<ClientPlan>,
    pub(super) faults: Vec<Planned>,
    /// Nothing goes wrong: then nothing may be refused for want of a quorum either.
    pub(super) calm: bool,
    /// How long each message takes at least, between any client and any node.
    pub(super) distance: u64,
}

/// What all clients are built with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) drift: f64,
    pub(super) node_timeout: u64,
    pub(super) connect_timeout: u64,
    pub(super) max_ttl: u64,
    pub(super) retry_delay: u64,
    pub(super) retry_jitter: u64,
}

/// One process, and the one that takes its place should it crash.
#[derive(Debug, Clone)]
pub(super) struct ClientPlan {
    pub(super) rate: f64,
    pub(super) skew: u64,
    /// How far its wall clock is ahead of the right time; `None` when it stands still.
    pub(super) wall_error: Option<i64>,
    pub(super) restarts: Restarts,
    /// One a node.
    pub(super) quality: Vec<LinkQuality>,
    pub(super) tasks: Vec<Vec<Op>>,
    /// The nodes, in the order in which it names them.
    pub(super) order: Vec<usize>,
    /// What the nodes let it do.
    pub(super) manners: Manners,
    /// It connects when it asks for its first lock, and what it asks waits unsent meanwhile.
    pub(super) cold: bool,
    /// Its nodes are pools of their own, which it joins. A pool may be replaced.
    pub(super) joined: bool,
    /// It waits less long for each command and connection than others do.
    pub(super) hasty: bool,
    /// It allows for more drift than others do.
    pub(super) wary: bool,
}

impl ClientPlan {
    /// How long it waits for a command. It hears a quorum of its nodes in that time, unless a message
    /// takes longer than usual: a client that does not is refused every lock.
    pub(super) fn node_timeout(&self, settings: Settings) -> u64 {
        let Settings { node_timeout, .. } = settings;
        if !self.hasty {
            return node_timeout;
        }
        let longest =
            |node: &usize| 2 * (self.quality[*node].base + self.quality[*node].jitter) + 1;
        let mut round_trips: Vec<u64> = self.order.iter().map(longest).collect();
        round_trips.sort_unstable();
        (node_timeout - node_timeout / 4).max(round_trips[round_trips.len() / 2]).min(node_timeout)
    }

    /// How long it waits for a connection.
    pub(super) fn connect_timeout(&self, settings: Settings) -> u64 {
        let Settings { connect_timeout, .. } = settings;
        if self.hasty { connect_timeout - connect_timeout / 4 } else { connect_timeout }
    }

    /// Whether it knows a node under two names, and another one not at all.
    pub(super) fn has_twin(&self) -> bool {
        let distinct: BTreeSet<usize> = self.order.iter().copied().collect();
        distinct.len() < self.order.len()
    }

    /// Whether the queues serve it in order: it may do everything, and sees the node that keeps a
    /// queue as all clients do.
    pub(super) fn is_in_queue(&self) -> bool {
        self.manners == Manners::FULL && !self.has_twin()
    }
}

/// One thing that a task does.
#[derive(Debug, Clone)]
pub(super) struct Op {
    /// The pause before it.
    pub(super) after: u64,
    pub(super) what: What,
}

#[derive(Debug, Clone)]
pub(super) enum What {
    Take(Take),
    ReleaseAll,
    Shutdown {
        grace: u64,
    },
    Health,
    /// So many locks of its own at once, each given up after a moment: most of it waits unsent.
    Burst {
        count: usize,
        cancel: Cancel,
    },
    /// So many locks of its own at once, so often. Each time the runtime is blocked until their
    /// answers should have been read.
    Block {
        count: usize,
        times: usize,
    },
    /// One of the pools that the client joins is replaced by another one with the same node.
    Replace {
        pool: usize,
    },
}

/// Taking a lock, holding it and letting it go.
#[derive(Debug, Clone)]
pub(super) struct Take {
    pub(super) key: usize,
    /// The other keys of a set.
    pub(super) also: Vec<usize>,
    pub(super) how: How,
    pub(super) ttl: u64,
    pub(super) wait: u64,
    /// It waits for so long that it has to be woken.
    pub(super) sleeps: bool,
    pub(super) retry_count: Option<u32>,
    pub(super) auto_extend: bool,
    /// It allows for so many times as much drift as its client does.
    pub(super) drift: Option<f64>,
    pub(super) min_hold: u64,
    pub(super) max_hold: Option<u64>,
    /// Its process stops when the request has been woken so often, before it can see why, for so long.
    pub(super) stops: Option<(u32, u64)>,
    /// Gives the request up.
    pub(super) cancel: Option<Cancel>,
    pub(super) steps: Vec<Step>,
    pub(super) end: End,
    /// It wants a token.
    pub(super) fenced: bool,
    /// A handle outlives the hold.
    pub(super) keep_handle: bool,
}

impl Take {
    /// All its keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.key).chain(self.also.iter().copied())
    }

    /// The names of its keys.
    pub(super) fn names(&self) -> Vec<String> {
        self.keys().map(|key| format!("k{key}")).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Lock,
    Try,
    /// `try_lock` in the very moments in which the key expires on a quorum.
    Snipe,
    Run,
    /// As an annotated function whose body goes on when the lock is lost.
    Continue,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Cancel {
    /// Dropped when it has been polled so often.
    Polls(u32),
    /// Dropped when it has been woken so often, before it can see why.
    Woken(u32),
    After(u64),
}

/// What happens while a lock is held.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Sleep(u64),
    Extend(u64),
    /// An extension that is dropped as soon as it is sent.
    SendExtend(u64),
    /// The holder is cut off from so many nodes, counted from a random one.
    Isolate {
        cut: Cut,
        first: usize,
        count: usize,
        span: u64,
    },
    /// SIGSTOP and SIGCONT.
    Stop(u64),
    /// The holder's virtual machine is frozen.
    Freeze(u64),
    /// The holder's wall clock is set back.
    SetBack(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Release,
    /// A release that is dropped when it has been polled so often.
    CancelRelease(u32),
    Drop,
    /// Holds until it is lost, or this long.
    UntilLost(u64),
    /// The same, and then goes on as if nothing had happened: extends and releases.
    GoesOn(u64),
}

/// What happens to the node that keeps a queue.
#[derive(Debug, Clone, Copy)]
pub(super) enum Blow {
    Stops {
        empty: bool,
    },
    Hangs,
    /// All clients are cut off from it.
    IsCutOff,
    /// The connections of all clients to it break.
    Resets,
}

/// A fault that strikes when so many operations have begun, and a while later.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    pub(super) operation: u64,
    pub(super) after: u64,
    pub(super) span: u64,
    pub(super) fault: Fault,
}

/// What goes wrong. Clients and nodes are counted modulo how many there are.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    /// The way between a client and a node.
    Link {
        client: usize,
        node: usize,
        cut: Cut,
    },
    /// A client and so many nodes.
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
    /// One node after the other, so many.
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
    /// All keys on all nodes are deleted by somebody.
    Flush,
    /// All locks on so many nodes go, and the counters stay: their clocks are set ahead. After a span,
    /// if there is one, they are set again, as by commands of their holders that were under way.
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
    /// The node that keeps the queue before a key.
    Keeper {
        key: usize,
        blow: Blow,
    },
    /// The next client that is given its turn crashes, or stops.
    Front {
        stops: bool,
    },
}

impl Fault {
    /// For the statistics.
    pub(super) const NAMES: [&str; 16] = [
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
    ];

    pub(super) fn kind(&self) -> usize {
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
            Self::Keeper { .. } => 13,
            Self::Front { .. } => 14,
            Self::FlushLocks { .. } => 15,
        }
    }
}
