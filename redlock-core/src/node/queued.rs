//! A job that waits to be sent, or for its answer.

use std::sync::Arc;

use super::{Action, Job, ReplyTo};
use crate::clock::Moment;

/// A job on its way to the node.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) job: Arc<Job>,
    /// Where the answer goes. A delete that is tried again has no asker left.
    pub(super) reply_to: Option<ReplyTo>,
    pub(super) queued: Moment,
}

impl Queued {
    /// Whether it is still worth sending. A listener may have gone, and so may a waiter: sent behind its leave, its
    /// join would stand in the queue for no waiter.
    pub(super) fn is_wanted(&self) -> bool {
        let Job { action, claim, .. } = &*self.job;
        let puts_back = matches!(action, Action::Join { .. } | Action::RaiseBarrier { .. });
        let is_left = puts_back && claim.has_left();
        !is_left && self.reply_to.as_ref().is_none_or(ReplyTo::is_wanted)
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.reply_to.as_ref().is_some_and(ReplyTo::is_awaited)
    }

    /// Notes that it leaves for the node.
    pub(super) fn note_sent(&self) {
        let Some(reply_to) = &self.reply_to else { return };
        let Job { action, claim, .. } = &*self.job;
        match action {
            Action::Grant { .. } | Action::GrantFenced { .. } | Action::Adopt { .. } => {
                claim.mark_sent(reply_to.node());
            }
            Action::Join { .. } => claim.mark_joined(reply_to.node()),
            _ => {}
        }
    }

    pub(super) fn new(job: Arc<Job>, reply_to: ReplyTo, queued: Moment) -> Self {
        Self { job, reply_to: Some(reply_to), queued }
    }
}
