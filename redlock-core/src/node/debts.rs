//! Deletes that are owed to a node: clean-up that goes on until it is confirmed, or refused for so
//! long that the key has expired by itself (rule 5).

use std::{collections::BTreeMap, ops::Deref, time::Duration};

use super::{CleanUp, Job};
use crate::{
    bug::{Bug, planted},
    clock::Moment,
};

/// Between two tries to pay, and between a delete on a new connection and its repetition.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// How many deletes may be owed to one node. What is over expires by its ttl (rule 18).
const MOST_OWED: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct Debts {
    /// By when they are due; the number keeps those of one moment apart and in order.
    owed: BTreeMap<(Moment, u64), Job>,
    next: u64,
}

impl Debts {
    /// Remembers to do this job later, at `due`, however much later that comes to be: a node that
    /// does not answer may still have the SET before it, and run that when it comes back.
    pub(super) fn owe(&mut self, job: Job, due: Moment) {
        if job.clean_up.is_some() && self.owed.len() < MOST_OWED {
            self.owed.insert((due, self.next), job);
            self.next += 1;
        }
    }

    /// The same for a node that answers, if only with an error: it has run what was sent before,
    /// so that nothing is left to do once the key has expired.
    pub(super) fn owe_until_expiry(&mut self, job: Job, due: Moment) {
        if job.clean_up.is_some_and(|clean_up| due < clean_up.until) {
            self.owe(job, due);
        }
    }

    /// After an answer on a connection opened at `connected`: a delete that went out on another
    /// connection than its SET may have overtaken it, because the old socket's commands may run
    /// after the new one's first. It is done once more a moment later (rule 5).
    pub(super) fn repeat(
        &mut self,
        job: &Job,
        connected: Moment,
        now: &impl Deref<Target = Moment>,
    ) {
        let Some(clean_up @ CleanUp { repeated: false, .. }) = job.clean_up else { return };
        if connected > clean_up.since && !planted(Bug::CleanUpOnce) {
            let clean_up = Some(CleanUp { repeated: true, ..clean_up });
            self.owe(Job { clean_up, ..job.clone() }, **now + PAUSE);
        }
    }

    /// Takes out what is due, the oldest first and so many at most.
    pub(super) fn due(&mut self, now: Moment, most: usize) -> Vec<Job> {
        let mut due = Vec::new();
        while due.len() < most
            && let Some(first) = self.owed.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        due
    }

    /// When something is due next.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.owed.first_key_value().map(|((due, _), _)| *due)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.owed.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::node::{Action, Claim};

    fn at(ms: u64) -> Moment {
        Moment::ORIGIN + Duration::from_millis(ms)
    }

    fn job(since: u64, until: u64) -> Job {
        let claim = Arc::new(Claim { key: "k".into(), value: "v".into() });
        Job {
            clean_up: Some(CleanUp {
                since: at(since),
                until: at(until),
                keep_until: None,
                repeated: false,
            }),
            ..Job::new(&claim, Action::Release)
        }
    }

    #[test]
    fn debts_come_due_in_order() {
        let mut debts = Debts::default();
        debts.owe(job(0, 5000), at(2000));
        debts.owe(job(0, 5000), at(1000));
        assert_eq!((debts.len(), debts.next_due()), (2, Some(at(1000))));
        assert!(!debts.is_empty());
        let mut due = |now| debts.due(at(now), usize::MAX).len();
        assert_eq!((due(999), due(1000)), (0, 1));
        assert_eq!(due(9000), 1, "it may have been set late, too");
        assert!(debts.is_empty());
    }

    #[test]
    fn no_more_debts_are_paid_than_fit_into_a_batch() {
        let mut debts = Debts::default();
        (0..3).for_each(|_| debts.owe(job(0, 5000), at(0)));
        assert_eq!((debts.due(at(0), 2).len(), debts.len()), (2, 1));
    }

    #[test]
    fn what_a_node_refuses_to_do_ends_with_the_key() {
        let mut debts = Debts::default();
        debts.owe_until_expiry(job(0, 1000), at(1000));
        assert!(debts.is_empty());
        debts.owe_until_expiry(job(0, 1001), at(1000));
        assert_eq!(debts.len(), 1);
    }

    #[test]
    fn a_delete_on_a_newer_connection_is_repeated_once() {
        let mut debts = Debts::default();
        for connected in [999, 1000] {
            debts.repeat(&job(1000, 60_000), at(connected), &&at(1500));
            assert!(debts.is_empty(), "same connection: first in, first out");
        }
        debts.repeat(&job(1000, 60_000), at(1200), &&at(1500));
        let again = debts.due(at(2500), 1).remove(0);
        debts.repeat(&again, at(1200), &&at(2500));
        assert!(debts.is_empty(), "once is enough");
    }

    #[test]
    fn a_job_that_cleans_nothing_up_is_never_owed() {
        let mut debts = Debts::default();
        debts.owe(Job { clean_up: None, ..job(0, 5000) }, at(1));
        assert!(debts.is_empty());
    }

    #[test]
    fn debts_are_bounded() {
        let mut debts = Debts::default();
        for _ in 0..MOST_OWED + 10 {
            debts.owe(job(0, 5000), at(1));
        }
        assert_eq!(debts.len(), MOST_OWED);
    }
}
