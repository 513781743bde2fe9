//! The state that all leases of one client share.

use std::sync::{Arc, Weak};

use super::{End, Hold, LeaseListener, LeaseState, Registry, state::HoldState};
use crate::{
    clock::Moment,
    error::LostReason,
    fence::FencingToken,
    quorum::Nodes,
    resources::Resources,
    settings::Terms,
    sync::atomic::{AtomicUsize, Ordering},
};

#[derive(Debug)]
pub(crate) struct Leases {
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) registry: Registry,
    /// Weak: the listener keeps this alive.
    pub(super) listener: Weak<dyn LeaseListener>,
    /// The number of attempts in progress, and of leases on their way to the next hold.
    in_flight: AtomicUsize,
}

impl Leases {
    pub(crate) fn new(nodes: &Arc<Nodes>, listener: Weak<dyn LeaseListener>) -> Self {
        Self {
            nodes: Arc::clone(nodes),
            registry: Registry::new(),
            listener,
            in_flight: AtomicUsize::new(0),
        }
    }

    /// A hold over a lease for which the nodes were asked at `begun`. Its `min_hold` and `max_hold` count from `taken`.
    /// A process may stand still between `begun` and the first `SET`. If `min_hold` counted from `begun`, the keys
    /// would go earlier after a release than after a crash.
    pub(crate) fn hold(
        &self,
        resources: Resources,
        lease: LeaseState,
        terms: &Terms,
        begun: Moment,
        taken: Moment,
        token: Option<FencingToken>,
    ) -> Arc<Hold> {
        let latest = terms.max_hold.map_or(Moment::NEVER, |max| taken + max);
        // A doubt that no quorum clears within this is a loss (rule 2).
        let doubt_limit = self.nodes.node_timeout * 2;
        let state = HoldState::new(lease, terms, latest, doubt_limit);
        let earliest = taken + terms.min_hold;
        let id = self.registry.fresh_id();
        Arc::new(Hold::new(id, resources, terms, begun, state, earliest, token))
    }

    /// Ends a hold. False when it had ended before.
    pub(crate) fn end(&self, hold: &Hold, end: End) -> bool {
        let has_ended = hold.end(end);
        match end {
            _ if !has_ended => {}
            End::Lost(reason) => self.tell_lost(hold, reason),
            End::Released => hold.metered.end(&*self.nodes.clock),
        }
        has_ended
    }

    /// Tells everything that waits for a hold that it was lost. A holder that has lost the lock must
    /// not block the waiters of this client, even if it keeps its guard.
    pub(super) fn tell_lost(&self, hold: &Hold, reason: LostReason) {
        hold.metered.lost(reason);
        hold.metered.end(&*self.nodes.clock);
        hold.tell_lost(reason);
        self.registry.tell_loss();
        if let Some(listener) = self.listener.upgrade() {
            let now = self.nodes.clock.now();
            for key in hold.claim().keys() {
                Arc::clone(&listener).holder_gone(key, hold.id, now);
            }
        }
    }

    /// Counts an attempt, or a lease, as in flight for as long as the returned value lives.
    pub(crate) fn track_in_flight(self: &Arc<Self>) -> InFlightGuard {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        InFlightGuard(Arc::clone(self))
    }

    /// Counts an attempt as in flight if the client `is_open`. In this order: a shutdown that is not seen yet sees what
    /// is in flight, and waits for it.
    pub(crate) fn track_if<E>(
        self: &Arc<Self>,
        is_open: impl FnOnce() -> Result<(), E>,
    ) -> Result<InFlightGuard, E> {
        let in_flight = self.track_in_flight();
        is_open().map(|()| in_flight)
    }

    /// Whether an attempt or a lease is in flight that may still leave keys to clean up.
    pub(crate) fn has_in_flight(&self) -> bool {
        self.in_flight.load(Ordering::Acquire) > 0
    }
}

/// An attempt in progress, or a lease on its way from one hold to the next.
pub(crate) struct InFlightGuard(Arc<Leases>);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use crate::Redlock;

    #[tokio::test]
    async fn an_attempt_is_in_flight_before_it_looks_whether_the_client_is_open() {
        let redlock = Redlock::in_memory(1);
        let leases = &redlock.client().leases;
        for is_open in [Ok(()), Err("closed")] {
            let entered = leases.track_if(|| {
                assert!(leases.has_in_flight(), "a shutdown would not wait for it");
                is_open
            });
            assert_eq!(leases.has_in_flight(), is_open.is_ok());
            assert_eq!(entered.err(), is_open.err());
            assert!(!leases.has_in_flight());
        }
    }
}
