//! The state that a guard, its handles and a body share: held, in doubt, or ended.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{runtime::Id, sync::Notify};

use super::{
    HoldId, LeaseState, Start,
    state::{End, HoldState, Judgement, Todo},
};
use crate::{
    bug::{Bug, planted},
    client::Client,
    clock::{Moment, Reading},
    error::{LockError, LostReason},
    fence::FencingToken,
    metrics,
    op::extend,
    options::Terms,
    quorum::{Round, quorum},
    telemetry, timer,
};

#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) client: Arc<Client>,
    pub(crate) id: HoldId,
    pub(crate) resource: String,
    label: &'static str,
    metered: metrics::Held,
    /// A body runs under the hold and releases it at its end, unlike a bare guard (rule 13).
    has_body: AtomicBool,
    pub(crate) state: Mutex<HoldState>,
    /// Something about the state has changed: it ended, or a doubt was cleared.
    changed: Notify,
    /// What the holder shows to a store, if it asked for that.
    pub(crate) token: Option<FencingToken>,
    /// Until when `min_hold` keeps the key.
    pub(crate) earliest: Moment,
}

impl Hold {
    /// A hold over a lease that was taken, or was taken over at `begun`.
    pub(crate) fn new(
        client: &Arc<Client>,
        resource: String,
        lease: LeaseState,
        terms: &Terms,
        begun: Moment,
        token: Option<FencingToken>,
    ) -> Self {
        let latest = terms.max_hold.map_or(Moment::NEVER, |max| client.clock.now() + max);
        // A doubt that no quorum clears within this is a loss (rule 2).
        let doubt_limit = client.settings.node_timeout * 2;
        Self {
            client: Arc::clone(client),
            id: client.registry.fresh_id(),
            resource,
            label: terms.label,
            metered: metrics::Held::new(terms.label, begun),
            has_body: AtomicBool::new(false),
            changed: Notify::new(),
            token,
            earliest: begun + terms.min_hold,
            state: Mutex::new(HoldState::new(lease, terms, latest, doubt_limit)),
        }
    }

    /// Judges the hold and acts on the judgement: a hold whose time has run out ends and makes way
    /// for the next waiter, and a hold in doubt is renewed. Must not be called with a lock of queues
    /// or holds held.
    pub(crate) fn judge(self: &Arc<Self>) -> Judgement {
        self.judge_now().0
    }

    /// Judges the hold like [`judge`](Self::judge), and returns the reading that it was judged by.
    pub(crate) fn judge_now(self: &Arc<Self>) -> (Judgement, Reading) {
        let reading = self.client.registry.look(&*self.client.clock);
        let (judgement, todo) = self.state.lock().judge(reading);
        match todo {
            Todo::Nothing => {}
            Todo::TellLoss(reason) => self.tell_lost(reason),
            Todo::Renew(end) => self.renew_in_turn(end),
        }
        (judgement, reading)
    }

    /// Sends a renewal, or queues the hold for one when too many are in progress. Without a renewal
    /// the hold ends at `end`: holds that end first are renewed first.
    fn renew_in_turn(self: &Arc<Self>, end: Moment) {
        match self.client.registry.room() {
            Some(room) => extend::renew(self, Some(room)),
            None => self.client.registry.await_turn(self.id, end),
        }
    }

    /// How long until the hold has to be looked at.
    fn left(&self) -> Duration {
        let reading = self.client.clock.read();
        self.state.lock().end_at(reading).since(reading.now)
    }

    /// Whether the hold may be relied on now. Judges like [`judge`](Self::judge), without acting on
    /// the judgement.
    #[cfg(redlock_sim)]
    pub(crate) fn glance(&self) -> bool {
        let mut state = self.state.lock().clone();
        let (judgement, _) = state.judge(self.client.clock.read());
        matches!(judgement, Judgement::Valid(_))
    }

    pub(crate) fn validity(self: &Arc<Self>) -> Duration {
        // A holder that only reads its validity renews from its own runtime when the runtime of the
        // scheduler has ended (rule 13).
        self.client.ensure_running();
        match self.judge() {
            Judgement::Valid(left) => left,
            Judgement::Doubtful | Judgement::Ended(_) => Duration::ZERO,
        }
    }

    /// Ends the hold. False when it had ended before.
    pub(crate) fn end(&self, end: End) -> bool {
        if !self.state.lock().end(end) {
            return false;
        }
        match end {
            End::Lost(reason) => self.tell_lost(reason),
            End::Released => {
                self.metered.end(&*self.client.clock);
                self.changed.notify_waiters();
            }
        }
        true
    }

    pub(crate) fn label(&self) -> &'static str {
        self.label
    }

    /// What is counted of this hold.
    pub(crate) fn metered(&self) -> &metrics::Held {
        &self.metered
    }

    fn tell_lost(&self, reason: LostReason) {
        self.metered.lost(reason);
        self.metered.end(&*self.client.clock);
        telemetry::lost(&self.resource, reason);
        self.changed.notify_waiters();
        self.client.registry.tell_loss();
        // A holder that has lost the lock must not block the waiters of this client, even if it
        // keeps its guard.
        let key = Arc::clone(&self.state.lock().lease.claim.key);
        self.client.queues.holder_gone(&self.client, &key, self.id, self.client.clock.now());
    }

    pub(crate) fn lost_error(&self, end: End) -> LockError {
        let reason = match end {
            End::Lost(reason) => reason,
            // The holder released the lock itself: there is nothing left to rely on.
            End::Released => LostReason::Expired,
        };
        LockError::Lost { resource: self.resource.clone(), reason }
    }

    /// The error when the hold ended before any work ran under it: the lock was not given, so it is
    /// no loss.
    pub(crate) fn unused_error(&self, end: End) -> LockError {
        let resource = self.resource.clone();
        if end == End::Lost(LostReason::Shutdown) {
            return LockError::ShuttingDown { resource };
        }
        let (since, round) = {
            let LeaseState { since, confirmed_round, .. } = &self.state.lock().lease;
            (*since, Arc::clone(confirmed_round))
        };
        LockError::NoQuorum {
            resource,
            attempts: 1,
            waited: self.client.clock.now().since(since),
            granted: round.yes(),
            quorum: quorum(self.client.nodes.len()),
            nodes: Vec::new(),
        }
    }

    /// A quorum of all nodes has renewed the hold, in a round that started at `start` (rule 7).
    /// False when the renewal came too late.
    pub(crate) fn renewed(
        &self,
        start: &Start,
        ttl: Duration,
        asked: Option<Duration>,
        round: Arc<Round>,
    ) -> bool {
        let reading = self.client.clock.read();
        let renewed = self.state.lock().renewed(start, ttl, asked, round, reading);
        if renewed {
            self.changed.notify_waiters();
        }
        renewed
    }

    /// So many nodes no longer have the key that a quorum is impossible (rule 7).
    pub(crate) fn refused(&self) {
        self.end(End::Lost(LostReason::Refused));
    }

    /// What the scheduler does when the hold is due: ends it, renews it, or does nothing. Returns
    /// when the hold is due next, if ever.
    pub(crate) fn tend(self: &Arc<Self>) -> Option<Moment> {
        let node_timeout = self.client.settings.node_timeout;
        if let Judgement::Ended(_) = self.judge() {
            if planted(Bug::RenewalOutlivesRelease) {
                extend::renew(self, None);
                return Some(self.client.clock.now() + node_timeout);
            }
            return None;
        }
        let reading = self.client.clock.read();
        let mut state = self.state.lock();
        if !state.wants_renewal(reading.now) {
            return Some(state.due_at(reading));
        }
        let end = state.end_at(reading);
        let Some(room) = self.client.registry.room() else {
            drop(state);
            self.client.registry.await_turn(self.id, end);
            return Some(end);
        };
        state.renew_again_after(reading.now, node_timeout);
        let due = state.due_at(reading);
        drop(state);
        extend::renew(self, Some(room));
        Some(due)
    }

    /// When the scheduler has to look at the hold.
    pub(super) fn due_at(&self, reading: Reading) -> Moment {
        self.state.lock().due_at(reading)
    }

    /// When the hold ends, if it is not renewed before.
    pub(super) fn end_at(&self, reading: Reading) -> Moment {
        self.state.lock().end_at(reading)
    }

    pub(crate) fn votes(&self) -> usize {
        let round = {
            let state = self.state.lock();
            if state.is_over() {
                return 0;
            }
            Arc::clone(&state.lease.confirmed_round)
        };
        round.yes()
    }

    /// The hold has ended, and its keys are about to be released.
    pub(crate) fn is_leaving(&self) -> bool {
        self.state.lock().is_leaving(self.is_body())
    }

    /// The hold has ended, whether or not its keys were released.
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

    /// Wakes every task that waits for a change, to look again.
    pub(crate) fn nudge(&self) {
        self.changed.notify_waiters();
    }
}

/// Resolves once `done` accepts the hold's judgement. The hold is judged now and at each change.
pub(crate) async fn until(hold: Arc<Hold>, mut done: impl FnMut(Judgement) -> bool) {
    loop {
        // A runtime that ended took the scheduler with it: the waiting task starts it again (rule
        // 13).
        hold.client.ensure_running();
        let mut changed = std::pin::pin!(hold.changed.notified());
        changed.as_mut().enable();
        if done(hold.judge()) {
            return;
        }
        // The clock alone ends a hold (rule 9), but a task has to look at it. The scheduler does
        // so, unless its runtime stands still: then this task does, on its own runtime.
        let mut alarm: Option<(Id, BoxFuture<'static, ()>)> = None;
        poll_fn(|cx| {
            if changed.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let Some(here) = hold.client.registry.elsewhere() else { return Poll::Pending };
            hold.client.registry.stand_by(&hold.client);
            // A timer belongs to its runtime, which may end before this future does.
            let (_, alarm) = match &mut alarm {
                Some(alarm) if alarm.0 == here => alarm,
                alarm => alarm.insert((here, Box::pin(timer::sleep(hold.left())))),
            };
            alarm.as_mut().poll(cx)
        })
        .await;
    }
}
