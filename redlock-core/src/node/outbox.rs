//! The commands that are still to be sent to one node: for each claim, the one state that it should
//! have there.
//!
//! A claim wants to be set, extended, gone or watched. A newer wish replaces an older wish that was
//! not sent: a delete withdraws its own unsent `SET`, and nothing is left to undo. Commands that
//! were sent are out of reach, and later wishes follow them on the same connection (rule 5). A delete
//! stays until the node has confirmed it, also when the task that held the lock is gone (rule 12).
//!
//! Renewals and deletes leave first, new grants next, joins and watches last. A busy node delays
//! the least important commands, and a held lock is not lost when a crowd asks for other locks.
//!
//! The size is bounded by what is held, asked for, waited for, or has to be deleted again (rule 18).

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Deref,
    sync::Arc,
    time::Duration,
};

use tokio::sync::oneshot;

use super::{Action, Claim, CleanUp, EarlyReply, Job, ReplyTo, quarantine::Quarantine};
use crate::{
    clock::Moment,
    error::{NodeError, NodeErrorKind},
};

/// Between two tries of a delete, and between a delete on a new connection and its repetition.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// How many commands may be in flight to one node before new grants wait. A node takes some time
/// for each: it would not answer a larger crowd within `node_timeout`, though it is well.
const MAX_IN_FLIGHT: usize = 512;

/// How many commands may be in flight before joins and watches wait, so that grants find room.
const MAX_WATCHING: usize = MAX_IN_FLIGHT / 2;

/// How many commands may be in flight before renewals and deletes wait. They always find room.
const MAX_UPKEEP: usize = 2 * MAX_IN_FLIGHT;

/// How many of them go out as one batch, which is answered as a whole. An answer from time to time
/// shows that a busy node is alive.
const MAX_IN_BATCH: usize = 128;

/// A job on its way to the node.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) job: Job,
    /// Where the answer goes. A delete that is tried again has no asker left.
    pub(super) reply_to: Option<ReplyTo>,
    queued: Moment,
}

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
    /// Renewals and heals.
    renewals: VecDeque<Queued>,
    /// Deletes, and entries that leave a queue.
    deletes: VecDeque<Queued>,
    grants: VecDeque<Queued>,
    /// Joins and watches.
    watches: VecDeque<Queued>,
    /// Jobs that have to be sent again, by when they are due. The number keeps the order.
    later: BTreeMap<(Moment, u64), Queued>,
    numbered: u64,
    /// How many of those are deletes.
    put_off_cleanups: usize,
    in_flight: usize,
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
            renewals: VecDeque::new(),
            deletes: VecDeque::new(),
            grants: VecDeque::new(),
            watches: VecDeque::new(),
            later: BTreeMap::new(),
            numbered: 0,
            put_off_cleanups: 0,
            in_flight: 0,
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
        job: Job,
        reply_to: ReplyTo,
        now: Moment,
    ) -> Vec<EarlyReply> {
        if let Link::Down(error) = &self.link {
            let error = error.clone();
            self.add_cleanup(job, now);
            return vec![(reply_to, Err(error))];
        }
        if let Some(refusal) = self.bars(name, &job, now) {
            return vec![(reply_to, Err(refusal))];
        }
        let mut early = Vec::new();
        match job.action {
            // The SET of a lock that a quorum has granted still waits here. Later jobs must not
            // overtake it: a release would find it unsent, and conclude that nothing of the lock is
            // on the node.
            Action::Extend { .. } | Action::Redraw { .. } | Action::Heal { .. }
                if is_unsent(&self.grants, &job.claim) =>
            {
                early.push((reply_to, Err(withdrawn(name))));
            }
            // A command that draws numbers also extends the key.
            Action::Extend { .. } | Action::Redraw { .. } => {
                withdraw(&mut self.renewals, &job.claim, name, &mut early);
                self.renewals.push_back(Queued::new(job, reply_to, now));
            }
            // The renewal that is in flight finds out again whether the key is missing.
            Action::Heal { .. } if is_unsent(&self.renewals, &job.claim) => {
                early.push((reply_to, Err(withdrawn(name))));
            }
            // Only a node that has answered the grant is asked to confirm it.
            Action::Heal { .. } | Action::Confirm(_) => {
                self.renewals.push_back(Queued::new(job, reply_to, now));
            }
            Action::Grant { .. } | Action::GrantFenced { .. } => {
                self.grants.push_back(Queued::new(job, reply_to, now))
            }
            Action::Release { .. } | Action::Shorten { .. } | Action::Leave => {
                withdraw(&mut self.renewals, &job.claim, name, &mut early);
                if job.action == Action::Leave {
                    // Sent behind this, it would stand in the queue for a waiter that has gone. There
                    // may be several: a place that is handed on is joined for again.
                    while withdraw(&mut self.watches, &job.claim, name, &mut early) {}
                }
                let may_wait = job.clean_up.is_some_and(|it| it.may_be_unsent);
                if may_wait && withdraw(&mut self.grants, &job.claim, name, &mut early) {
                    // A claim is granted once a node: nothing of it ever got here.
                    early.push((reply_to, Ok(super::Reply::Missing)));
                } else {
                    self.deletes.push_back(Queued::new(job, reply_to, now));
                }
            }
            Action::TakeAway | Action::Clear { .. } => {
                self.deletes.push_back(Queued::new(job, reply_to, now));
            }
            Action::Watch | Action::Join { .. } | Action::Inspect => {
                self.watches.push_back(Queued::new(job, reply_to, now));
            }
        }
        early
    }

    /// Why the node must not be asked this while it sits out. Only votes for new locks, and
    /// numbers, are refused (rule 16).
    fn bars(&self, name: &Arc<str>, job: &Job, now: Moment) -> Option<NodeError> {
        // A node that has lost its counters must not draw numbers either, not even for a lock that was
        // set again there.
        let (Action::Grant { .. } | Action::GrantFenced { .. } | Action::Redraw { .. }) =
            job.action
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
    pub(super) fn refuses_votes(&self, name: &Arc<str>, now: Moment) -> Option<NodeError> {
        match &self.link {
            Link::Down(error) => Some(error.clone()),
            Link::Opening => None,
            Link::Up => self.sits_out(name, now),
        }
    }

    /// Takes out the jobs that the node must not be asked any more, with the reason.
    pub(super) fn take_barred(&mut self, name: &Arc<str>, now: Moment) -> Vec<(Queued, NodeError)> {
        let mut lanes = [std::mem::take(&mut self.grants), std::mem::take(&mut self.renewals)];
        let mut barred = Vec::new();
        for lane in &mut lanes {
            for item in std::mem::take(lane) {
                match self.bars(name, &item.job, now) {
                    Some(refusal) => barred.push((item, refusal)),
                    None => lane.push_back(item),
                }
            }
        }
        [self.grants, self.renewals] = lanes;
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
        if !self.later.is_empty() {
            self.bring_forward(**now);
        }
        let mut items = spare;
        let Self { renewals, deletes, grants, watches, in_flight, .. } = self;
        let lanes = [
            (renewals, MAX_UPKEEP),
            (deletes, MAX_UPKEEP),
            (grants, MAX_IN_FLIGHT),
            (watches, MAX_WATCHING),
        ];
        for (lane, most) in lanes {
            // An unwanted reply is that of a listener that has gone.
            while *in_flight + items.len() < most
                && items.len() < MAX_IN_BATCH
                && let Some(item) = lane.pop_front()
            {
                if item.is_wanted() {
                    items.push(item);
                }
            }
        }
        self.in_flight += items.len();
        let more = items.len() == MAX_IN_BATCH;
        (items, more)
    }

    /// Puts due jobs into their lanes again.
    fn bring_forward(&mut self, now: Moment) {
        while let Some(first) = self.later.first_entry()
            && first.key().0 <= now
        {
            let item = first.remove();
            if item.job.clean_up.is_some() {
                self.put_off_cleanups -= 1;
                self.deletes.push_back(item);
            } else {
                self.watches.push_back(item);
            }
        }
    }

    /// When there is something to take. Without room, the next answer comes first.
    pub(super) fn next(&self, now: &impl Deref<Target = Moment>) -> Option<Moment> {
        let upkeep = !self.renewals.is_empty() || !self.deletes.is_empty();
        if upkeep && self.in_flight < MAX_UPKEEP
            || !self.grants.is_empty() && self.in_flight < MAX_IN_FLIGHT
            || !self.watches.is_empty() && self.in_flight < MAX_WATCHING
        {
            return Some(**now);
        }
        // Due jobs find room once an answer came.
        if self.in_flight >= MAX_WATCHING { None } else { self.next_due() }
    }

    /// When something has to be sent again.
    fn next_due(&self) -> Option<Moment> {
        self.later.first_key_value().map(|((due, _), _)| *due)
    }

    /// This many of the jobs that were taken are no longer in flight.
    pub(super) fn answered(&mut self, jobs: usize) {
        self.in_flight = self.in_flight.saturating_sub(jobs);
    }

    /// Remembers to do this delete at `due`, and again for as long as it takes. A node that does
    /// not answer may still have the `SET` before it, and may run that `SET` when it comes back.
    pub(super) fn add_cleanup(&mut self, job: Job, due: Moment) {
        if job.clean_up.is_some() {
            self.put_off_cleanups += 1;
            self.put_off(Queued { job, reply_to: None, queued: due }, due);
        }
    }

    /// Adds a clean-up for a node that answers, if only with an error. Such a node has run all
    /// earlier commands, so nothing is left to do once the key has expired.
    pub(super) fn add_cleanup_until_expiry(&mut self, job: Job, due: Moment) {
        if job.clean_up.is_some_and(|clean_up| due < clean_up.until) {
            self.add_cleanup(job, due);
        }
    }

    /// After an answer: a delete that went out on another connection than its SET may have overtaken
    /// it, because the old socket's commands may run after the new one's first. It is done once more
    /// a moment later (rule 5).
    pub(super) fn repeat(&mut self, job: &Job, now: Moment) {
        let Some(clean_up @ CleanUp { repeated: false, .. }) = job.clean_up else { return };
        let may_be_behind = self.previous_ended.is_some_and(|ended| clean_up.since <= ended);
        if may_be_behind {
            let clean_up = Some(CleanUp { repeated: true, ..clean_up });
            self.add_cleanup(Job { clean_up, ..job.clone() }, now + PAUSE);
        }
    }

    /// Asks this again later: a watch whose request failed.
    pub(super) fn ask_again(&mut self, item: Queued, due: Moment) {
        self.put_off(item, due);
    }

    fn put_off(&mut self, item: Queued, due: Moment) {
        self.later.insert((due, self.numbered), item);
        self.numbered += 1;
    }

    /// The connection has ended. Unsent jobs come back, and so do watches that were put off.
    pub(super) fn disconnect(&mut self, now: Moment) -> Vec<Queued> {
        self.previous_ended = Some(now);
        self.later.retain(|_, item| item.job.clean_up.is_some());
        let lanes = [&mut self.renewals, &mut self.deletes, &mut self.grants, &mut self.watches];
        lanes.into_iter().flat_map(std::mem::take).collect()
    }

    /// Takes out every delete that was not sent. They are put off as clean-ups instead.
    pub(super) fn take_deletes(&mut self, now: Moment) -> Vec<Queued> {
        let deletes: Vec<_> = std::mem::take(&mut self.deletes).into();
        for item in &deletes {
            self.add_cleanup(item.job.clone(), now);
        }
        deletes
    }

    /// Jobs that were sent and have no answer are not in flight any more. Deletes become clean-ups.
    pub(super) fn abandon(&mut self, unanswered: &[Queued], now: Moment) {
        self.answered(unanswered.len());
        for item in unanswered {
            self.add_cleanup(item.job.clone(), now);
        }
    }

    /// Another task goes on from here, on a connection of its own.
    pub(super) fn begin_anew(&mut self, now: Moment, unanswered: &[Queued]) {
        if matches!(self.link, Link::Up) {
            self.previous_ended = Some(now);
        }
        self.abandon(unanswered, now);
    }

    /// Takes out the jobs that have waited for `limit`.
    pub(super) fn take_overdue(&mut self, now: Moment, limit: Duration) -> Vec<Queued> {
        let lanes = [&mut self.renewals, &mut self.deletes, &mut self.grants, &mut self.watches];
        let mut overdue = Vec::new();
        for lane in lanes {
            let until = lane.partition_point(|item| now.since(item.queued) >= limit);
            overdue.extend(lane.drain(..until));
        }
        overdue
    }

    /// When the job that has waited longest was handed in.
    pub(super) fn oldest(&self) -> Option<Moment> {
        let lanes = [&self.renewals, &self.deletes, &self.grants, &self.watches];
        lanes.into_iter().filter_map(|lane| lane.front()).map(|item| item.queued).min()
    }

    pub(super) fn nothing_waits(&self) -> bool {
        self.renewals.is_empty()
            && self.deletes.is_empty()
            && self.grants.is_empty()
            && self.watches.is_empty()
    }

    /// Nothing waits or is in flight: a new job may leave at once.
    pub(super) fn is_quiet(&self) -> bool {
        self.in_flight == 0 && self.nothing_waits()
    }

    /// How many deletes are not confirmed: deletes that were not sent, and deletes that have to be
    /// tried again.
    pub(super) fn cleanups(&self) -> usize {
        self.put_off_cleanups + self.deletes.len()
    }

    /// No delete has to be repeated.
    pub(super) fn has_no_cleanups(&self) -> bool {
        self.cleanups() == 0
    }

    /// Nothing waits, is in flight or has to be repeated.
    pub(super) fn is_idle(&self) -> bool {
        self.put_off_cleanups == 0 && self.is_quiet()
    }
}

impl Queued {
    pub(super) fn is_wanted(&self) -> bool {
        self.reply_to.as_ref().is_none_or(ReplyTo::is_wanted)
    }

    fn new(job: Job, reply_to: ReplyTo, queued: Moment) -> Self {
        Self { job, reply_to: Some(reply_to), queued }
    }
}

fn is_unsent(lane: &VecDeque<Queued>, claim: &Arc<Claim>) -> bool {
    lane.iter().any(|item| Arc::ptr_eq(&item.job.claim, claim))
}

/// Takes what this claim wants out of a lane, if it is there.
fn withdraw(
    lane: &mut VecDeque<Queued>,
    claim: &Arc<Claim>,
    name: &Arc<str>,
    early: &mut Vec<EarlyReply>,
) -> bool {
    let Some(at) = lane.iter().rposition(|item| Arc::ptr_eq(&item.job.claim, claim)) else {
        return false;
    };
    if let Some(Queued { reply_to: Some(reply_to), .. }) = lane.remove(at) {
        early.push((reply_to, Err(withdrawn(name))));
    }
    true
}

fn withdrawn(name: &Arc<str>) -> NodeError {
    let reason = "it was not sent: a later command for the same lock took its place";
    NodeError::new(name, NodeErrorKind::Overloaded, reason)
}
