//! What the clock says of a hold, and how the hold changes. Pure: nothing is sent, and no task is
//! woken, under its lock.

use std::{sync::Arc, time::Duration};

use super::{
    LeaseState,
    phase::{End, Judgement, Phase},
    validity,
};
use crate::{
    clock::{Moment, Reading},
    drift::drift,
    error::LostReason,
    node::Expected,
    quorum::Round,
    settings::Terms,
};

/// The action that a judgement calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Todo {
    Nothing,
    /// The hold was lost just now: its users and its queue have to be told.
    TellLoss(LostReason),
    /// The hold is in doubt, and no renewal has been sent since. Without one it ends at this
    /// moment.
    Renew(Moment),
}

#[derive(Debug)]
pub(crate) struct HoldState {
    lease: LeaseState,
    /// The ttl that renewals ask for. The ttl of the lease is that of the last confirmed renewal.
    renewal_ttl: Duration,
    /// The beginning of the round that chose `renewal_ttl`. An extension that began earlier does not replace it.
    asked_at: Moment,
    phase: Phase,
    /// When the renewal that is due next is to be sent; never for a hold that is not renewed.
    renew_at: Moment,
    /// The end of `max_hold`, or never.
    latest: Moment,
    /// How long a doubt may last once its renewal was sent.
    doubt_limit: Duration,
}

/// What stays of a hold that passes to another process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandOffTerms {
    pub(crate) ttl: Duration,
    pub(crate) clock_drift_factor: f64,
    pub(crate) auto_extend: bool,
    /// The end of `max_hold`, or never.
    pub(crate) latest: Moment,
}

impl HoldState {
    pub(super) fn new(
        lease: LeaseState,
        terms: &Terms,
        latest: Moment,
        doubt_limit: Duration,
    ) -> Self {
        let renew_at = validity::renewal(lease.confirmed, terms.ttl, terms.clock_drift_factor);
        Self {
            renewal_ttl: terms.ttl,
            asked_at: lease.confirmed,
            phase: Phase::Held,
            renew_at: if terms.auto_extend { renew_at } else { Moment::NEVER },
            latest,
            doubt_limit,
            lease,
        }
    }

    pub(crate) fn lease(&self) -> &LeaseState {
        &self.lease
    }

    pub(super) fn hand_off_terms(&self) -> HandOffTerms {
        HandOffTerms {
            ttl: self.renewal_ttl,
            clock_drift_factor: self.lease.clock_drift_factor,
            auto_extend: self.renew_at != Moment::NEVER,
            latest: self.latest,
        }
    }

    /// The phase that the clock puts the hold in, and when it ends without a renewal. Only the clock
    /// counts, and not how far a task has come (rule 2).
    fn phase_at(&self, reading: Reading) -> (Phase, Moment) {
        let deadline = self.lease.deadline_on(reading);
        let end = deadline.unwrap_or(self.lease.deadline).min(self.latest);
        if self.is_over() {
            return (self.phase, end);
        }
        let now = reading.now;
        let given_up =
            self.phase.doubted_since().is_some_and(|sent| now.since(sent) >= self.doubt_limit);
        let phase = if now >= end || given_up {
            let max_hold = now >= end && end == self.latest;
            let reason = if max_hold { LostReason::MaxHold } else { LostReason::Expired };
            Phase::Ended(End::Lost(reason))
        } else if self.phase == Phase::Held && deadline.is_none() {
            Phase::Doubtful { renewal_sent: None }
        } else {
            self.phase
        };
        (phase, end)
    }

    /// Judges the hold by the clock, and changes nothing.
    pub(super) fn glance(&self, reading: Reading) -> Judgement {
        let (phase, end) = self.phase_at(reading);
        phase.judgement(end.since(reading.now))
    }

    /// Judges the hold, and keeps what the clock said: an end and a doubt stay, whatever the clock
    /// says later. Returns what has to be done about it.
    pub(super) fn advance(&mut self, reading: Reading) -> (Judgement, Todo) {
        let was_over = self.is_over();
        let (phase, end) = self.phase_at(reading);
        self.phase = phase;
        if let Phase::Doubtful { .. } = phase {
            // Another client may have had the lock meanwhile: what is left of the numbers may be too
            // small.
            self.lease.range = None;
        }
        let todo = match phase {
            Phase::Ended(End::Lost(reason)) if !was_over => Todo::TellLoss(reason),
            Phase::Doubtful { renewal_sent: None } => Todo::Renew(end),
            _ => Todo::Nothing,
        };
        (phase.judgement(end.since(reading.now)), todo)
    }

    /// When the hold ends, if nothing happens until then.
    pub(super) fn end_at(&self, reading: Reading) -> Moment {
        let end = self.lease.ends_on(reading).min(self.latest);
        self.phase.doubted_since().map_or(end, |sent| end.min(sent + self.doubt_limit))
    }

    /// Whether the hold is in doubt by this reading, judged or not.
    pub(super) fn is_in_doubt(&self, clock: Reading) -> bool {
        matches!(self.phase, Phase::Doubtful { .. }) || self.lease.deadline_on(clock).is_none()
    }

    /// When it has to be looked at: at its end, or to be renewed before.
    pub(super) fn due_at(&self, reading: Reading) -> Moment {
        let end = self.end_at(reading);
        // A hold in doubt is renewed when there is room. A regular renewal that is overdue does not make it due earlier.
        if self.is_unasked() { end } else { end.min(self.renew_at) }
    }

    /// Whether the hold is in doubt, and no renewal has been sent since.
    fn is_unasked(&self) -> bool {
        matches!(self.phase, Phase::Doubtful { renewal_sent: None })
    }

    /// Whether the regular renewal of the hold is due. A hold in doubt waits for a renewal of its own.
    pub(super) fn wants_renewal(&self, now: Moment) -> bool {
        now >= self.renew_at && !self.is_unasked()
    }

    /// Plans the renewal after the one that is sent now, in case the outcome of that one stays unknown (rule 7). A
    /// `share` that changes each time puts the renewal off by up to half a pause. Otherwise, a fault that cuts the
    /// connections at a regular pace could cut off every renewal.
    pub(super) fn renew_again_after(&mut self, now: Moment, least: Duration, share: f64) {
        let pause = (self.renewal_ttl / 25).max(least);
        self.renew_at = now + pause.saturating_add((pause / 2).mul_f64(share));
    }

    /// Ends the hold. False when it had ended before.
    pub(super) fn end(&mut self, end: End) -> bool {
        let ends = !self.is_over();
        if ends {
            self.phase = Phase::Ended(end);
        }
        ends
    }

    /// Whether the hold has ended. Its keys may still be there.
    pub(crate) fn is_over(&self) -> bool {
        self.phase.end().is_some()
    }

    /// Begins the release of a hold that has ended, and returns its lease. `None` when the release
    /// had begun before. From here on, no extend can get ahead of the deletes (rule 10).
    pub(super) fn begin_release(&mut self) -> Option<LeaseState> {
        if self.has_begun_release() {
            return None;
        }
        self.phase = Phase::Releasing(self.phase.end().unwrap_or(End::Released));
        // The numbers go with the lease: each is handed out once.
        let range = self.lease.range.take();
        Some(LeaseState { range, ..self.lease.clone() })
    }

    /// Whether a release has begun. The code that began it also completes it.
    pub(super) fn has_begun_release(&self) -> bool {
        matches!(self.phase, Phase::Releasing(_))
    }

    /// Whether the hold has ended, and its keys are about to go: with its body, or because its
    /// holder released it.
    pub(super) fn is_leaving(&self, has_body: bool) -> bool {
        match self.phase {
            Phase::Releasing(_) | Phase::Ended(End::Released) => true,
            Phase::Ended(End::Lost(_)) => has_body,
            Phase::Held | Phase::Doubtful { .. } => false,
        }
    }

    /// The ttl that a renewal asks for.
    pub(crate) fn renewal_ttl(&self) -> Duration {
        self.renewal_ttl
    }

    /// Notes that a renewal is being sent. It lets the keys live for `key_ttl`, whether or not an answer
    /// comes. Returns when the hold has to be looked at again, if this is the renewal that a
    /// doubt has waited for.
    pub(crate) fn renewal_sent(&mut self, now: Moment, key_ttl: Duration) -> Option<Moment> {
        self.lease.note_sent(now, key_ttl);
        let Phase::Doubtful { renewal_sent } = &mut self.phase else { return None };
        renewal_sent.get_or_insert(now);
        Some(now + self.doubt_limit)
    }

    /// Notes that a quorum of all nodes has renewed the hold, in a round that started at `start`
    /// (rule 7). False when the renewal came too late.
    pub(super) fn renewed(
        &mut self,
        start: Reading,
        ttl: Duration,
        asked: Option<Duration>,
        round: Arc<Round>,
        reading: Reading,
    ) -> bool {
        if self.phase_at(reading).0.end().is_some() {
            return false;
        }
        let mut deadline = validity::deadline(start.now, ttl, self.lease.clock_drift_factor);
        if self.renew_at == Moment::NEVER && asked.is_none() {
            // It was renewed to clear a doubt only, and ends when it was meant to.
            deadline = deadline.min(self.lease.deadline);
        }
        // A round from before the doubt clears nothing.
        let clears = match self.phase {
            Phase::Doubtful { renewal_sent } => renewal_sent.is_some_and(|at| at <= start.now),
            Phase::Held | Phase::Ended(_) | Phase::Releasing(_) => false,
        };
        self.lease.count_from(start, deadline);
        if clears {
            self.phase = Phase::Held;
        }
        if let Some(asked) = asked
            && start.now >= self.asked_at
        {
            (self.renewal_ttl, self.asked_at) = (asked, start.now);
        }
        if start.now < self.lease.confirmed {
            // A later renewal was confirmed first.
            return true;
        }
        self.lease.note_confirmed(start.now, ttl);
        // In a doubt that this round does not clear, its answers may be late, and make no voter of a node (rule 2).
        if !self.is_in_doubt(reading) {
            self.lease.confirmed_round = round;
        }
        if self.renew_at != Moment::NEVER {
            self.renew_at = validity::renewal(start.now, ttl, self.lease.clock_drift_factor);
        }
        true
    }

    /// What should be left of the key on a node that confirmed it last time. In a doubt, none counts as such.
    pub(crate) fn expected(&self) -> Expected {
        let LeaseState { confirmed, expired_by, ttl, clock_drift_factor, .. } = &self.lease;
        Expected {
            until: *confirmed + *ttl,
            longest: expired_by.since(*confirmed),
            allowance: drift(*ttl, *clock_drift_factor),
        }
    }
}

#[cfg(test)]
mod tests;
