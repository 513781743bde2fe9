//! The tasks that wait for a lock of this client, as a lease sees them.

use std::{fmt::Debug, sync::Arc};

use super::{HoldId, LeaseState};
use crate::clock::Moment;

/// The waiters of a client. Told with nothing locked.
pub(crate) trait Waiters: Debug + Send + Sync {
    /// The hold does not have the lock any more, although its guard may exist for long: the next
    /// waiter asks.
    fn holder_gone(self: Arc<Self>, key: &Arc<str>, hold: HoldId, now: Moment);

    /// The tasks of the client have ended with their runtime. A waiter on a living runtime starts
    /// them again there (rule 13).
    fn tasks_ended(&self);

    /// A lease came to no holder: its keys have to be deleted (rules 5 and 6).
    fn give_back(self: Arc<Self>, lease: &LeaseState);
}
