//! A lease between holders.

use super::Lease;
use crate::{
    bug::{Bug, planted},
    client::Arriving,
    op::release,
};

/// A lease without a holder: an attempt for it is in progress, or it is on its way from one hold to
/// the next. A shutdown waits for it. Dropping it deletes its key on every node to which a `SET` of
/// it may have gone (rules 5 and 6).
pub(crate) struct Unheld {
    pub(crate) lease: Lease,
    arriving: Arriving,
    held: bool,
}

impl Unheld {
    pub(crate) fn new(lease: Lease, arriving: Arriving) -> Self {
        Self { lease, arriving, held: false }
    }

    /// A hold has the lease from now on.
    pub(crate) fn taken(mut self) {
        self.held = true;
    }
}

impl Drop for Unheld {
    fn drop(&mut self) {
        if !self.held && !planted(Bug::NoReleaseAfterFailure) {
            release::give_back(self.arriving.client(), &self.lease);
        }
    }
}
