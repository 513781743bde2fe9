//! A lease between holders.

use std::sync::Arc;

use super::{Hold, LeaseListener, LeaseState, Leases, leases::InFlightGuard};
use crate::clock::{Moment, Reading};

/// A lease without a holder: an attempt for it is in progress, or it is on its way from one hold to
/// the next. A shutdown waits for it. Dropping it deletes its key on every node to which a `SET` of
/// it may have gone (rules 5 and 6).
///
/// It is on the heap, because it is moved often.
pub(crate) struct LeaseInTransit {
    pub(crate) lease: LeaseState,
    listener: Arc<dyn LeaseListener>,
    held: bool,
    keep_until: Moment,
    // The last field: a shutdown that finds nothing in flight finds the deletes.
    _in_flight: InFlightGuard,
}

impl LeaseInTransit {
    pub(crate) fn new(
        lease: LeaseState,
        in_flight: InFlightGuard,
        listener: Arc<dyn LeaseListener>,
    ) -> Box<Self> {
        Box::new(Self {
            lease,
            listener,
            held: false,
            keep_until: Moment::ORIGIN,
            _in_flight: in_flight,
        })
    }

    /// Has the keys stay until then if no hold gets the lease. That is the rest of the `min_hold` of the previous hold.
    pub(crate) fn keep_until(&mut self, keep_until: Moment) {
        self.keep_until = keep_until;
    }

    /// Gives the lease to this hold, which begins with this reading and is renewed from now on. If the client was
    /// closed meanwhile, the lease comes back.
    pub(crate) fn pass_to(
        self: Box<Self>,
        hold: &Arc<Hold>,
        leases: &Arc<Leases>,
        reading: Reading,
    ) -> Result<(), Box<Self>> {
        if !leases.add(hold, reading) {
            return Err(self);
        }
        hold.metered.begin();
        self.disarm();
        Ok(())
    }

    /// From now on a hold has the lease. A drop of this deletes nothing any more.
    fn disarm(mut self) {
        self.held = true;
    }
}

impl Drop for LeaseInTransit {
    fn drop(&mut self) {
        if !self.held {
            Arc::clone(&self.listener).give_back(&self.lease, self.keep_until);
        }
    }
}
