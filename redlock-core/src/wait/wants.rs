//! What a request asks of the queue, and the answer to a request without a turn.

use std::{sync::Arc, time::Duration};

use super::{failed_attempt::FailedAttempt, pace::MIN_PAUSE};
use crate::{clock::Reading, lease::LeaseState, settings::Terms};

/// The conditions under which a request takes a lease over as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wants {
    ttl: Duration,
    clock_drift_factor: f64,
    /// The request has a `min_hold`: the keys have to live longer than the ttl and are set anew.
    min_hold: bool,
    /// The request wants one of so many permits.
    permits: Option<u32>,
    /// The request wants the lock as one of its readers, each of which has a lease of its own.
    pub(super) shared: bool,
    /// The request wants several keys, and no lease of a hold before has the same.
    is_set: bool,
    /// The request wants a fencing token.
    pub(super) fenced: bool,
    /// The request makes one attempt at most, because it does not wait or may not retry. The
    /// outcome of the attempt in progress is its answer, too.
    pub(crate) tries_once: bool,
    /// The pause between two attempts of the request. An answer of the nodes that is no older than this is fresh
    /// enough for it.
    pub(super) retry_delay: Duration,
}

impl Wants {
    pub(crate) fn new(terms: &Terms, is_set: bool) -> Self {
        Self {
            ttl: terms.ttl,
            clock_drift_factor: terms.clock_drift_factor,
            min_hold: !terms.min_hold.is_zero(),
            permits: terms.permits,
            shared: terms.shared,
            is_set,
            fenced: terms.fenced,
            tries_once: terms.wait.is_zero() || terms.retry_count == Some(0),
            retry_delay: terms.retry_delay,
        }
    }

    /// Whether a front that asks every `pace` is too slow for this request.
    pub(super) fn hurries(&self, pace: Duration) -> bool {
        // No front asks more often than this, whatever its own delay is.
        self.tries_once || self.retry_delay.max(MIN_PAUSE) < pace
    }

    /// Whether a permit that this request is given suits the other one as well.
    pub(super) fn shares_permits_with(&self, other: &Self) -> bool {
        let drift = self.clock_drift_factor.total_cmp(&other.clock_drift_factor);
        self.permits == other.permits
            && self.ttl == other.ttl
            && drift.is_eq()
            && !self.min_hold
            && !other.min_hold
    }

    /// Whether a lease is good enough to be taken over. What is left of it must not be less than
    /// what a holder has when it renews. After a crash, its keys must be gone when the next holder
    /// expects that.
    ///
    /// A lease is for one thing: the name of a lock may read like that of the queue of readers, or of permits, of
    /// another lock.
    pub(super) fn fits(&self, lease: &LeaseState, clock: Reading) -> bool {
        !self.min_hold
            && !self.is_set
            && !lease.claim.is_set()
            && !self.shared
            && !lease.claim.shared
            && self.permits.is_some() == lease.claim.permit
            && self.clock_drift_factor.total_cmp(&lease.clock_drift_factor).is_eq()
            && lease.deadline_on(clock).is_some_and(|it| it.since(clock.now) >= self.ttl * 2 / 3)
            && lease.expired_by.since(clock.now) <= self.ttl
    }
}

/// The reason why there is no turn.
#[derive(Debug, Clone)]
pub(crate) enum NoTurn {
    /// This client itself has the lock.
    HeldHere,
    /// The last attempt failed like this.
    Failed(Arc<FailedAttempt>),
    /// Nothing is known yet.
    Busy,
    /// `max_waiters` tasks wait already: behind a hold of this client, or behind a front whose `last` attempt failed.
    Full { held_here: bool, last: Option<Arc<FailedAttempt>> },
    /// No turns are given any more.
    Closed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Redlock, options::LockOptions};

    #[test]
    fn a_permit_suits_tasks_that_would_have_taken_it_on_the_same_terms() {
        const SECOND: Duration = Duration::from_secs(1);
        let redlock = Redlock::in_memory(1);
        let wants = |options: &LockOptions| {
            Wants::new(&redlock.client().settings.terms(options).unwrap(), false)
        };
        let options = LockOptions::new().permits(8).ttl(9 * SECOND);
        for (other, suits) in [
            (options.clone().wait(SECOND), true),
            (options.clone().permits(7), false),
            (options.clone().ttl(8 * SECOND), false),
            (options.clone().min_hold(SECOND), false),
            (options.clone().clock_drift_factor(0.02), false),
        ] {
            let [one, other] = [wants(&options), wants(&other)];
            assert_eq!(one.shares_permits_with(&other), suits, "{other:?}");
            assert_eq!(other.shares_permits_with(&one), suits, "{other:?}");
        }
    }
}
