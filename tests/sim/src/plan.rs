//! What is to happen in one schedule. All times are in milliseconds.

mod distances;
mod fault;
mod operator;

use std::collections::BTreeSet;

use redlock_core::Restarts;

pub(super) use distances::Distances;
pub(super) use fault::{Blow, Fault, Planned};
pub(super) use operator::{Deed, Job, Operation, is_tick, tick};

use super::network::{Cut, LinkQuality, Manners};

/// One schedule, all of it drawn from a seed.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed that it was drawn from.
    pub seed: u64,
    /// The rates of the nodes' clocks, one a node.
    pub(super) nodes: Vec<f64>,
    pub(super) keys: usize,
    /// How many permits there are of each key. All users of a resource agree on it.
    pub(super) permits: Vec<u32>,
    pub(super) settings: Settings,
    pub(super) clients: Vec<ClientPlan>,
    pub(super) faults: Vec<Planned>,
    /// Nothing goes wrong, so that no request may be refused for want of a quorum.
    pub(super) calm: bool,
    /// How long each message takes at least.
    pub(super) distances: Distances,
    /// The ticks of a job that has to be done, as long as nothing goes wrong.
    pub(super) ticks: Vec<usize>,
}

impl Plan {
    /// For how much longer keys may live on a node because its clock is set back, in milliseconds.
    pub(super) fn set_back(&self, node: usize) -> u64 {
        let set_back =
            |it: &&Planned| matches!(it.fault, Fault::SetBack { node: it } if it == node);
        self.faults.iter().filter(set_back).map(|it| it.span).sum()
    }
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

/// One process, and the process that takes its place after a crash.
#[derive(Debug, Clone)]
pub(super) struct ClientPlan {
    pub(super) rate: f64,
    pub(super) skew: u64,
    /// How far its wall clock is ahead of the right time; `None` when it stands still.
    pub(super) wall_error: Option<i64>,
    pub(super) restarts: Restarts,
    /// The quality of the way to each node.
    pub(super) quality: Vec<LinkQuality>,
    pub(super) tasks: Vec<Vec<Op>>,
    /// The nodes, in the order in which the client names them.
    pub(super) order: Vec<usize>,
    /// What the nodes let it do.
    pub(super) manners: Manners,
    /// The client connects when it asks for its first lock. Until it is connected, its commands are not
    /// sent.
    pub(super) cold: bool,
    /// Each of its nodes is a pool, and the client joins the pools. A pool may be replaced.
    pub(super) joined: bool,
    /// Its timeouts are shorter than those of other clients.
    pub(super) hasty: bool,
    /// It allows for more drift than other clients do.
    pub(super) wary: bool,
    /// What an operator does with it meanwhile.
    pub(super) operations: Vec<Operation>,
    /// The ticks of a job to which it comes as one of several replicas.
    pub(super) jobs: Vec<Job>,
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
        // A node with two names has one vote.
        let mut round_trips: Vec<u64> = self.distinct().iter().map(longest).collect();
        round_trips.sort_unstable();
        (node_timeout - node_timeout / 4).max(round_trips[self.order.len() / 2]).min(node_timeout)
    }

    /// How long it waits for a connection.
    pub(super) fn connect_timeout(&self, settings: Settings) -> u64 {
        let Settings { connect_timeout, .. } = settings;
        if self.hasty { connect_timeout - connect_timeout / 4 } else { connect_timeout }
    }

    /// Whether it knows a node under two names, and another one not at all.
    pub(super) fn has_twin(&self) -> bool {
        self.distinct().len() < self.order.len()
    }

    fn distinct(&self) -> BTreeSet<usize> {
        self.order.iter().copied().collect()
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
#[expect(clippy::large_enum_variant, reason = "nearly all operations are of the largest kind")]
pub(super) enum What {
    Take(Take),
    ReleaseAll,
    Shutdown {
        grace: u64,
    },
    Health,
    /// Asks for `count` locks at once and gives each request up after a moment, while most are unsent.
    Burst {
        count: usize,
        cancel: Cancel,
    },
    /// Asks for `count` locks at once, and does so `times` times. Each time the runtime is blocked
    /// until after the answers have come.
    Block {
        count: usize,
        times: usize,
    },
    /// A pool that the client joins is replaced by another pool with the same node.
    Replace {
        pool: usize,
    },
}

/// The number of the permits of the first key, among what excludes others.
const PERMITS: usize = 1_000_000;

/// With which other holders it shares what it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// With none.
    Writer,
    /// With other readers.
    Reader,
    /// With the holders of the other permits. This is the number of all permits.
    Permit(u32),
}

/// Taking a lock, holding it and letting it go.
#[derive(Debug, Clone)]
pub(super) struct Take {
    pub(super) key: usize,
    /// The other keys of a set.
    pub(super) also: Vec<usize>,
    pub(super) how: How,
    pub(super) mode: Mode,
    pub(super) ttl: u64,
    pub(super) wait: u64,
    /// It does not ask again by itself, so that it has to be woken.
    pub(super) sleeps: bool,
    pub(super) retry_count: Option<u32>,
    pub(super) auto_extend: bool,
    /// It allows for this many times the drift that its client allows for.
    pub(super) drift: Option<f64>,
    pub(super) min_hold: u64,
    pub(super) max_hold: Option<u64>,
    /// Its process stops when the request has been woken this often, before it can see why, and for this long.
    pub(super) stops: Option<(u32, u64)>,
    /// While the process stands still, the nodes lose all locks, so that other clients have their turn. When
    /// it goes on, a lost lock is set again on each node where no other lock is in its place.
    pub(super) overtaken: bool,
    /// When the request is given up.
    pub(super) cancel: Option<Cancel>,
    pub(super) steps: Vec<Step>,
    pub(super) end: End,
    /// It wants a token.
    pub(super) fenced: bool,
    /// A handle outlives the hold.
    pub(super) keep_handle: bool,
    /// What its body asks of the lock that it runs under, one after the other.
    pub(super) inside: Vec<Inside>,
}

impl Take {
    /// All its keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.key).chain(self.also.iter().copied())
    }

    /// What it excludes others from. The permits of a resource do not exclude its lock.
    pub(super) fn resources(&self) -> Vec<usize> {
        let first = if let Mode::Permit(_) = self.mode { PERMITS } else { 0 };
        self.keys().map(|key| first + key).collect()
    }

    /// Whether it has a guard, and no body.
    pub(super) fn has_guard(&self) -> bool {
        matches!(self.how, How::Lock | How::Try | How::Snipe)
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
    /// `try_lock` in the milliseconds in which the key expires on a quorum.
    Snipe,
    Run,
    /// As an annotated function whose body goes on when the lock is lost.
    Continue,
    /// As a leader.
    Lead {
        terms: u32,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cancel {
    /// Dropped after this many polls.
    Polls(u32),
    /// Dropped after it was woken this many times, before it is polled again.
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
    /// The holder is cut off from `count` nodes, beginning with `first`.
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
    /// A release that is dropped after this many polls.
    CancelRelease(u32),
    Drop,
    /// Holds until it is lost, or this long.
    UntilLost(u64),
    /// Holds until it is lost, or this long. Then extends and releases, as if the lock were held.
    GoesOn(u64),
    /// Another process takes the lock up.
    HandOff(HandOff),
}

/// A lock on its way from one process to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HandOff {
    /// The client that adopts it, taken modulo how many are alive.
    pub(super) to: usize,
    /// How long it is on its way.
    pub(super) after: u64,
    /// Another client that has the same data also adopts it, this long after it was sent.
    pub(super) again: Option<(usize, u64)>,
    pub(super) crash: Option<Crash>,
    /// When an adoption is given up.
    pub(super) cancel: Option<Cancel>,
    /// How long the client that has adopted it holds it.
    pub(super) hold: u64,
    /// How often it is handed on after that.
    pub(super) hops: u32,
}

/// The process that dies while a lock changes hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crash {
    /// The process that had the lock, this long after it has sent the lease.
    Giver(u64),
    /// The process that adopts the lock, this long after it has begun to.
    Taker(u64),
}

/// What a body asks of the lock that it runs under. Times are how long the bodies inside run.
#[derive(Debug, Clone)]
pub(super) enum Inside {
    /// Bodies inside of each other, `depth` of them. The outermost is dropped early if there is a `cancel`.
    Nested { depth: u32, span: u64, cancel: Option<Cancel> },
    /// Two bodies at once.
    Joined([u64; 2]),
    /// A body that begins inside, and goes on when the body around it has ended.
    Moved(u64),
    /// A bare request, which would wait for itself.
    Bare,
    /// A task of its own, which the body may wait for.
    Spawned { take: Box<Take>, is_awaited: bool },
}
