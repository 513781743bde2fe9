//! The keys of a lock on the nodes, as its holder knows them.

use std::{sync::Arc, time::Duration};

use super::validity;
use crate::{
    clock::{Moment, Reading},
    fence::{FencingToken, Range},
    node::Claim,
    quorum::Round,
    settings::Terms,
};

/// A key on a quorum of nodes, and until when it may be relied on.
#[derive(Debug, Clone)]
pub(crate) struct LeaseState {
    pub(crate) claim: Arc<Claim>,
    /// When the attempt that took it started, before its first SET.
    pub(crate) since: Moment,
    /// The ttl of the last confirmed round.
    pub(crate) ttl: Duration,
    pub(crate) clock_drift_factor: f64,
    /// The end of its validity (rule 2).
    pub(crate) deadline: Moment,
    /// The reading of the clock at the start of the round that the deadline counts from.
    pub(crate) counts_from: Reading,
    /// When the last confirmed round started.
    pub(crate) confirmed: Moment,
    /// When the last renewal was sent, confirmed or not. Once this is later than `confirmed`, it is
    /// unknown what the nodes have, and the lease is not passed on.
    pub(crate) renewal_sent: Moment,
    /// When every key of the lease has expired by itself, the keys of unanswered renewals included.
    pub(crate) expired_by: Moment,
    /// The round whose `SET`s took the lease, heals included. The key may be on each node where it has had
    /// an effect, and on those of `confirmed_round`.
    pub(crate) set_round: Arc<Round>,
    /// The last round that a quorum has confirmed outside of a doubt, or has yet to confirm before a hold has the lease.
    /// The nodes that said yes have the key.
    pub(crate) confirmed_round: Arc<Round>,
    /// The numbers that came with it and were not handed out, if it was asked for with numbers. They
    /// die with the lease, and with its first doubt.
    pub(crate) range: Option<Box<Range>>,
}

impl LeaseState {
    /// The lease that `round`, which starts now, takes if a quorum grants it. The clock starts
    /// before the first byte is sent (rule 2).
    pub(crate) fn sought(
        claim: Arc<Claim>,
        terms: &Terms,
        start: Reading,
        round: &Arc<Round>,
    ) -> Self {
        Self {
            claim,
            since: start.now,
            ttl: terms.ttl,
            clock_drift_factor: terms.clock_drift_factor,
            deadline: validity::deadline(start.now, terms.ttl, terms.clock_drift_factor),
            counts_from: start,
            confirmed: start.now,
            renewal_sent: start.now,
            expired_by: start.now + terms.key_ttl(),
            set_round: Arc::clone(round),
            confirmed_round: Arc::clone(round),
            range: None,
        }
    }

    /// The next of the numbers that came with it, if one is left.
    pub(crate) fn next_number(&mut self) -> Option<FencingToken> {
        self.range.as_mut()?.next()
    }

    /// Notes that the nodes are asked, at `now`, to let the keys live for `key_ttl`. They may do so whether or not an
    /// answer comes.
    pub(crate) fn note_sent(&mut self, now: Moment, key_ttl: Duration) {
        self.renewal_sent = self.renewal_sent.max(now);
        self.expired_by = self.expired_by.max(now + key_ttl);
    }

    /// Lets the validity end at `deadline`, counted from `start`, in a round that a quorum confirms. It never shortens,
    /// unless it was in doubt at `start` (rule 7).
    pub(super) fn count_from(&mut self, start: Reading, deadline: Moment) {
        let old = self.deadline_on(start);
        if old.is_none() {
            self.range = None;
        }
        if old.is_none_or(|old| deadline > old) {
            self.deadline = deadline;
            self.counts_from = start;
        } else if let Some(old) = old
            && start.now > self.counts_from.now
        {
            // What the clock has missed before `start` is no doubt any more.
            self.deadline = old;
            self.counts_from = start;
        }
    }

    /// Notes that a quorum confirms the lease for `ttl` in a round that began at `start`.
    pub(super) fn note_confirmed(&mut self, start: Moment, ttl: Duration) {
        self.ttl = ttl;
        self.confirmed = start;
    }

    /// Counts the lease from `start`, when `round` began, by these terms. It may be relied on once a
    /// quorum has said yes in this round. No hold had the lease meanwhile.
    pub(crate) fn renewed(&mut self, terms: &Terms, start: Reading, round: &Arc<Round>) {
        let deadline = validity::deadline(start.now, terms.ttl, self.clock_drift_factor);
        self.count_from(start, deadline);
        self.note_confirmed(start.now, terms.ttl);
        self.confirmed_round = Arc::clone(round);
    }

    /// Counts from `start` what the nodes are asked once more, in this round: no task has read their answers. What they
    /// were asked before may have run, so the release has to go to all of them (rule 5). No hold has the lease yet.
    pub(crate) fn asked_again(&mut self, terms: &Terms, start: Reading, round: &Arc<Round>) {
        self.set_round.asked_again();
        self.note_sent(start.now, terms.key_ttl());
        self.renewed(terms, start, round);
    }

    /// The end of the lease's validity on a clock that has missed some of the time since the round
    /// that it counts from. None when the clock has missed so much that the lease cannot be relied
    /// on (rule 2).
    pub(crate) fn deadline_on(&self, clock: Reading) -> Option<Moment> {
        let Self { deadline, ttl, clock_drift_factor, .. } = *self;
        let missed = clock.missed_since(self.counts_from);
        validity::deadline_by(deadline, missed, ttl, clock_drift_factor)
    }

    /// The end of the lease's validity. A lease in doubt counts to its deadline.
    pub(crate) fn ends_on(&self, clock: Reading) -> Moment {
        self.deadline_on(clock).unwrap_or(self.deadline)
    }

    /// Whether the lease may be relied on now.
    pub(crate) fn is_valid_on(&self, clock: Reading) -> bool {
        self.deadline_on(clock).is_some_and(|deadline| clock.now < deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Redlock,
        clock::{Clock, TokioClock},
        error::{NodeError, NodeErrorKind},
        node::ReplyTo,
        options::LockOptions,
        quorum::{Effect, Tally, names},
    };

    #[tokio::test(start_paused = true)]
    async fn a_renewal_by_other_terms_does_not_shorten_the_lease() {
        let redlock = Redlock::in_memory(1);
        let second = Duration::from_secs(1);
        let terms = |ttl: Duration| {
            let options = LockOptions::new().ttl(ttl);
            redlock.client().settings.terms(&options).unwrap()
        };
        let round = Round::new(&names(1), Tally::reached);
        let claim = Arc::new(Claim::new(&"k".into(), "v".to_owned()));
        let begun = TokioClock.read();
        let mut lease = LeaseState::sought(claim, &terms(30 * second), begun, &round);
        let deadline = lease.deadline;
        tokio::time::advance(second).await;
        lease.renewed(&terms(second), TokioClock.read(), &round);
        assert_eq!(lease.deadline, deadline);
        lease.renewed(&terms(30 * second), TokioClock.read(), &round);
        assert_eq!(
            (lease.deadline, lease.counts_from.now),
            (deadline + second, begun.now + second)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_is_asked_for_again_counts_from_there_and_may_be_on_every_node() {
        let redlock = Redlock::in_memory(1);
        let second = Duration::from_secs(1);
        let options = LockOptions::new().ttl(30 * second);
        let terms = redlock.client().settings.terms(&options).unwrap();
        let rounds = [(); 2].map(|()| Round::new(&names(2), Tally::reached));
        let claim = Arc::new(Claim::new(&"k".into(), "v".to_owned()));
        let mut lease = LeaseState::sought(claim, &terms, TokioClock.read(), &rounds[0]);
        let before = lease.clone();
        let down = NodeError::new(&"n".into(), NodeErrorKind::Down, "it was not sent");
        ReplyTo::new(&rounds[0], 0).deliver(Err(down));
        tokio::time::advance(second).await;
        lease.asked_again(&terms, TokioClock.read(), &rounds[1]);
        assert_eq!(lease.deadline, before.deadline + second);
        assert_eq!(lease.expired_by, before.expired_by + second);
        assert_eq!(lease.set_round.effects()[..], [Effect::Possible, Effect::Possible]);
        assert!(Arc::ptr_eq(&lease.confirmed_round, &rounds[1]));
    }
}
