//! A lock on its way from one process to another.

use std::{fmt, time::Duration};

use crate::{clock::Moment, fence::FencingToken, lease::Hold, resources::Resources, token::Token};

/// A lock on its way to another process. [`LockGuard::into_lease`](crate::LockGuard::into_lease) makes it, and
/// [`Redlock::adopt`](crate::Redlock::adopt) takes it over, once.
///
/// No client renews it on the way. If no client adopts it in time, it expires like the lock of a
/// client that crashed. With the feature `serde` it can be serialized in any format. Keep that text secret
/// while the lease is valid: a client that has it can take the lock. Its content is not meant to be read. It carries
/// the version of its format, and a release of this crate refuses any other version.
#[must_use = "a lease that no client adopts blocks the resource until it expires"]
pub struct Lease {
    pub(super) resources: Resources,
    /// The value of its keys.
    pub(super) value: String,
    /// The end of its validity, as the wall clock of the old holder showed it, since the Unix epoch.
    pub(super) valid_until: Duration,
    pub(super) ttl: Duration,
    pub(super) clock_drift_factor: f64,
    pub(super) auto_extend: bool,
    pub(super) fencing_token: Option<FencingToken>,
    /// The ends of `min_hold` and `max_hold` by that clock.
    pub(super) min_hold_until: Option<Duration>,
    pub(super) max_hold_until: Option<Duration>,
    /// When its keys expire by themselves by that clock: later than the lease, after an extension that was longer.
    pub(super) keys_until: Duration,
    /// The servers that had not confirmed it then, by their fingerprints. They do not vote on an adoption.
    pub(super) unconfirmed: Vec<u64>,
}

impl Lease {
    /// The lease of a hold at `now`. The wall clock showed `first` before that moment, and shows `last` after it. The lease
    /// is valid for as long as `left`, and the nodes have forgotten it by `expired_by`.
    pub(super) fn of(
        hold: &Hold,
        now: Moment,
        (first, last): (Duration, Duration),
        left: Option<Duration>,
        expired_by: Moment,
        unconfirmed: Vec<u64>,
    ) -> Self {
        let kept = hold.hand_off_terms();
        let by = |moment: Moment| first.saturating_add(moment.since(now));
        let not_before = |moment: Moment| last.saturating_add(moment.since(now));
        Self {
            resources: hold.resources.clone(),
            value: hold.claim().value.clone(),
            valid_until: left.map_or(Duration::ZERO, |left| first.saturating_add(left)),
            ttl: kept.ttl,
            clock_drift_factor: kept.clock_drift_factor,
            auto_extend: kept.auto_extend,
            fencing_token: hold.token,
            min_hold_until: (hold.earliest > now).then(|| not_before(hold.earliest)),
            keys_until: not_before(expired_by),
            max_hold_until: (kept.latest != Moment::NEVER).then(|| by(kept.latest)),
            unconfirmed,
        }
    }

    /// What tells its value from all others.
    pub(super) fn token(&self) -> Token {
        // The value is of this crate's making: it has one.
        Token::of_value(&self.value).unwrap_or_default()
    }

    /// The resource that is locked. For a set, the first resource that was named.
    #[must_use]
    pub fn resource(&self) -> &str {
        self.resources.first()
    }

    /// All resources that are locked.
    #[must_use]
    pub fn resources(&self) -> &[String] {
        self.resources.as_slice()
    }

    /// The fencing token of the lock, if it has one. The client that adopts the lock has the same.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.fencing_token
    }
}

// By hand: the value is a secret (rule 19).
impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("resource", &self.resources.name()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Redlock;

    const SECOND: Duration = Duration::from_secs(1);

    /// What must not be told as later than it is counts from the reading before, and the rest from the one after.
    #[tokio::test(start_paused = true)]
    async fn a_process_that_stands_still_as_it_hands_a_lock_off_tells_no_longer_validity() {
        let redlock = Redlock::in_memory(1);
        let options = |request: crate::LockRequest| request.min_hold(SECOND).max_hold(3 * SECOND);
        let guard = options(redlock.lock("r")).await.unwrap();
        let now = redlock.client().nodes.clock.now();
        let (first, last) = (100 * SECOND, 150 * SECOND);
        let expired_by = now + 2 * SECOND;
        let left = Some(2 * SECOND);
        let lease = Lease::of(guard.hold(), now, (first, last), left, expired_by, Vec::new());
        assert_eq!(lease.valid_until, first + 2 * SECOND);
        assert!(lease.max_hold_until.unwrap() <= first + 3 * SECOND);
        assert!(lease.min_hold_until.unwrap() > last);
        assert_eq!(lease.keys_until, last + 2 * SECOND);
    }
}
