//! The state that a guard, its handles and a body share: held, in doubt, or ended.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{runtime::Id, sync::Notify, time::Sleep};

use super::{HoldId, Lease, Start, validity};
use crate::{
    bug::{Bug, planted},
    client::Client,
    clock::{Moment, Reading},
    error::{LockError, LostReason},
    node::Expected,
    op::extend,
    options::Terms,
    quorum::{Round, quorum},
    telemetry,
};

/// How a hold ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Its holder let go.
    Released,
    /// It was lost (rule 9).
    Lost(LostReason),
}

/// Whether a hold may be relied on at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// For this much longer.
    Valid(Duration),
    /// Real time has run ahead: nothing may rely on it until a renewal has cleared it (rule 2).
    Doubtful,
    Ended(End),
}

/// A judgement, and what has to be done about it once no lock is held.
struct Verdict {
    judgement: Judgement,
    effect: Effect,
}

enum Effect {
    None,
    TellLost(LostReason),
    Renew,
}

impl From<Judgement> for Verdict {
    fn from(judgement: Judgement) -> Self {
        Self { judgement, effect: Effect::None }
    }
}

#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) client: Arc<Client>,
    pub(crate) id: HoldId,
    pub(crate) resource: String,
    /// A body runs under it, whose end lets go of it, as opposed to a bare guard (rule 13).
    pub(crate) has_body: AtomicBool,
    pub(crate) state: Mutex<State>,
    /// Something about the state has changed: it ended, or a doubt was cleared.
    changed: Notify,
    auto_extend: bool,
    /// The end of `max_hold`, or never.
    latest: Moment,
    /// Until when `min_hold` keeps the key.
    pub(crate) earliest: Moment,
}

#[derive(Debug)]
#[cfg_attr(redlock_sim, derive(Clone))]
pub(crate) struct State {
    pub(crate) lease: Lease,
    /// What renewals ask for; that of the lease is what the last confirmed one asked for.
    pub(crate) renewal_ttl: Duration,
    pub(crate) ended: Option<End>,
    /// Since when it is in doubt.
    doubt: Option<Moment>,
    /// Deleting or passing on has begun: whoever set this sees it through.
    pub(crate) let_go: bool,
    /// When the renewal that is due next is to be sent.
    renew_at: Moment,
}

impl Hold {
    /// A hold over a lease that was taken or, at `begun`, taken over.
    pub(crate) fn new(
        client: &Arc<Client>,
        resource: String,
        lease: Lease,
        terms: &Terms,
        begun: Moment,
    ) -> Self {
        Self {
            client: Arc::clone(client),
            id: client.registry.fresh_id(),
            resource,
            has_body: AtomicBool::new(false),
            changed: Notify::new(),
            auto_extend: terms.auto_extend,
            latest: terms.max_hold.map_or(Moment::NEVER, |max| client.clock.now() + max),
            earliest: begun + terms.min_hold,
            state: Mutex::new(State {
                renew_at: validity::renewal(lease.confirmed.now, terms.ttl),
                lease,
                renewal_ttl: terms.ttl,
                ended: None,
                doubt: None,
                let_go: false,
            }),
        }
    }

    /// Judges the hold by the clock, never by what some task has got round to (rule 2), and does
    /// what comes of that: a hold whose time has run out ends here, and makes way for the next in
    /// line; one in doubt is renewed. Not to be called with a lock of lines or holds in hand.
    pub(crate) fn judge(self: &Arc<Self>) -> Judgement {
        let reading = self.client.registry.look(&*self.client.clock);
        let Verdict { judgement, effect } = {
            let mut state = self.state.lock();
            self.judge_locked(&mut state, reading)
        };
        match effect {
            Effect::None => {}
            Effect::TellLost(reason) => self.tell_lost(reason),
            Effect::Renew => {
                // One renewal at once; the answer clears the doubt or ends the hold.
                extend::renew(self);
                self.client.registry.schedule(self.id, reading.now + self.doubt_limit());
            }
        }
        judgement
    }

    fn judge_locked(&self, state: &mut State, reading: Reading) -> Verdict {
        if let Some(end) = state.ended {
            return Judgement::Ended(end).into();
        }
        let now = reading.now;
        let end = state.lease.ends_on(reading).min(self.latest);
        let reason = if now >= end {
            Some(if end == self.latest { LostReason::MaxHold } else { LostReason::Expired })
        } else {
            state
                .doubt
                .filter(|since| now.since(*since) >= self.doubt_limit())
                .map(|_| LostReason::Expired)
        };
        if let Some(reason) = reason {
            state.ended = Some(End::Lost(reason));
            let judgement = Judgement::Ended(End::Lost(reason));
            return Verdict { judgement, effect: Effect::TellLost(reason) };
        }
        if state.lease.deadline_on(reading).is_none() {
            let effect = if state.doubt.is_none() { Effect::Renew } else { Effect::None };
            state.doubt.get_or_insert(now);
            return Verdict { judgement: Judgement::Doubtful, effect };
        }
        state.doubt = None;
        Judgement::Valid(end.since(now)).into()
    }

    /// When it has to be looked at, at the latest.
    fn end_at(&self, state: &State, reading: Reading) -> Moment {
        let deadline = state.lease.ends_on(reading);
        let end = deadline.min(self.latest);
        state.doubt.map_or(end, |since| end.min(since + self.doubt_limit()))
    }

    /// How long until it has to be looked at.
    fn left(&self) -> Duration {
        let reading = self.client.clock.read();
        self.end_at(&self.state.lock(), reading).since(reading.now)
    }

    /// Whether it may be relied on now, as [`judge`](Self::judge) finds it, without what comes of
    /// judging.
    #[cfg(redlock_sim)]
    pub(crate) fn glance(&self) -> bool {
        let mut state = self.state.lock().clone();
        let verdict = self.judge_locked(&mut state, self.client.clock.read());
        matches!(verdict.judgement, Judgement::Valid(_))
    }

    /// A doubt that no quorum clears within this is a loss (rule 2).
    fn doubt_limit(&self) -> Duration {
        self.client.settings.node_timeout * 2
    }

    pub(crate) fn validity(self: &Arc<Self>) -> Duration {
        match self.judge() {
            Judgement::Valid(left) => left,
            Judgement::Doubtful | Judgement::Ended(_) => Duration::ZERO,
        }
    }

    /// Ends the hold; false when it had ended before.
    pub(crate) fn end(&self, end: End) -> bool {
        {
            let mut state = self.state.lock();
            if state.ended.is_some() {
                return false;
            }
            state.ended = Some(end);
        }
        match end {
            End::Lost(reason) => self.tell_lost(reason),
            End::Released => self.changed.notify_waiters(),
        }
        true
    }

    fn tell_lost(&self, reason: LostReason) {
        telemetry::lost(&self.resource, reason);
        self.changed.notify_waiters();
        self.client.registry.tell_loss();
        // Who has lost it does not stand in the way of who waits, whatever becomes of his guard.
        let key = Arc::clone(&self.state.lock().lease.claim.key);
        self.client.lines.vacate(&self.client, &key, self.id);
    }

    pub(crate) fn lost_error(&self, end: End) -> LockError {
        let reason = match end {
            End::Lost(reason) => reason,
            // Asked of a hold that its own holder let go: there is nothing left to rely on.
            End::Released => LostReason::Expired,
        };
        LockError::Lost { resource: self.resource.clone(), reason }
    }

    /// The same before anything ran under it: then it is no loss, but a lock that was not given.
    pub(crate) fn unused_error(&self, end: End) -> LockError {
        let resource = self.resource.clone();
        if end == End::Lost(LostReason::Shutdown) {
            return LockError::ShuttingDown { resource };
        }
        let (since, round) = {
            let Lease { since, confirmed_round, .. } = &self.state.lock().lease;
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

    /// A quorum of all nodes has renewed it, in a round that started at `start` (rule 7).
    /// False when that came too late.
    pub(crate) fn renewed(
        &self,
        start: &Start,
        ttl: Duration,
        asked: Option<Duration>,
        round: Arc<Round>,
    ) -> bool {
        let reading = self.client.clock.read();
        let mut state = self.state.lock();
        if state.ended.is_some() || reading.now >= state.lease.ends_on(reading) {
            return false;
        }
        let started = start.reading;
        let deadline = validity::deadline(started.now, ttl, state.lease.clock_drift_factor);
        // The old one stands if it is later, unless it was in doubt when this round started.
        if state.lease.deadline_on(started).is_none_or(|old| deadline > old) {
            state.lease.deadline = deadline;
            state.lease.counts_from = start.clone();
        }
        state.lease.confirmed = started;
        state.lease.ttl = ttl;
        state.lease.confirmed_round = round;
        state.renewal_ttl = asked.unwrap_or(state.renewal_ttl);
        state.doubt = None;
        state.renew_at = validity::renewal(started.now, ttl);
        drop(state);
        self.changed.notify_waiters();
        true
    }

    /// What should be left of the key on a node that has confirmed it last time.
    pub(crate) fn expected(&self, state: &State) -> Expected {
        let Lease { confirmed, expired_by, ttl, clock_drift_factor, .. } = &state.lease;
        Expected {
            until: confirmed.now + *ttl,
            longest: expired_by.since(confirmed.now),
            allowance: validity::drift(*ttl, *clock_drift_factor),
        }
    }

    /// So many nodes no longer have it that a quorum is impossible (rule 7).
    pub(crate) fn refused(&self) {
        self.end(End::Lost(LostReason::Refused));
    }

    /// What the scheduler does when the hold is due: end it, renew it, or look again later.
    /// Answers when it is due next, or never, and the renewal that is under way.
    pub(crate) fn tend(self: &Arc<Self>) -> (Option<Moment>, Option<Arc<Round>>) {
        if let Judgement::Ended(_) = self.judge() {
            if planted(Bug::RenewalOutlivesRelease) {
                let again = self.client.clock.now() + self.client.settings.node_timeout;
                return (Some(again), extend::renew(self));
            }
            return (None, None);
        }
        let reading = self.client.clock.read();
        let (due, renew) = {
            let mut state = self.state.lock();
            let wake = self.end_at(&state, reading);
            if !self.auto_extend {
                (wake, false)
            } else if reading.now < state.renew_at {
                (wake.min(state.renew_at), false)
            } else {
                // Unknown keeps the old deadline and tries again (rule 7).
                let again = (state.renewal_ttl / 20).max(self.client.settings.node_timeout);
                state.renew_at = reading.now + again;
                (wake.min(state.renew_at), true)
            }
        };
        let renewal = renew.then(|| extend::renew(self)).flatten();
        (Some(due), renewal)
    }

    /// When the scheduler has to look at a hold that is new.
    pub(crate) fn first_due(&self) -> Moment {
        let reading = self.client.clock.read();
        let state = self.state.lock();
        let end = self.end_at(&state, reading);
        if self.auto_extend { end.min(state.renew_at) } else { end }
    }

    pub(crate) fn votes(&self) -> usize {
        let round = {
            let state = self.state.lock();
            if state.ended.is_some() {
                return 0;
            }
            Arc::clone(&state.lease.confirmed_round)
        };
        round.yes()
    }

    /// It has ended, and somebody is about to let go of its keys: its body, when it has gone, or who
    /// has begun to.
    pub(crate) fn is_leaving(&self) -> bool {
        let state = self.state.lock();
        let by_hand = state.let_go || state.ended == Some(End::Released);
        state.ended.is_some() && (by_hand || self.is_body())
    }

    /// It has ended, whether or not its keys were let go of.
    pub(crate) fn is_over(&self) -> bool {
        self.state.lock().ended.is_some()
    }

    pub(crate) fn is_body(&self) -> bool {
        self.has_body.load(Ordering::Acquire)
    }

    /// Wakes everybody who waits for a change, to look again.
    pub(crate) fn nudge(&self) {
        self.changed.notify_waiters();
    }
}

/// Resolves once `done` says so of the hold's judgement, looked at now and at each change.
pub(crate) async fn until(hold: Arc<Hold>, mut done: impl FnMut(Judgement) -> bool) {
    loop {
        // A runtime that ended took the scheduler with it; whoever waits starts it again
        // (rule 13).
        hold.client.ensure_running();
        let mut changed = std::pin::pin!(hold.changed.notified());
        changed.as_mut().enable();
        if done(hold.judge()) {
            return;
        }
        // The clock is enough to end it (rule 9), and somebody has to look at it. As a rule that is
        // the scheduler; if that one's runtime stands still, this one's need not.
        let mut alarm: Option<(Id, Pin<Box<Sleep>>)> = None;
        poll_fn(|cx| {
            if changed.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let Some(here) = hold.client.registry.elsewhere() else { return Poll::Pending };
            // A timer is its runtime's, which may end before this future does.
            let (_, alarm) = match &mut alarm {
                Some(alarm) if alarm.0 == here => alarm,
                alarm => alarm.insert((here, Box::pin(tokio::time::sleep(hold.left())))),
            };
            alarm.as_mut().poll(cx)
        })
        .await;
    }
}
