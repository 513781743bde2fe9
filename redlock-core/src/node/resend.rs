//! The commands to one node that have to be sent again at some time: deletes that are not confirmed, waiters
//! that leave a queue which cannot be reached, and watches whose request has failed.

use std::{collections::BTreeMap, sync::Arc};

use super::{Job, queued::Queued, sweep::Sweep};
use crate::clock::Moment;

#[derive(Debug, Default)]
pub(super) struct Resend {
    /// The commands, by when they are due. The number keeps the order.
    jobs: BTreeMap<(Moment, u64), Queued>,
    numbered: u64,
    /// How many of them are deletes.
    cleanups: usize,
    sweep: Sweep,
    /// Waiters that have left, where the node did not answer in time. It takes them out when it goes on,
    /// unless the connection ends first.
    unheard: Vec<Arc<Job>>,
}

impl Resend {
    /// Adds a watch. A node that sits out is asked when it votes again: until then its watches would
    /// pile up, most of which nothing waits for any more (rule 18).
    pub(super) fn add_watch(&mut self, item: Queued, due: Moment) {
        if self.sweep.is_due(self.jobs.len()) {
            self.jobs.retain(|_, item| item.is_wanted());
            self.sweep.done(self.jobs.len());
        }
        self.add(item, due);
    }

    /// Adds a job that is owed to the node, and no other job.
    pub(super) fn add_owed(&mut self, job: Arc<Job>, due: Moment) {
        if job.is_owed() {
            self.cleanups += usize::from(job.clean_up().is_some());
            self.add(Queued { job: job.again(), reply_to: None, queued: due }, due);
        }
    }

    /// Notes that the node did not answer in time as a waiter left.
    pub(super) fn add_unheard(&mut self, job: Arc<Job>) {
        self.unheard.push(job);
    }

    /// Notes that the node has answered. It runs commands in order, so it has run the earlier ones.
    pub(super) fn heard(&mut self) {
        self.unheard.clear();
    }

    fn add(&mut self, item: Queued, due: Moment) {
        self.jobs.insert((due, self.numbered), item);
        self.numbered += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// How many deletes there are.
    pub(super) fn cleanups(&self) -> usize {
        self.cleanups
    }

    /// Takes out a command that is due.
    pub(super) fn take_due(&mut self, now: Moment) -> Option<Queued> {
        let first = self.jobs.first_entry().filter(|first| first.key().0 <= now)?;
        let item = first.remove();
        self.cleanups -= usize::from(item.job.clean_up().is_some());
        Some(item)
    }

    /// When the next command is due.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.jobs.first_key_value().map(|((due, _), _)| *due)
    }

    /// Drops the watches, since the next connection asks for all listeners.
    pub(super) fn drop_watches(&mut self) {
        self.jobs.retain(|_, item| item.job.is_owed());
    }

    /// Owes to the next connection what may not have arrived on this one.
    pub(super) fn owe_unheard(&mut self, now: Moment) {
        for job in std::mem::take(&mut self.unheard) {
            self.add_owed(job, now);
        }
    }
}
