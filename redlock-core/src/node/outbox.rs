//! Everything that is still to be sent to one node, and whether it may be sent.
//!
//! What waits is in [`Lanes`]; what has to be sent again is in [`Resend`]. A delete stays until the node
//! has confirmed it, also when the task that held the lock is gone (rule 12).
//!
//! The size is bounded by what is held, asked for, waited for, or has to be deleted again (rule 18).

use std::{ops::Deref, sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{
    Action, CleanUp, EarlyReply, Job, ReplyTo, lanes::Lanes, quarantine::Quarantine,
    queued::Queued, resend::Resend,
};
use crate::{
    clock::Moment,
    error::{NodeError, NodeErrorKind},
};

/// Between two tries of a delete, and between a delete on a new connection and its repetition.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// The state of the connection.
#[derive(Debug, Clone)]
pub(super) enum Link {
    /// Not connected yet, or not since the previous runtime: jobs wait for the connection, for as
    /// long as they may.
    Opening,
    /// Connected.
    Up,
    /// Not connected, for this reason: jobs are answered in no time (rule 14).
    Down(NodeError),
}

#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) link: Link,
    pub(super) lanes: Lanes,
    resend: Resend,
    pub(super) pings: Vec<oneshot::Sender<Result<(), NodeError>>>,
    /// When the previous connection ended, if there was one.
    previous_ended: Option<Moment>,
    pub(super) quarantine: Quarantine,
    /// Set when the last client has gone: clean-up may go on until then.
    pub(super) ends_at: Option<Moment>,
}

impl Outbox {
    pub(super) fn new(quarantine: Quarantine) -> Self {
        Self {
            link: Link::Opening,
            lanes: Lanes::default(),
            resend: Resend::default(),
            pings: Vec::new(),
            previous_ended: None,
            quarantine,
            ends_at: None,
        }
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
        if let Link::Down(error) = &self.link {
            let error = error.clone();
            self.owe(job, now);
            return vec![(reply_to, Err(error))];
        }
        if let Some(refusal) = self.bars(name, &job, now) {
            return vec![(reply_to, Err(refusal))];
        }
        self.lanes.put(name, job, reply_to, now)
    }

    /// Why the node must not be asked this while it sits out. Only votes for new locks, and
    /// numbers, are refused (rule 16).
    fn bars(&self, name: &Arc<str>, job: &Job, now: Moment) -> Option<NodeError> {
        // A node that has lost its counters must not draw numbers either, not even for a lock that was
        // set again there.
        let (Action::Grant { .. }
        | Action::GrantFenced { .. }
        | Action::Adopt { .. }
        | Action::Redraw { .. }) = job.action
        else {
            return None;
        };
        self.sits_out(name, now)
    }

    /// Why the node gives no votes, if it does not.
    pub(super) fn sits_out(&self, name: &Arc<str>, now: Moment) -> Option<NodeError> {
        let (suspicion, left) = self.quarantine.sits_out(now)?;
        let reason = format!(
            "{} and may have forgotten locks, so it votes again in {left:.1?}",
            suspicion.describe()
        );
        Some(NodeError::new(name, NodeErrorKind::SitsOut, reason))
    }

    /// Why no vote for a new lock can be had, as far as is known.
    pub(super) fn why_no_vote(&self, name: &Arc<str>, now: Moment) -> Option<NodeError> {
        match &self.link {
            Link::Down(error) => Some(error.clone()),
            Link::Opening => None,
            Link::Up => self.sits_out(name, now),
        }
    }

    /// Takes out the jobs that the node must not be asked any more, with the reason.
    pub(super) fn take_barred(&mut self, name: &Arc<str>, now: Moment) -> Vec<(Queued, NodeError)> {
        let mut lanes = std::mem::take(&mut self.lanes);
        let barred = lanes.take_refused(|job| self.bars(name, job, now));
        self.lanes = lanes;
        barred
    }

    /// Takes out the next batch, as far as there is room. `now` is looked at only when something
    /// may be due. `spare` is empty, and the batch is returned in it, together with whether another
    /// batch may be ready.
    pub(super) fn take(
        &mut self,
        now: &impl Deref<Target = Moment>,
        spare: Vec<Queued>,
    ) -> (Vec<Queued>, bool) {
        if !self.resend.is_empty() {
            while let Some(item) = self.resend.take_due(**now) {
                self.lanes.put_again(item);
            }
        }
        self.lanes.take(spare)
    }

    /// When there is something to take. Without room, the next answer comes first.
    pub(super) fn next(&self, now: &impl Deref<Target = Moment>) -> Option<Moment> {
        if self.lanes.has_ready() {
            return Some(**now);
        }
        // Due jobs find room once an answer came.
        self.resend.next_due().filter(|_| self.lanes.has_room_for_watches())
    }

    /// Sends this job at `due`, and again until the node has confirmed it. Ignores jobs that need not be
    /// repeated. A node that does not answer a delete may still have the `SET` before it, and may run that
    /// `SET` when it comes back.
    pub(super) fn owe(&mut self, job: Arc<Job>, due: Moment) {
        self.resend.add_owed(job, due);
    }

    /// Owes a delete to a node that answers, if only with an error. Such a node has run all earlier
    /// commands, so nothing is left to do once the key has expired.
    pub(super) fn owe_until_expiry(&mut self, job: Arc<Job>, due: Moment) {
        if job.clean_up().is_some_and(|clean_up| due < clean_up.until) {
            self.owe(job, due);
        }
    }

    /// Does an answered delete once more a moment later, if it went out on another connection than
    /// its `SET`. The delete may have overtaken the `SET`, because a server may run the commands of
    /// the old socket after the first ones of the new socket (rule 5).
    pub(super) fn repeat(&mut self, job: &Job, now: Moment) {
        let Some(&clean_up @ CleanUp { repeated: false, .. }) = job.clean_up() else { return };
        let may_be_behind = self.previous_ended.is_some_and(|ended| clean_up.since <= ended);
        if may_be_behind {
            let again = CleanUp { repeated: true, ..clean_up };
            self.owe(Job::cleaning(&job.claim, job.action, again), now + PAUSE);
        }
    }

    /// Notes that a member of a cluster left a command without an answer. Its connection may be replaced
    /// while that of the node, as a whole, goes on: a delete on the new one may overtake a `SET` on the old
    /// one (rule 5).
    pub(super) fn member_unheard(&mut self, now: Moment) {
        self.previous_ended = Some(now);
    }

    /// Notes that the node did not answer in time as a waiter left its queue.
    pub(super) fn leave_unheard(&mut self, job: Arc<Job>) {
        self.resend.add_unheard(job);
    }

    /// Notes that the node has answered a command.
    pub(super) fn heard(&mut self) {
        self.resend.heard();
    }

    /// Asks this again later: a watch whose request failed.
    pub(super) fn ask_again(&mut self, item: Queued, due: Moment) {
        self.resend.add_watch(item, due);
    }

    /// Notes that the connection has ended, and returns the jobs that were not sent.
    pub(super) fn disconnect(&mut self, now: Moment) -> Vec<Queued> {
        self.previous_ended = Some(now);
        self.resend.drop_watches();
        self.lanes.take_all()
    }

    /// Takes out every delete that was not sent. They are put off as clean-ups instead.
    pub(super) fn take_deletes(&mut self, now: Moment) -> Vec<Queued> {
        let deletes = self.lanes.take_deletes();
        for item in &deletes {
            self.owe(Arc::clone(&item.job), now);
        }
        deletes
    }

    /// Gives up the answers to these jobs, which were sent. What is owed among them is sent again.
    pub(super) fn abandon(&mut self, unanswered: &[Queued], now: Moment) {
        self.lanes.answered(unanswered);
        self.resend.owe_unheard(now);
        for item in unanswered {
            self.owe(Arc::clone(&item.job), now);
        }
    }

    /// Prepares for another task, which goes on from here on a connection of its own.
    pub(super) fn begin_anew(&mut self, now: Moment, unanswered: &[Queued]) {
        if matches!(self.link, Link::Up) {
            self.previous_ended = Some(now);
        }
        self.abandon(unanswered, now);
    }

    /// How many deletes are not confirmed: those that were not sent, those without an answer, and those that
    /// have to be tried again.
    pub(super) fn cleanups(&self) -> usize {
        self.resend.cleanups() + self.lanes.cleanups()
    }

    /// Whether the node has confirmed every delete.
    pub(super) fn has_no_cleanups(&self) -> bool {
        self.cleanups() == 0
    }

    /// Whether no command waits or is in flight, and no delete has to be sent again. Watches and leaves that are sent
    /// again later do not count.
    pub(super) fn is_idle(&self) -> bool {
        self.resend.cleanups() == 0 && self.lanes.is_quiet()
    }
}
