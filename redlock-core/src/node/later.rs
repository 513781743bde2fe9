//! The commands to one node that have to be sent again at some time: deletes that are not confirmed, waiters
//! that leave a queue which cannot be reached, and watches whose request has failed.

use std::{collections::BTreeMap, sync::Arc};

use super::{Job, lanes::Queued};
use crate::clock::Moment;

#[derive(Debug, Default)]
pub(super) struct Later {
    /// The commands, by when they are due. The number keeps the order.
    jobs: BTreeMap<(Moment, u64), Queued>,
    numbered: u64,
    /// How many of them are deletes.
    cleanups: usize,
}

impl Later {
    /// Adds a watch.
    pub(super) fn add(&mut self, item: Queued, due: Moment) {
        self.jobs.insert((due, self.numbered), item);
        self.numbered += 1;
    }

    /// Adds a job that is owed to the node, and no other job.
    pub(super) fn add_cleanup(&mut self, job: Arc<Job>, due: Moment) {
        if job.is_owed() {
            self.cleanups += usize::from(job.clean_up().is_some());
            self.add(Queued { job, reply_to: None, queued: due }, due);
        }
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

    /// Drops the watches. The next connection asks for all listeners.
    pub(super) fn drop_watches(&mut self) {
        self.jobs.retain(|_, item| item.job.is_owed());
    }
}
