//! The task that serves a node, as each of its steps sees it.

use std::sync::Arc;

use super::shared::Shared;
use crate::{background::Pulse, clock::Moment, sync::Notify};

/// The task that serves a node.
#[derive(Clone, Copy)]
pub(super) struct Task<'a> {
    pub(super) shared: &'a Arc<Shared>,
    /// Something was put into the outbox, or sent by its caller.
    pub(super) mail: &'a Notify,
    pub(super) pulse: &'a Pulse,
}

impl Task<'_> {
    /// Notes that the task will run again at `moment`, unless it is told to run earlier.
    pub(super) fn sleeps_until(&self, moment: Moment) {
        self.pulse.sleeps_until(moment);
    }
}
