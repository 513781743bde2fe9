//! The tasks that wait for a lock of this client, as a lease sees them.

use std::{fmt::Debug, sync::Arc};

use super::{HoldId, LeaseState};
use crate::clock::Moment;

/// What a lease tells the queues of a client. Told with nothing locked.
pub(crate) trait LeaseListener: Debug + Send + Sync {
    /// Has the next waiter ask, because this hold does not have the lock any more. Its guard may
    /// still exist for a long time.
    fn holder_gone(self: Arc<Self>, key: &Arc<str>, hold: HoldId, now: Moment);

    /// Wakes the waiters, because the tasks of the client have ended with their runtime. A waiter
    /// on a living runtime starts them again there (rule 13).
    fn tasks_ended(&self);

    /// Deletes the keys of a lease that came to no holder (rules 5 and 6), or keeps them until `keep_until` if
    /// that is still to come.
    fn give_back(self: Arc<Self>, lease: &LeaseState, keep_until: Moment);
}
