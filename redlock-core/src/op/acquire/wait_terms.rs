//! What a client knows, and is to keep to, when it begins to wait for its next attempt.

use std::time::Duration;

use super::{request::Request, retries::Chance, target::Target};
use crate::{
    clock::Moment,
    wait::{FailedAttempt, WITHOUT_QUORUM},
};

/// A pause between two attempts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pause<'a> {
    pub(super) begun: Moment,
    /// When the request stops waiting.
    pub(super) end: Moment,
    /// The attempt before the pause. `None` if nothing was asked yet, and other clients go first.
    pub(super) failure: Option<&'a FailedAttempt>,
    /// Why that attempt was made, unless something has happened since.
    pub(super) last: Option<Chance>,
}

impl Pause<'_> {
    /// Whether a quorum answered the attempt before.
    pub(super) fn has_quorum(&self) -> bool {
        self.failure.is_none_or(|failure| !failure.no_quorum)
    }
}

/// What a client knows, and is to keep to, when it begins to wait for one lock. It stays as it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitTerms {
    pub(super) begun: Moment,
    /// When the client stops waiting.
    pub(super) end: Moment,
    pub(super) round_trip: Duration,
    /// The pause between attempts where nothing tells the client of a chance.
    pub(super) pace: Duration,
    /// The pace with its jitter.
    pub(super) polls: Duration,
    /// A node granted the lock while others refused it. Such a node says nothing of the holder: only a
    /// quorum of nodes can tell when the lock is free.
    pub(super) is_split: bool,
    /// When to ask once more, and the reason, if the last attempt had no quorum. Until then, the requests behind this
    /// one are told that there is no quorum, even if the nodes have recovered.
    pub(super) asks_again: Option<(Moment, Chance)>,
    /// Until then no notification of a watch counts.
    pub(super) deaf_until: Moment,
    /// The last attempt was made in a turn, for a lock that the queue said is free, or for a request behind this one, and
    /// failed.
    pub(super) was_misled: bool,
    /// The last attempt was for this lock and others, and failed. Readers may share this one with each other while
    /// the set waits for another.
    pub(super) was_set_refused: bool,
    pub(super) target: Target,
}

impl WaitTerms {
    /// The reason for an attempt that is made after this long, because it is time. Before `polls` is over, the attempt
    /// does not count as a retry.
    pub(super) fn time_to_ask(&self, after: Duration) -> Chance {
        if after < self.polls { Chance::Again } else { Chance::Due }
    }
}

impl Request<'_> {
    pub(super) fn wait_terms(&self, pause: &Pause<'_>, in_queue: bool) -> WaitTerms {
        let Pause { end, failure, last, .. } = *pause;
        let target = if self.permits.is_some() {
            let was_refused_in_queue = failure.is_some() && in_queue;
            let had_turn = was_refused_in_queue && last == Some(Chance::Turn);
            Target::Permit { was_refused_in_queue, had_turn }
        } else if self.terms.shared {
            Target::Part
        } else {
            Target::Lock
        };
        let (begun, round_trip) = (self.now(), self.client.nodes.round_trip());
        let (pace, jitter) = (self.retries.pace(), self.up_to(self.terms.retry_jitter));
        let polls = pace.saturating_add(jitter);
        // With the jitter: clients that failed together do not ask in step.
        let asks_after =
            (pace.min(WITHOUT_QUORUM) + jitter.min(WITHOUT_QUORUM)).max(round_trip * 2);
        let deaf_for = self.wake_backoff.deaf_for(round_trip, asks_after);
        // The request for a set waits at one lock after the other in one pause, and is deaf once.
        let since = pause.begun;
        let mut given = WaitTerms {
            begun,
            end,
            round_trip,
            deaf_until: if pause.has_quorum() { begun } else { since + deaf_for },
            pace,
            polls,
            is_split: failure.is_some_and(|failure| failure.granted > 0),
            asks_again: None,
            was_set_refused: !self.rest.is_empty() && failure.is_some() && self.last.is_some(),
            was_misled: matches!(last, Some(Chance::Turn | Chance::Free | Chance::Hurried)),
            target,
        };
        if !pause.has_quorum() {
            given.asks_again = Some((since + asks_after, given.time_to_ask(asks_after)));
        }
        given
    }

    /// The pause between attempts with its jitter, which differs from time to time.
    pub(super) fn polls(&self) -> Duration {
        self.retries.pace().saturating_add(self.up_to(self.terms.retry_jitter))
    }
}
