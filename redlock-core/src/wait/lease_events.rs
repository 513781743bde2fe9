//! How the queues react to what a lease reports.

use std::sync::Arc;

use super::{deletes::give_back, queues::Queues};
use crate::{
    clock::Moment,
    lease::{HoldId, LeaseListener, LeaseState},
};

impl LeaseListener for Queues {
    fn holder_gone(self: Arc<Self>, key: &Arc<str>, hold: HoldId, now: Moment) {
        self.pass_on(key, hold, now);
    }

    fn tasks_ended(&self) {
        self.nudge();
    }

    fn give_back(self: Arc<Self>, lease: &LeaseState, keep_until: Moment) {
        give_back(&self, lease, keep_until);
    }
}
