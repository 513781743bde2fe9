//! Judging a hold, and doing what its judgement calls for. A hold that has run out of time ends and makes way for the
//! next waiter. A hold in doubt is renewed. The clock alone ends a hold, without an answer of any node (rule 9).

use std::sync::Arc;

use super::{Hold, Judgement, Leases, hold::Upkeep, state::Todo};
use crate::clock::{Moment, Reading};

impl Leases {
    /// Judges a hold now. Must not be called with a lock of queues or holds held.
    pub(crate) fn judge(self: &Arc<Self>, hold: &Arc<Hold>) -> Judgement {
        self.judge_now(hold).0
    }

    /// Judges a hold like [`judge`](Self::judge), and returns the reading that it was judged by.
    pub(crate) fn judge_now(self: &Arc<Self>, hold: &Arc<Hold>) -> (Judgement, Reading) {
        let reading = self.nodes.clock.read();
        let (judgement, todo) = hold.advance(reading);
        match todo {
            Todo::Nothing => {}
            Todo::TellLoss(reason) => self.tell_lost(hold, reason),
            Todo::Renew(end) => self.renew_or_wait(hold, end),
        }
        (judgement, reading)
    }

    /// Sends a renewal, or queues the hold for one when too many are in progress. Without a renewal
    /// the hold ends at `end`: holds that end first are renewed first.
    fn renew_or_wait(self: &Arc<Self>, hold: &Arc<Hold>, end: Moment) {
        match self.registry.room() {
            Some(room) => self.renew(hold, Some(room)),
            None => self.registry.await_room(hold.id, end),
        }
    }

    /// Ends a hold that is due, renews it, or does nothing, for the scheduler. Returns when the
    /// hold is due next, if ever.
    pub(super) fn tend(self: &Arc<Self>, hold: &Arc<Hold>) -> Option<Moment> {
        let node_timeout = self.nodes.node_timeout;
        if let Judgement::Ended(_) = self.judge(hold) {
            return None;
        }
        let mut room = None;
        let upkeep = hold.upkeep(self.nodes.clock.read(), node_timeout, || {
            room = self.registry.room();
            room.is_some()
        });
        match upkeep {
            Upkeep::Due(at) => Some(at),
            Upkeep::Waits { end } => {
                self.registry.await_room(hold.id, end);
                Some(end)
            }
            Upkeep::Renew { due } => {
                self.renew(hold, room);
                Some(due)
            }
        }
    }
}
