//! A command, with the data that a node needs to see it through.

use std::{ops::Deref, sync::Arc};

use super::{Action, Claim, Command, Expected};
use crate::clock::Moment;

/// A command with what its node needs to know to see it through. Behind an `Arc`, as it goes from hand to
/// hand on its way, and most questions are the same for all nodes.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) claim: Arc<Claim>,
    pub(crate) action: Action,
    /// Set for a job that removes a key, whose action is [`Action::Release`]: the job goes on after
    /// its asker has its answer (rule 5).
    pub(crate) clean_up: Option<CleanUp>,
    /// Set for an extension of a key that the asked nodes have confirmed before.
    pub(crate) expected: Option<Expected>,
}

/// How long and how thoroughly to clean up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CleanUp {
    /// When the first SET of the claim may have been sent.
    pub(crate) since: Moment,
    /// When the key has expired by itself, unless it is kept for longer.
    pub(crate) until: Moment,
    /// Until when `min_hold` keeps the key: it is shortened to that instead of deleted.
    pub(crate) keep_until: Option<Moment>,
    /// The delete was confirmed on a newer connection than that of its `SET`. This is the second
    /// delete there, and the last.
    pub(crate) repeated: bool,
    /// The SET may still wait in the outbox of the node.
    pub(crate) may_be_unsent: bool,
}

impl CleanUp {
    /// Whether the key goes at once, as nothing is left of a `min_hold`. `now` is looked at only if there
    /// was one.
    pub(super) fn deletes(&self, now: &impl Deref<Target = Moment>) -> bool {
        self.keep_until.is_none_or(|until| until <= **now)
    }
}

impl Job {
    /// A job that is done once it is answered.
    pub(crate) fn new(claim: &Arc<Claim>, action: Action) -> Arc<Self> {
        Arc::new(Self::of(claim, action))
    }

    /// An extension of a key that the asked nodes have confirmed before.
    pub(crate) fn expecting(claim: &Arc<Claim>, action: Action, expected: Expected) -> Arc<Self> {
        Arc::new(Self { expected: Some(expected), ..Self::of(claim, action) })
    }

    /// A job that goes on until the key is gone.
    pub(crate) fn cleaning(claim: &Arc<Claim>, action: Action, clean_up: CleanUp) -> Arc<Self> {
        Arc::new(Self { clean_up: Some(clean_up), ..Self::of(claim, action) })
    }

    fn of(claim: &Arc<Claim>, action: Action) -> Self {
        Self { claim: Arc::clone(claim), action, clean_up: None, expected: None }
    }

    /// The command to send at `now`. What is left of a `min_hold` is counted here and not
    /// earlier: a job that is sent late, or once more, must not let the key live for longer.
    pub(super) fn command(&self, now: Moment) -> Command {
        let rest = self.clean_up.and_then(|it| it.keep_until).map(|until| until.since(now));
        let action = match rest {
            Some(rest) if !rest.is_zero() => Action::Shorten { rest },
            Some(_) | None => self.action,
        };
        Command { claim: Arc::clone(&self.claim), action }
    }
}
