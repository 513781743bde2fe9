//! The turns of a request in the queues of its process: one for each key.

use std::{sync::Arc, time::Duration};

use crate::{
    clock::Moment,
    lease::Hold,
    wait::{FailedAttempt, Front, Wants},
};

/// The turns of one request, one for each key. Dropping it passes all of them on.
pub(super) struct Fronts {
    pub(super) first: Front,
    /// Those of the other keys of a set, in the order of the keys.
    rest: Box<[Front]>,
}

impl Fronts {
    /// The turn of a request for one key.
    pub(super) fn one(first: Front) -> Self {
        Self { first, rest: Box::default() }
    }

    pub(super) fn several(first: Front, rest: Vec<Front>) -> Self {
        Self { first, rest: rest.into_boxed_slice() }
    }

    pub(super) fn are_several(&self) -> bool {
        !self.rest.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        1 + self.rest.len()
    }

    pub(super) fn each(&mut self) -> impl Iterator<Item = &mut Front> {
        std::iter::once(&mut self.first).chain(&mut self.rest)
    }

    /// The turn at this place, and all others.
    pub(super) fn split(&mut self, place: usize) -> (Option<&mut Front>, Vec<&mut Front>) {
        let (chosen, others): (Vec<_>, Vec<_>) =
            self.each().enumerate().partition(|(index, _)| *index == place);
        let chosen = chosen.into_iter().next().map(|(_, front)| front);
        (chosen, others.into_iter().map(|(_, front)| front).collect())
    }

    /// Follows no lock any more. What was followed may be that of another request, or of another key.
    pub(super) fn follow_none(&mut self) {
        self.each().for_each(|front| front.follow_lock(false));
    }

    /// The outcome of the last attempt in one of the queues, if the nodes need not be asked again.
    pub(super) fn known(&self, wants: Wants) -> Option<Arc<FailedAttempt>> {
        let others = || self.rest.iter().find_map(|front| front.known(wants));
        self.first.known(wants).or_else(others)
    }

    /// Whether other clients have their chance before this request asks.
    pub(super) fn stands_back(&mut self) -> bool {
        self.each().any(|front| front.stands_back())
    }

    /// Notes that no other client came while the request stood back.
    pub(super) fn unchallenged(&mut self) {
        self.each().for_each(Front::unchallenged);
    }

    /// How many of the tasks behind the request may take its lease over with a token. A set is not
    /// handed over.
    pub(super) fn fenced_behind(&self) -> usize {
        if self.are_several() { 0 } else { self.first.fenced_behind() }
    }

    /// How long this client has been without the lock.
    pub(super) fn without(&self) -> Duration {
        self.first.without()
    }

    /// Notes that the attempt has failed.
    pub(super) fn failed(&mut self, failure: &Arc<FailedAttempt>) {
        self.each().for_each(|front| front.failed(failure));
    }

    /// Leaves the queues between clients, where no task of this client takes the place over.
    pub(super) fn leave(&mut self) {
        self.each().for_each(Front::leave);
    }

    /// Tells the queues that this hold has the lock.
    pub(super) fn acquired(self, hold: &Arc<Hold>, now: Moment) {
        self.first.acquired(hold, now);
        self.rest.into_iter().for_each(|front| front.acquired(hold, now));
    }
}
