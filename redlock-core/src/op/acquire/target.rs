//! What a waiting client is after, and with that which news of the lock it can rely on. Pure.

use std::time::Duration;

use crate::wait::{MIN_PAUSE, PROMISE, QueuePosition, grace};

/// What a client waits for.
///
/// A client that waits for a lock is told of every chance: by its turn in the queue between clients, by
/// the answer of that queue, or by a watch on all nodes. A client that waits for a part of a lock or for a
/// permit misses chances that way, so it also asks by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A lock that no other client has.
    Lock,
    /// A reader's part in a lock, which the client may have while other readers do.
    Part,
    /// One of several permits. The answer of the queue tells of one permit, and so does a watch. A turn
    /// is for any of them.
    Permit {
        /// The client was refused a permit after it had joined the queue. All permits were taken then,
        /// and one that is released gives a turn. Before it joined, a permit may have been released
        /// without a turn.
        was_refused_in_queue: bool,
        /// It was refused in its turn, for which it had left the queue: before it was back, a permit may have been
        /// released without a turn.
        had_turn: bool,
    },
}

impl Target {
    /// Whether the front of the queue looks at the lock itself. A client without a queue always does.
    pub(super) fn front_watches(self) -> bool {
        match self {
            Self::Lock | Self::Part => true,
            Self::Permit { .. } => false,
        }
    }

    /// Whether the queue node tells the front all that it needs to know of the lock.
    pub(super) fn queue_node_suffices(self) -> bool {
        match self {
            Self::Lock => true,
            // A reader asks at each report.
            Self::Part | Self::Permit { .. } => false,
        }
    }

    /// Whether a client without a queue asks by itself from time to time, although it watches the lock:
    /// no push tells that a writer has given up, or that another permit is free.
    pub(super) fn asks_without_queue(self) -> bool {
        match self {
            Self::Lock => false,
            Self::Part | Self::Permit { .. } => true,
        }
    }

    /// Whether the front of the queue asks now, whatever else the answer of the queue says.
    pub(super) fn front_asks(self, answer: QueuePosition, is_first_answer: bool) -> bool {
        match self {
            Self::Lock => false,
            // The holders may be readers.
            Self::Part => answer.left.is_some() && !is_first_answer,
            Self::Permit { was_refused_in_queue, .. } => !(is_first_answer && was_refused_in_queue),
        }
    }

    /// Whether the answer of the queue tells that what the client waits for is free, or is not.
    pub(super) fn shows_in_queue(self) -> bool {
        match self {
            Self::Lock | Self::Part => true,
            Self::Permit { .. } => false,
        }
    }

    /// Whether the front of the queue looks again after the time of a turn. At once would be too soon: a node that
    /// has forgotten the permits believes that they are free, and clients would pass the turn round without a pause.
    pub(super) fn looks_again_soon(self) -> bool {
        matches!(self, Self::Permit { had_turn: true, .. })
    }

    /// How long the client leaves a turn to the waiter that was given it. A permit is kept for that waiter: to ask for it
    /// before that would be in vain.
    pub(super) fn leaves_turn_for(self, round_trip: Duration) -> Duration {
        match self {
            Self::Lock | Self::Part => grace(round_trip),
            Self::Permit { .. } => PROMISE + MIN_PAUSE,
        }
    }

    /// Whether a client that has been near for a while asks, whatever the answer of the queue says of the lock.
    pub(super) fn near_asks(self) -> bool {
        match self {
            Self::Lock | Self::Part => false,
            // Those before it may have crashed.
            Self::Permit { .. } => true,
        }
    }

    /// Whether the client asks when it becomes the next in the queue, or has been near for a while: a reader may
    /// have the lock together with the readers before it.
    pub(super) fn next_asks(self) -> bool {
        self == Self::Part
    }
}
