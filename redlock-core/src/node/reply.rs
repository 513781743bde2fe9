//! The answers of a node.

use std::{sync::Arc, time::Duration};

use super::{Secret, Told};

/// The answer of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Done: granted, healed, released.
    Done,
    /// The key is there, and extended if it was asked to be; this much was left of it before.
    There { left: Duration },
    /// Done, and this is the first of the numbers that were drawn.
    Numbered { first: u64 },
    /// There is no such key.
    Missing,
    /// The key is there and has another client's value, or the counter beside it has given numbers
    /// to another client.
    Foreign,
    /// No key is left, and waiters before some of the keys were `told` that they have the turn. If `deleted`, all keys
    /// had our value until now. As the answer to a waiter that leaves: if `deleted`, it stood in the queue, and readers
    /// may have the key.
    Woke { deleted: bool, told: Told },
    /// Clients wait for the lock, and none of them got the turn: a client has taken the lock again, or the node could
    /// not give the turn. If `deleted`, the key had our value until now. As the answer to a waiter that leaves: if
    /// `deleted`, it stood in the queue.
    Unwoken { deleted: bool, told: Told },
    /// Readers have the lock. If `deleted`, our reader was among them until now, or stays for the rest of its
    /// `min_hold`.
    HasReaders { deleted: bool },
    /// The numbers of permits that are free. If more are free than this client can use, a waiter was `told` that it has
    /// the turn for one of the others.
    Permits { free: Vec<u32>, told: Told },
    /// Stands in the queue.
    Queued {
        /// The place, to join at again.
        place: u64,
        /// The number of waiters before it.
        ahead: u64,
        /// The remaining time of the lock on this node. `None` when the key is not there.
        left: Option<Duration>,
        /// Another waiter was given its turn, and has neither left since nor released the lock. Also true where
        /// that does not matter: clients stand before this one, or the lock is not free.
        turn_is_out: bool,
        /// The waiter is a reader, and may have the lock together with the readers that have it.
        may_share: bool,
    },
    /// The queue takes no more entries, or the counter has no more numbers.
    Full,
    /// The state of the key.
    Inspected(Arc<Inspection>),
}

impl Reply {
    /// What the command has told waiters.
    pub(super) fn told(&self) -> Option<&Told> {
        match self {
            Self::Woke { told, .. } | Self::Unwoken { told, .. } | Self::Permits { told, .. } => {
                Some(told)
            }
            _ => None,
        }
    }

    /// What it says of the key, without what it says of the queue.
    pub(crate) fn of_key(&self) -> &Self {
        match self {
            Self::Woke { deleted, .. }
            | Self::Unwoken { deleted, .. }
            | Self::HasReaders { deleted } => {
                if *deleted {
                    &Self::Done
                } else {
                    &Self::Missing
                }
            }
            other => other,
        }
    }
}

/// The findings of an [`Action::Inspect`](super::Action::Inspect).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Inspection {
    /// The value of the key, if it is there.
    pub(crate) value: Option<Secret>,
    /// The remaining time of the key.
    pub(crate) left: Duration,
    /// The names of the waiters in the queue, in order.
    pub(crate) waiting: Vec<Secret>,
    /// A waiter was given its turn there, and has neither left since nor released the lock.
    pub(crate) turn_is_out: bool,
}
