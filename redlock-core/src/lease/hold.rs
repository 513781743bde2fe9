//! A hold over a lease, and whether it has ended. A guard, its handles and a body share it.

use std::{hash::BuildHasher, pin::pin, sync::Arc, time::Duration};

use foldhash::fast::FixedState;
use tokio::sync::futures::Notified;

use super::{
    LeaseState,
    phase::{End, Judgement},
    state::{HandOffTerms, HoldState, Todo},
};
use crate::{
    clock::{Moment, Reading},
    error::{LockError, LostReason},
    fence::FencingToken,
    metrics,
    node::Claim,
    quorum::{Nodes, Round},
    resources::Resources,
    settings::Terms,
    sync::{
        Mutex, Notify,
        atomic::{AtomicBool, Ordering},
    },
    telemetry,
};

/// Tells the holds of one client apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HoldId(pub(super) u64);

/// How a claim is held, as the value of a label.
fn mode(claim: &Claim) -> &'static str {
    match claim {
        Claim { shared: true, .. } => "shared",
        Claim { permit: true, .. } => "permit",
        _ => "exclusive",
    }
}

#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) id: HoldId,
    pub(crate) resources: Resources,
    /// When the holder began to take the lock, or was handed it.
    pub(crate) since: Moment,
    /// The metrics of this hold.
    pub(crate) metered: metrics::Held,
    /// A body runs under the hold and releases it at its end, unlike a bare guard (rule 13).
    has_body: AtomicBool,
    /// The body has to end, even if it goes on after a loss (rule 13).
    is_dismissed: AtomicBool,
    state: Mutex<HoldState>,
    /// Something about the state has changed: it ended, or a doubt was cleared.
    changed: Notify,
    /// The token that the holder shows to a store, if it asked for a token.
    pub(crate) token: Option<FencingToken>,
    /// Until when `min_hold` keeps the key.
    pub(crate) earliest: Moment,
    pub(crate) min_hold: Duration,
    retry_delay: Duration,
}

impl Hold {
    pub(super) fn new(
        id: HoldId,
        resources: Resources,
        terms: &Terms,
        since: Moment,
        state: HoldState,
        earliest: Moment,
        token: Option<FencingToken>,
    ) -> Self {
        Self {
            id,
            resources,
            since,
            metered: metrics::Held::new(terms.label, since, || mode(&state.lease().claim)),
            has_body: AtomicBool::new(false),
            is_dismissed: AtomicBool::new(false),
            state: Mutex::new(state),
            changed: Notify::new(),
            token,
            earliest,
            min_hold: terms.min_hold,
            retry_delay: terms.retry_delay,
        }
    }

    /// Whether it is the hold of a reader.
    pub(crate) fn is_shared(&self) -> bool {
        self.state.lock().lease().claim.shared
    }

    /// Whether it is the hold of a permit.
    pub(crate) fn is_permit(&self) -> bool {
        self.state.lock().lease().claim.permit
    }

    /// Whether it holds all of these resources.
    pub(crate) fn covers(&self, resources: &Resources) -> bool {
        resources.as_slice().iter().all(|resource| self.resources.has(resource))
    }

    /// Whether it holds some of these resources.
    pub(crate) fn shares(&self, resources: &Resources) -> bool {
        resources.as_slice().iter().any(|resource| self.resources.has(resource))
    }

    /// Judges the hold, and returns what has to be done about it.
    pub(super) fn advance(&self, reading: Reading) -> (Judgement, Todo) {
        self.state.lock().advance(reading)
    }

    /// Judges the hold, and does nothing about it.
    pub(crate) fn glance(&self, reading: Reading) -> Judgement {
        self.state.lock().glance(reading)
    }

    /// The lease under the hold.
    pub(crate) fn lease(&self) -> LeaseState {
        self.state.lock().lease().clone()
    }

    /// What a client that takes the lock over has to know.
    pub(crate) fn hand_off_terms(&self) -> HandOffTerms {
        self.state.lock().hand_off_terms()
    }

    /// The claim, with the keys of the lock.
    pub(crate) fn claim(&self) -> Arc<Claim> {
        Arc::clone(&self.state.lock().lease().claim)
    }

    /// Ends the hold. False when it had ended before.
    pub(super) fn end(&self, end: End) -> bool {
        let has_ended = self.state.lock().end(end);
        if has_ended && end == End::Released {
            self.nudge();
        }
        has_ended
    }

    /// The ttl that a renewal asks for.
    #[cfg(test)]
    pub(super) fn renewal_ttl(&self) -> Duration {
        self.state.lock().renewal_ttl()
    }

    /// Tells the users of the hold that it was lost.
    pub(super) fn tell_lost(&self, reason: LostReason) {
        telemetry::lost(self.resources.name(), reason);
        self.nudge();
    }

    /// Begins the release of a hold that has ended, and returns its lease. `None` when the release
    /// had begun before.
    pub(crate) fn begin_release(&self) -> Option<LeaseState> {
        self.state.lock().begin_release()
    }

    /// Whether a release has begun. The code that began the release also completes it.
    pub(crate) fn has_begun_release(&self) -> bool {
        self.state.lock().has_begun_release()
    }

    /// Runs `act` under the lock under which the hold ends, unless it has ended: what `act` hands to
    /// the nodes gets there before the deletes of the release (rule 10).
    pub(super) fn while_held<T>(&self, act: impl FnOnce(&mut HoldState) -> Option<T>) -> Option<T> {
        let mut state = self.state.lock();
        if state.is_over() {
            return None;
        }
        act(&mut state)
    }

    /// Notes that a quorum of all nodes has renewed the hold, in a round that started at `start`
    /// (rule 7). False when the renewal came too late.
    pub(super) fn renewed(
        &self,
        start: Reading,
        ttl: Duration,
        asked: Option<Duration>,
        round: Arc<Round>,
        reading: Reading,
    ) -> bool {
        let renewed = self.state.lock().renewed(start, ttl, asked, round, reading);
        if renewed {
            self.nudge();
        }
        renewed
    }

    /// The work of the scheduler for a hold that has not ended.
    pub(super) fn upkeep(
        &self,
        reading: Reading,
        node_timeout: Duration,
        room: impl FnOnce() -> bool,
    ) -> Upkeep {
        let mut state = self.state.lock();
        if !state.wants_renewal(reading.now) {
            return Upkeep::Due(state.due_at(reading));
        }
        if !room() {
            return Upkeep::Waits { end: state.end_at(reading) };
        }
        // A hold has no source of random numbers. A hash is random enough here, and is the same in each run of the
        // simulation.
        let chance = FixedState::default().hash_one((self.id, reading.now.as_nanos()));
        let share =
            f64::from(u32::try_from(chance >> 32).unwrap_or_default()) / f64::from(u32::MAX);
        state.renew_again_after(reading.now, node_timeout, share);
        Upkeep::Renew { due: state.due_at(reading) }
    }

    /// When the scheduler has to look at the hold.
    pub(super) fn due_at(&self, reading: Reading) -> Moment {
        self.state.lock().due_at(reading)
    }

    /// When the hold ends, if it is not renewed before.
    pub(super) fn end_at(&self, reading: Reading) -> Moment {
        self.state.lock().end_at(reading)
    }

    pub(crate) fn lost_error(&self, end: End) -> LockError {
        let reason = match end {
            End::Lost(reason) => reason,
            // The holder released the lock itself: there is nothing left to rely on.
            End::Released => LostReason::Expired,
        };
        LockError::Lost { resource: self.resources.name().to_owned(), reason }
    }

    /// The error when the hold ended before any work ran under it. The lock was never given, so
    /// this is no loss. `is_closed` when the client gives no locks any more.
    pub(crate) fn unused_error(&self, end: End, nodes: &Nodes, is_closed: bool) -> LockError {
        let resource = self.resources.name().to_owned();
        let LeaseState { confirmed_round, .. } = self.lease();
        // Not since the lease began: other tasks may have had it before.
        let (attempts, waited) = (1, nodes.clock.now().since(self.since));
        let by_this_client = match end {
            End::Lost(LostReason::Shutdown) if is_closed => {
                return LockError::ShuttingDown { resource };
            }
            // The quorum came too late for this body.
            End::Lost(LostReason::Expired) | End::Released => {
                return LockError::NoQuorum {
                    resource,
                    attempts,
                    waited,
                    granted: confirmed_round.yes(),
                    quorum: nodes.quorum(),
                    nodes: Vec::new(),
                };
            }
            // No node has failed. This client itself ended the lock, or it was taken over.
            End::Lost(LostReason::Shutdown | LostReason::MaxHold) => true,
            End::Lost(LostReason::Refused) => false,
        };
        LockError::Held {
            resource,
            attempts,
            waited,
            by_this_client,
            retry_after: self.retry_delay,
            nodes: Vec::new(),
            max_waiters_reached: false,
        }
    }

    /// The votes of the last confirmed round, if the hold has not ended.
    pub(crate) fn votes(&self, reading: Reading) -> usize {
        if let Judgement::Ended(_) = self.glance(reading) {
            return 0;
        }
        let round = Arc::clone(&self.state.lock().lease().confirmed_round);
        round.yes()
    }

    /// Whether the hold has ended, and its keys are about to be released.
    pub(crate) fn is_leaving(&self) -> bool {
        self.state.lock().is_leaving(self.is_body())
    }

    /// Whether the hold has ended. Its keys may still be there.
    pub(crate) fn is_over(&self) -> bool {
        self.state.lock().is_over()
    }

    /// Notes that a body runs under the hold.
    pub(crate) fn mark_body(&self) {
        self.has_body.store(true, Ordering::Release);
    }

    pub(crate) fn is_body(&self) -> bool {
        self.has_body.load(Ordering::Acquire)
    }

    /// Tells the body that it has to end: a shutdown drops bodies, also those that go on after a loss
    /// (rule 13).
    pub(crate) fn dismiss(&self) {
        self.is_dismissed.store(true, Ordering::Release);
        self.nudge();
    }

    /// Resolves when the body has to end.
    pub(crate) async fn dismissed(self: Arc<Self>) {
        while !self.is_dismissed.load(Ordering::Acquire) {
            let mut changed = pin!(self.changed());
            changed.as_mut().enable();
            if !self.is_dismissed.load(Ordering::Acquire) {
                changed.await;
            }
        }
    }

    /// Resolves when the state has changed.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Wakes every task that waits for a change, to look again.
    pub(crate) fn nudge(&self) {
        self.changed.notify_waiters();
    }
}

/// The work of the scheduler for a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Upkeep {
    /// Nothing before this moment.
    Due(Moment),
    /// It needs a renewal, for which there is no room yet. Without a renewal it ends at `end`.
    Waits { end: Moment },
    /// It needs a renewal, for which room was taken, and is due again at `due`.
    Renew { due: Moment },
}
