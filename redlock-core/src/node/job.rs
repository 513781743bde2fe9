//! A command, with the data that a node needs to see it through.

use std::sync::Arc;

use super::{Action, Claim, Command, Expected};
use crate::clock::Moment;

/// A command with what its node needs to know to see it through. Behind an `Arc`, as it goes from hand to
/// hand on its way, and most questions are the same for all nodes.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) claim: Arc<Claim>,
    pub(crate) action: Action,
    purpose: Purpose,
}

/// What a job is for, beside its answer.
#[derive(Debug, Clone, Copy)]
enum Purpose {
    /// Nothing: the job is done once it is answered.
    Answer,
    /// Extends a key that the asked nodes have confirmed before.
    Extension(Expected),
    /// Removes a key with [`Action::Release`]. The job goes on after its asker has its answer (rule 5).
    CleanUp(CleanUp),
    /// Takes a waiter out of a queue. A node that could not be reached would give it turns. By `until` the
    /// entry has expired by itself, unless a join that was still on its way puts it there afterwards.
    /// It `is_silent` if no task over this connection is to hear what it tells waiters.
    Leave { until: Moment, is_silent: bool },
}

/// How long and how thoroughly to clean up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CleanUp {
    /// When the first SET of the claim may have been sent.
    pub(crate) since: Moment,
    /// When the key has expired by itself, unless it is kept for longer.
    pub(crate) until: Moment,
    /// Until when `min_hold` keeps the key: it is shortened to that instead of deleted.
    /// [`Moment::ORIGIN`] if nothing keeps it.
    pub(crate) keep_until: Moment,
    /// The node may have the key. If not, the job only wakes the next waiter, which looks by itself if it fails.
    pub(crate) may_be_there: bool,
    /// The delete was confirmed on a newer connection than that of its `SET`. This is the second
    /// delete there, and the last.
    pub(crate) repeated: bool,
}

impl CleanUp {
    /// Whether the key goes at once, as nothing is left of a `min_hold`.
    pub(super) fn deletes(&self, now: Moment) -> bool {
        self.keep_until <= now
    }
}

impl Job {
    /// A job that is done once it is answered.
    pub(crate) fn new(claim: &Arc<Claim>, action: Action) -> Arc<Self> {
        Self::of(claim, action, Purpose::Answer)
    }

    /// An extension of a key that the asked nodes have confirmed before.
    pub(crate) fn expecting(claim: &Arc<Claim>, action: Action, expected: Expected) -> Arc<Self> {
        Self::of(claim, action, Purpose::Extension(expected))
    }

    /// A job that goes on until the key is gone.
    pub(crate) fn cleaning(claim: &Arc<Claim>, action: Action, clean_up: CleanUp) -> Arc<Self> {
        Self::of(claim, action, Purpose::CleanUp(clean_up))
    }

    /// A [`Leave`](Action::Leave) of a queue, in which the entry lives until then. No task over this connection is to
    /// hear what it tells waiters if it `is_silent`.
    pub(crate) fn leaving(claim: &Arc<Claim>, until: Moment, is_silent: bool) -> Arc<Self> {
        Self::of(claim, Action::Leave { again: false }, Purpose::Leave { until, is_silent })
    }

    /// The job as it is sent later: what was sent before may have run. Also a leave with nothing to pass on.
    pub(crate) fn again(self: Arc<Self>) -> Arc<Self> {
        match self.purpose {
            purpose @ Purpose::Leave { .. } => {
                Self::of(&self.claim, Action::Leave { again: true }, purpose)
            }
            Purpose::Answer | Purpose::Extension(_) | Purpose::CleanUp(_) => self,
        }
    }

    fn of(claim: &Arc<Claim>, action: Action, purpose: Purpose) -> Arc<Self> {
        Arc::new(Self { claim: Arc::clone(claim), action, purpose })
    }

    /// What is known about the key before it is extended.
    pub(super) fn expected(&self) -> Option<&Expected> {
        match &self.purpose {
            Purpose::Extension(expected) => Some(expected),
            Purpose::Answer | Purpose::CleanUp(_) | Purpose::Leave { .. } => None,
        }
    }

    /// How to see a removal through.
    pub(crate) fn clean_up(&self) -> Option<&CleanUp> {
        match &self.purpose {
            Purpose::CleanUp(clean_up) => Some(clean_up),
            Purpose::Answer | Purpose::Extension(_) | Purpose::Leave { .. } => None,
        }
    }

    /// Whether it is sent again on the next connection if this one has ended.
    pub(super) fn is_owed(&self) -> bool {
        matches!(self.purpose, Purpose::CleanUp(_) | Purpose::Leave { .. })
    }

    /// Whether no task over this connection is to hear what it tells waiters.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self.purpose, Purpose::Leave { is_silent: true, .. })
    }

    /// Whether this is a leave that comes so late that the entry of the waiter has expired, unless a join has renewed
    /// it since.
    pub(super) fn leaves_late(&self, now: Moment) -> bool {
        matches!(self.purpose, Purpose::Leave { until, .. } if until <= now)
    }

    /// The command to send at `now`. What is left of a `min_hold` is counted here and not
    /// earlier: a job that is sent late, or once more, must not let the key live for longer.
    pub(super) fn command(&self, now: Moment) -> Command {
        let action = match self.clean_up() {
            Some(clean_up) if !clean_up.deletes(now) => {
                Action::Shorten { rest: clean_up.keep_until.since(now) }
            }
            Some(_) | None => self.action,
        };
        Command { claim: Arc::clone(&self.claim), action }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// glibc has pieces of up to 120 bytes at hand, however many are used at once. The two counts of the `Arc`
    /// are among them.
    #[test]
    fn a_job_takes_little_room() {
        assert!(size_of::<Job>() + 2 * size_of::<usize>() <= 120, "{}", size_of::<Job>());
    }
}
