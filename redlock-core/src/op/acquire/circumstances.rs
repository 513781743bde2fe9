//! The circumstances in which a client begins to wait for its next attempt.

use std::time::Duration;

use super::{request::Request, retries::Chance, target::Target};
use crate::{
    clock::Moment,
    wait::{FailedAttempt, WITHOUT_QUORUM},
};

/// The circumstances in which a client begins to wait. They stay as they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Circumstances {
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
    /// When to ask once more, and the reason, if the last attempt had no quorum. The requests behind this one are told
    /// so until then, however well the nodes are again.
    pub(super) asks_again: Option<(Moment, Chance)>,
    /// Until then no notification of a watch counts.
    pub(super) deaf_until: Moment,
    /// The last attempt followed from a word of the queue, and failed.
    pub(super) was_misled: bool,
    /// The last attempt was for this lock and others, and failed. Readers may share this one with each other while
    /// the set waits for another.
    pub(super) was_set_refused: bool,
    pub(super) target: Target,
}

impl Request<'_> {
    pub(super) fn circumstances(
        &self,
        failure: Option<&FailedAttempt>,
        last: Option<Chance>,
        end: Moment,
        in_queue: bool,
    ) -> Circumstances {
        let target = if self.permits.is_some() {
            let was_refused_in_queue = failure.is_some() && in_queue;
            let had_turn = was_refused_in_queue && last == Some(Chance::Turn);
            Target::Permit { was_refused_in_queue, had_turn }
        } else if self.terms.shared {
            Target::Part
        } else {
            Target::Lock
        };
        let lacked_quorum = failure.is_some_and(|failure| failure.no_quorum);
        let (begun, round_trip) = (self.now(), self.client.nodes.round_trip());
        let (pace, jitter) = (self.retries.pace(), self.up_to(self.terms.retry_jitter));
        let polls = pace.saturating_add(jitter);
        // With the jitter: clients that failed together do not ask in step.
        let asks_after =
            (pace.min(WITHOUT_QUORUM) + jitter.min(WITHOUT_QUORUM)).max(round_trip * 2);
        let deaf_for = self.wake_backoff.deaf_for(round_trip, asks_after);
        // The request for a set waits at one lock after the other, and is deaf once.
        let since = self.pauses_since;
        let again = if asks_after < polls { Chance::Again } else { Chance::Due };
        Circumstances {
            begun,
            end,
            round_trip,
            deaf_until: if lacked_quorum { since + deaf_for } else { begun },
            pace,
            polls,
            is_split: failure.is_some_and(|failure| failure.granted > 0),
            asks_again: lacked_quorum.then(|| (since + asks_after, again)),
            was_set_refused: !self.rest.is_empty() && failure.is_some() && self.last.is_some(),
            was_misled: matches!(last, Some(Chance::Turn | Chance::Free | Chance::Hurried)),
            target,
        }
    }

    /// The pause between attempts with its jitter, which differs from time to time.
    pub(super) fn polls(&self) -> Duration {
        self.retries.pace().saturating_add(self.up_to(self.terms.retry_jitter))
    }
}
