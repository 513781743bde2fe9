//! What a client that waits sees and is told, and what it concludes.

use std::time::Duration;

use crate::{
    clock::Moment,
    op::acquire::{distrust::Distrust, retries::Chance},
    wait::{Report, Signal},
};

/// What a client has at one moment.
#[derive(Debug, Clone, Copy)]
pub(in crate::op::acquire) struct Snapshot {
    pub(in crate::op::acquire) now: Moment,
    /// The client stands in the queue between clients.
    pub(in crate::op::acquire) in_queue: bool,
    pub(in crate::op::acquire) watch: WatchState,
    /// Until when another client has its turn, if one has it now.
    pub(in crate::op::acquire) turn_of_others: Option<Moment>,
}

/// How the client hears of changes of the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::op::acquire) enum WatchState {
    None,
    /// The queue node tells of them, and no other node.
    QueueNode,
    /// Fewer nodes than a quorum would report a change.
    Unarmed,
    Armed,
}

/// The answer of the queue to a report.
#[derive(Debug, Clone, Copy)]
pub(in crate::op::acquire) struct QueueAnswer {
    pub(in crate::op::acquire) now: Moment,
    pub(in crate::op::acquire) report: Report,
    /// A push that came before the answer. It says more than the answer: the lock reads as free also when
    /// the waiter before this one was given it and has not set it yet.
    pub(in crate::op::acquire) signal: Option<Signal>,
    /// The queue node pushes to this client.
    pub(in crate::op::acquire) has_pushes: bool,
    /// Until when another client has its turn, if one has it now.
    pub(in crate::op::acquire) turn_of_others: Option<Moment>,
    /// The client watches the lock on all nodes.
    pub(in crate::op::acquire) has_watch: bool,
    /// How long after this answer the client looks again where no node pushes. It differs from time to time: a
    /// client that is far away, and looks at the same moment of each turn, would miss all of its own.
    pub(in crate::op::acquire) looks_after: Duration,
    /// How far to rely on the answer if it says that the lock is free.
    pub(in crate::op::acquire) distrust: Distrust,
}

/// The next step of a client that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::op::acquire) enum Step {
    /// Report to the queue between clients that this client is alive, and read its state.
    Report,
    /// Have the queue node tell of changes of the lock.
    Follow,
    /// Have all nodes report when the lock is free.
    Watch,
    /// Stop waiting.
    End(Chance),
    /// Sleep until then. A request behind this one that would have asked by now wakes the client, if
    /// it has waited for `quiet`.
    Sleep { until: Moment, quiet: Duration },
}

/// The conclusion from an answer of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::op::acquire) enum Conclusion {
    Wait,
    End(Chance),
    /// No node keeps the queue.
    LeaveQueue,
}
