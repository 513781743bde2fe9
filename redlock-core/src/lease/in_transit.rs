//! A lease between holders.

use super::LeaseState;
use crate::{
    bug::{Bug, planted},
    client::InFlightGuard,
    op::release,
};

/// A lease without a holder: an attempt for it is in progress, or it is on its way from one hold to
/// the next. A shutdown waits for it. Dropping it deletes its key on every node to which a `SET` of
/// it may have gone (rules 5 and 6).
pub(crate) struct LeaseInTransit {
    pub(crate) lease: LeaseState,
    in_flight: InFlightGuard,
    held: bool,
}

impl LeaseInTransit {
    pub(crate) fn new(lease: LeaseState, in_flight: InFlightGuard) -> Self {
        Self { lease, in_flight, held: false }
    }

    /// A hold has the lease from now on.
    pub(crate) fn disarm(mut self) {
        self.held = true;
    }
}

impl Drop for LeaseInTransit {
    fn drop(&mut self) {
        if !self.held && !planted(Bug::NoReleaseAfterFailure) {
            release::give_back(self.in_flight.client(), &self.lease);
        }
    }
}
