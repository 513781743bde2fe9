//! The commands that are still to be sent to one node, in the order in which they leave.
//!
//! A claim wants to be set, extended, gone or watched. A newer wish replaces an older wish that was
//! not sent: a delete withdraws its own unsent `SET`, and nothing is left to undo. Commands that
//! were sent are out of reach, and later wishes follow them on the same connection (rule 5).
//!
//! Renewals and deletes leave first, new grants next, joins and watches last. A busy node delays
//! the least important commands, and a held lock is not lost when a crowd asks for other locks.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    Action, Claim, EarlyReply, Job, Reply, ReplyTo, lane::Lane, queued::Queued, sweep::Sweep,
    window::Window,
};
use crate::{
    clock::Moment,
    error::{NodeError, NodeErrorKind},
};

/// How many joins and watches leave with a batch that has room, even if grants fill the window. For these few, the
/// window is an eighth larger. Otherwise the reports of a waiter might not leave, and the waiter would lose its place.
pub(super) const MIN_WATCHING: usize = 8;

/// The most commands in a batch.
#[cfg(test)]
pub(super) const MAX_IN_BATCH: usize = super::window::MAX_IN_FLIGHT / 2;

#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// Renewals, heals and confirmations of numbers.
    renewals: Lane,
    /// Deletes, leaves of a queue, barriers that are lowered, and what operators ask.
    deletes: Lane,
    grants: Lane,
    /// Joins, watches, looks at a lock, barriers, and leaves that are sent again.
    watches: Lane,
    sweep: Sweep,
    in_flight: usize,
    window: Window,
    /// How many deletes of keys wait here, or are in flight.
    cleanups: usize,
}

impl Lanes {
    fn all(&self) -> [&Lane; 4] {
        [&self.renewals, &self.deletes, &self.grants, &self.watches]
    }

    fn all_mut(&mut self) -> [&mut Lane; 4] {
        [&mut self.renewals, &mut self.deletes, &mut self.grants, &mut self.watches]
    }

    /// Takes a job in. The returned answers are known already: the answer to this job, or that to
    /// an older job which it replaces.
    pub(super) fn put(
        &mut self,
        name: &Arc<str>,
        job: Arc<Job>,
        reply_to: ReplyTo,
        now: Moment,
    ) -> Vec<EarlyReply> {
        let mut early = Vec::new();
        match job.action {
            // The SET of a lock that a quorum has granted still waits here. Later jobs must not
            // overtake it: a release would find it unsent, and conclude that nothing of the lock is
            // on the node.
            Action::Extend { .. } | Action::Redraw { .. } | Action::Heal { .. }
                if self.has_unsent_grant(&job.claim, reply_to.node()) =>
            {
                early.push((reply_to, Err(withdrawn(name))));
            }
            // A command that draws numbers also extends the key. Of a renewal and an extension that a caller waits for,
            // both are sent: none of them shortens the time that the other gives (rule 7).
            Action::Extend { .. } | Action::Redraw { .. } => {
                withdraw(&mut self.renewals, &job.claim, |it| !it.is_awaited(), name, &mut early);
                self.renewals.push(Queued::new(job, reply_to, now));
            }
            // The renewal that is in flight finds out again whether the key is missing.
            Action::Heal { .. } if self.renewals.has(&job.claim) => {
                early.push((reply_to, Err(withdrawn(name))));
            }
            // Only a node that has answered the grant is asked to confirm it.
            Action::Heal { .. } | Action::Confirm(_) => {
                self.renewals.push(Queued::new(job, reply_to, now));
            }
            Action::Adopt { .. } => {
                // The same question, asked again: a delete withdraws one of them at most.
                withdraw(&mut self.grants, &job.claim, |_| true, name, &mut early);
                self.grants.push(Queued::new(job, reply_to, now));
            }
            Action::Grant { .. } | Action::GrantFenced { .. } => {
                self.grants.push(Queued::new(job, reply_to, now))
            }
            Action::Leave { .. } | Action::LowerBarrier => {
                // Joins that still wait here are passed over when their time comes. To look for them among all
                // that waits would take long when a crowd leaves.
                job.claim.mark_left();
                // A waiter that has not joined the queue here has no turn to pass on. That of another client would end.
                let has_joined = job.claim.has_joined(reply_to.node());
                let job = if has_joined { job } else { job.again() };
                self.deletes.push(Queued::new(job, reply_to, now));
            }
            Action::Release { .. } | Action::Shorten { .. } => {
                while withdraw(&mut self.renewals, &job.claim, |_| true, name, &mut early) {}
                // The lane is long when many callers wait, so it is searched only for what may be there: a `SET` that
                // was not sent, or an adoption. An adoption that was sent may wait here again, and would run behind the
                // delete. If what is withdrawn was never sent, nothing of the claim is on the node.
                let is_sent = job.claim.is_sent(reply_to.node());
                let is_withdrawn = (!is_sent || job.claim.adopts)
                    && withdraw(&mut self.grants, &job.claim, |_| true, name, &mut early);
                let is_nowhere = is_withdrawn && !is_sent;
                // Other nodes have granted it, and clients may wait here.
                let wakes = matches!(job.action, Action::Release { wakes } if !wakes.is_none());
                if is_nowhere && !wakes {
                    early.push((reply_to, Ok(Reply::Missing)));
                } else {
                    self.cleanups += cleanup(&job);
                    self.deletes.push(Queued::new(job, reply_to, now));
                }
            }
            Action::TakeAway | Action::Clear { .. } => {
                self.deletes.push(Queued::new(job, reply_to, now));
            }
            Action::Watch
            | Action::Join { .. }
            | Action::Inspect { .. }
            | Action::RaiseBarrier { .. }
            | Action::FindPermits { .. } => {
                if self.sweep.is_due(self.watches.len()) {
                    self.watches.retain(Queued::is_wanted);
                    self.sweep.done(self.watches.len());
                }
                self.watches.push(Queued::new(job, reply_to, now));
            }
        }
        early
    }

    /// Takes in a job that was sent before, or should have been. It replaces no other job.
    pub(super) fn put_again(&mut self, item: Queued) {
        self.cleanups += cleanup(&item.job);
        let lane =
            if item.job.clean_up().is_some() { &mut self.deletes } else { &mut self.watches };
        lane.push(item);
    }

    /// Takes out the jobs that the node must not be asked any more, with the reason.
    pub(super) fn take_refused(
        &mut self,
        refuses: impl Fn(&Job) -> Option<NodeError>,
    ) -> Vec<(Queued, NodeError)> {
        let mut refused = Vec::new();
        for lane in [&mut self.grants, &mut self.renewals] {
            for item in lane.take_all() {
                match refuses(&item.job) {
                    Some(refusal) => refused.push((item, refusal)),
                    None => lane.push(item),
                }
            }
        }
        refused
    }

    /// Takes out the next batch, as far as there is room. `spare` is empty, and the batch is returned
    /// in it, together with whether another batch may be ready.
    pub(super) fn take(&mut self, spare: Vec<Queued>) -> (Vec<Queued>, bool) {
        let mut items = spare;
        let (upkeep, all, watching) =
            (self.most_upkeep(), self.window.size(), self.most_watching());
        let (overfull, in_batch) = (all + all / 8, self.window.batch());
        let Self { renewals, deletes, grants, watches, in_flight, .. } = self;
        let lanes = [
            (renewals, upkeep, 0),
            (deletes, upkeep, 0),
            (grants, all, 0),
            (watches, watching, MIN_WATCHING),
        ];
        for (lane, most, least) in lanes {
            let least = items.len() + least;
            let most = |taken| if taken < least { most.max(overfull) } else { most };
            while *in_flight + items.len() < most(items.len())
                && items.len() < in_batch
                && let Some(item) = lane.pop()
            {
                if item.is_wanted() {
                    item.note_sent();
                    items.push(item);
                }
            }
        }
        self.in_flight += items.len();
        let more = items.len() == in_batch;
        (items, more)
    }

    /// Whether a job may leave now.
    pub(super) fn has_ready(&self) -> bool {
        let upkeep = !self.renewals.is_empty() || !self.deletes.is_empty();
        upkeep && self.in_flight < self.most_upkeep()
            || !self.grants.is_empty() && self.in_flight < self.window.size()
            || !self.watches.is_empty() && self.has_room_for_watches()
    }

    /// Whether the least important job would find room.
    pub(super) fn has_room_for_watches(&self) -> bool {
        self.in_flight < self.most_watching()
    }

    /// How many commands may be in flight before joins and watches wait, so that grants find room.
    fn most_watching(&self) -> usize {
        self.window.size() / 2
    }

    /// How many commands may be in flight before renewals and deletes wait. They always find room.
    fn most_upkeep(&self) -> usize {
        2 * self.window.size()
    }

    /// Notes that a batch of so many commands was answered, or its time has run out.
    pub(super) fn paced(&mut self, commands: usize, sent: Instant, node_timeout: Duration) {
        self.window.answered(commands, sent, sent.elapsed(), node_timeout);
    }

    /// Makes room: these jobs, which were taken, are no longer in flight.
    pub(super) fn answered(&mut self, jobs: &[Queued]) {
        self.in_flight = self.in_flight.saturating_sub(jobs.len());
        self.gone(jobs);
    }

    fn gone(&mut self, jobs: &[Queued]) {
        let cleanups: usize = jobs.iter().map(|item| cleanup(&item.job)).sum();
        debug_assert!(cleanups <= self.cleanups);
        self.cleanups = self.cleanups.saturating_sub(cleanups);
    }

    /// Takes out everything.
    pub(super) fn take_all(&mut self) -> Vec<Queued> {
        let all: Vec<_> = self.all_mut().into_iter().flat_map(Lane::take_all).collect();
        self.gone(&all);
        all
    }

    /// Takes out every delete.
    pub(super) fn take_deletes(&mut self) -> Vec<Queued> {
        let deletes: Vec<_> = self.deletes.take_all().collect();
        self.gone(&deletes);
        deletes
    }

    /// How many deletes of keys are not answered.
    pub(super) fn cleanups(&self) -> usize {
        self.cleanups
    }

    /// Takes out the jobs that have waited for `limit`.
    pub(super) fn take_overdue(&mut self, now: Moment, limit: Duration) -> Vec<Queued> {
        let mut overdue = Vec::new();
        for lane in self.all_mut() {
            while lane.front().is_some_and(|item| now.since(item.queued) >= limit) {
                overdue.extend(lane.pop());
            }
        }
        self.gone(&overdue);
        overdue
    }

    /// When the job that has waited longest was handed in.
    pub(super) fn oldest(&self) -> Option<Moment> {
        self.all().into_iter().filter_map(|lane| lane.front()).map(|item| item.queued).min()
    }

    /// Whether the jobs may wait for more to go out with them: there are no renewals and no deletes, and a
    /// batch is not full.
    pub(super) fn may_gather(&self) -> bool {
        let Self { renewals, deletes, grants, watches, .. } = self;
        let is_full = grants.len() + watches.len() >= self.window.batch();
        renewals.is_empty() && deletes.is_empty() && !is_full
    }

    pub(super) fn nothing_waits(&self) -> bool {
        self.all().iter().all(|lane| lane.is_empty())
    }

    /// How many jobs have come together. `None` when they should leave: a renewal is among them, or a
    /// batch is full.
    pub(super) fn gathered(&self) -> Option<usize> {
        let waiting = self.all().iter().map(|lane| lane.len()).sum();
        (self.renewals.is_empty() && waiting < self.window.batch()).then_some(waiting)
    }

    /// Whether the `SET` of this claim still waits here.
    fn has_unsent_grant(&mut self, claim: &Arc<Claim>, node: usize) -> bool {
        !claim.is_sent(node) && self.grants.has(claim)
    }

    #[cfg(test)]
    pub(super) fn fill(&mut self, is_full: bool) -> Vec<Action> {
        self.in_flight = if is_full { self.most_upkeep() } else { 0 };
        self.all()
            .into_iter()
            .flat_map(Lane::iter)
            .filter(|it| it.is_wanted())
            .map(|it| it.job.action)
            .collect()
    }

    /// Whether nothing waits or is in flight: a new job may leave at once.
    pub(super) fn is_quiet(&self) -> bool {
        self.in_flight == 0 && self.nothing_waits()
    }
}

/// How many deletes of keys this job is.
fn cleanup(job: &Job) -> usize {
    usize::from(job.clean_up().is_some())
}

/// Takes the last that this claim wants out of a lane, if it is there and may go.
fn withdraw(
    lane: &mut Lane,
    claim: &Arc<Claim>,
    may_go: impl Fn(&Queued) -> bool,
    name: &Arc<str>,
    early: &mut Vec<EarlyReply>,
) -> bool {
    let Some(Queued { reply_to, .. }) = lane.withdraw(claim, may_go) else { return false };
    if let Some(reply_to) = reply_to {
        early.push((reply_to, Err(withdrawn(name))));
    }
    true
}

fn withdrawn(name: &Arc<str>) -> NodeError {
    let reason = "it was not sent: a later command for the same lock took its place";
    NodeError::new(name, NodeErrorKind::Overloaded, reason)
}
