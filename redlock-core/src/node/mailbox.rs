//! What waits to be sent to one node, and whether sending makes sense at all.

use std::{collections::VecDeque, ops::Deref, sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{Action, Job, debts::Debts, quarantine::Quarantine};
use crate::{
    bug::{Bug, planted},
    clock::Moment,
    error::{NodeError, NodeErrorKind},
    quorum::{Ballot, Uncast},
};

/// How many jobs may wait for one node. Past that the node counts as failed for new ones: what
/// nobody can send any more should not be kept either (rule 18).
const MOST_WAITING: usize = 1 << 16;

/// How many commands may be under way to one node. It takes its time for each: a crowd that went
/// out at once would not be answered within `node_timeout`, though the node is well, and would be
/// sent again and again.
const MOST_UNDER_WAY: usize = 512;

/// How many of them go out as one batch, which is answered as a whole: an answer now and then shows
/// that a node with much to do is alive.
const MOST_IN_BATCH: usize = 128;

/// A job on its way to the node.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) job: Job,
    /// Who counts the answer. A repeated clean-up has nobody left to tell.
    pub(super) ballot: Option<Ballot>,
    pub(super) queued: Moment,
}

/// What is known of the connection.
#[derive(Debug, Clone)]
pub(super) enum Link {
    /// Not connected yet, or not since the runtime before this one: jobs wait for it, for as long
    /// as they may.
    Opening,
    /// Connected.
    Up,
    /// Not connected, for this reason: answered in no time (rule 14).
    Down(NodeError),
}

#[derive(Debug)]
pub(super) struct Mailbox {
    pub(super) link: Link,
    waiting: VecDeque<Item>,
    pub(super) pings: Vec<oneshot::Sender<Result<(), NodeError>>>,
    /// Jobs that have been taken and not been answered.
    under_way: usize,
    pub(super) debts: Debts,
    pub(super) quarantine: Quarantine,
    /// Set when the last client has gone: clean-up may go on until then.
    pub(super) ends_at: Option<Moment>,
}

impl Mailbox {
    pub(super) fn new(quarantine: Quarantine) -> Self {
        Self {
            link: Link::Opening,
            waiting: VecDeque::new(),
            pings: Vec::new(),
            under_way: 0,
            debts: Debts::default(),
            quarantine,
            ends_at: None,
        }
    }

    /// Takes a job in, or gives the ballot back with the result that is known already.
    pub(super) fn put(
        &mut self,
        name: &Arc<str>,
        job: Job,
        ballot: Ballot,
        now: Moment,
    ) -> Option<Uncast> {
        let refusal = match &self.link {
            Link::Down(error) => error.clone(),
            Link::Opening | Link::Up => match self.bars(name, &job, now) {
                Some(refusal) => refusal,
                None if self.waiting.len() >= MOST_WAITING => NodeError::new(
                    name,
                    NodeErrorKind::Overloaded,
                    format!("{MOST_WAITING} commands wait to be sent to it"),
                ),
                None => {
                    self.waiting.push_back(Item { job, ballot: Some(ballot), queued: now });
                    return None;
                }
            },
        };
        self.debts.owe(job, now);
        Some((ballot, Err(refusal)))
    }

    /// Why the node must not be asked this, when it sits out: only votes for new locks (rule 16).
    fn bars(&self, name: &Arc<str>, job: &Job, now: Moment) -> Option<NodeError> {
        let Action::Grant { .. } = job.action else { return None };
        if planted(Bug::QuarantineSkipped) {
            return None;
        }
        let (suspicion, left) = self.quarantine.sits_out(now)?;
        let reason = format!(
            "{} and may have forgotten locks, so it votes again in {left:.1?}",
            suspicion.describe()
        );
        Some(NodeError::new(name, NodeErrorKind::SitsOut, reason))
    }

    /// Takes out what the node must not be asked any more, with the reason.
    pub(super) fn take_barred(&mut self, name: &Arc<str>, now: Moment) -> Vec<(Item, NodeError)> {
        let mut barred = Vec::new();
        for item in std::mem::take(&mut self.waiting) {
            match self.bars(name, &item.job, now) {
                Some(refusal) => barred.push((item, refusal)),
                None => self.waiting.push_back(item),
            }
        }
        barred
    }

    /// Takes out the next batch of what waits, in order, as far as there is room. Debts that are due
    /// come last: the SET that one of them undoes may be waiting still. `now` is looked at only when
    /// something may be due. `spare` is empty, and what is taken comes in it.
    pub(super) fn take(
        &mut self,
        now: &impl Deref<Target = Moment>,
        spare: Vec<Item>,
    ) -> Vec<Item> {
        let mut items = spare;
        let room = MOST_UNDER_WAY.saturating_sub(self.under_way).min(MOST_IN_BATCH);
        // A ballot that is not wanted is a bell's, and dropping it takes no lock.
        let wanted = |item: &Item| item.ballot.as_ref().is_none_or(Ballot::is_wanted);
        items.extend(self.waiting.drain(..room.min(self.waiting.len())).filter(wanted));
        if self.waiting.is_empty() && !self.debts.is_empty() {
            let due = self.debts.due(**now, room - items.len()).into_iter();
            items.extend(due.map(|job| Item { job, ballot: None, queued: **now }));
        }
        self.under_way += items.len();
        items
    }

    /// When there is something to take: not before an answer makes room.
    pub(super) fn next(&self, now: &impl Deref<Target = Moment>) -> Option<Moment> {
        if self.under_way >= MOST_UNDER_WAY {
            return None;
        }
        if self.waiting.is_empty() { self.debts.next_due() } else { Some(**now) }
    }

    /// So many of the jobs that were taken are no longer under way.
    pub(super) fn answered(&mut self, jobs: usize) {
        self.under_way = self.under_way.saturating_sub(jobs);
    }

    /// Takes out what waits, as nobody sends it any more; clean-up becomes a debt.
    pub(super) fn forsake(&mut self, now: Moment) -> VecDeque<Item> {
        let waiting = self.take_all();
        for item in &waiting {
            self.debts.owe(item.job.clone(), now);
        }
        waiting
    }

    /// Takes out what waits.
    pub(super) fn take_all(&mut self) -> VecDeque<Item> {
        std::mem::take(&mut self.waiting)
    }

    /// Takes out what has waited for `limit`.
    pub(super) fn take_overdue(&mut self, now: Moment, limit: Duration) -> VecDeque<Item> {
        let overdue = self.waiting.partition_point(|item| now.since(item.queued) >= limit);
        self.waiting.drain(..overdue).collect()
    }

    /// When the job that has waited longest was handed in.
    pub(super) fn oldest(&self) -> Option<Moment> {
        self.waiting.front().map(|item| item.queued)
    }

    pub(super) fn nothing_waits(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Nothing waits, is under way or is owed.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.under_way == 0 && self.debts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        node::{Claim, CleanUp, Identity, Restarts},
        quorum::{Bell, Round},
    };

    const CROWD: usize = MOST_UNDER_WAY + 100;

    fn up() -> Mailbox {
        let mut mailbox = Mailbox::new(Quarantine::new(Restarts::Trusted, Duration::ZERO));
        mailbox.link = Link::Up;
        mailbox
    }

    fn delete(claim: &Arc<Claim>) -> Job {
        let now = Moment::ORIGIN;
        let clean_up = CleanUp { since: now, until: now, keep_until: None, repeated: false };
        Job { clean_up: Some(clean_up), ..Job::new(claim, Action::Release) }
    }

    #[test]
    fn a_crowd_goes_out_in_order_and_no_more_of_it_than_a_node_can_answer() {
        let now = Moment::ORIGIN;
        let (name, mut mailbox) = ("a:1".into(), up());
        let job = |number: usize| {
            let claim = Claim { key: number.to_string().into(), value: String::new() };
            delete(&Arc::new(claim))
        };
        let round = Round::new(1, |_| false);
        for number in 0..CROWD {
            mailbox.debts.owe(job(CROWD + number), now);
            assert!(mailbox.put(&name, job(number), Ballot::new(&round, 0, &name), now).is_none());
        }

        let mut sent = Vec::new();
        while !mailbox.is_idle() {
            let mut under_way = 0;
            while mailbox.next(&&now).is_some() {
                let items = mailbox.take(&&now, Vec::new());
                assert!((1..=MOST_IN_BATCH).contains(&items.len()), "{}", items.len());
                under_way += items.len();
                sent.extend(items.iter().map(|item| item.job.claim.key.parse::<usize>().unwrap()));
            }
            assert!(
                under_way <= MOST_UNDER_WAY && mailbox.take(&&now, Vec::new()).is_empty(),
                "{under_way}"
            );
            mailbox.answered(under_way);
        }
        assert!(sent.is_sorted(), "debts come last");
        assert_eq!(sent.len(), 2 * CROWD);
    }

    #[test]
    fn what_waits_for_a_node_that_turns_out_to_sit_out_is_taken_back_unless_it_is_no_vote() {
        let (now, name) = (Moment::ORIGIN, "a:1".into());
        let span = Duration::from_secs(60);
        let mut mailbox = Mailbox::new(Quarantine::new(Restarts::Strict, span));
        let claim = Arc::new(Claim { key: "k".into(), value: "v".into() });
        let round = Round::new(1, |_| false);
        let ttl = Duration::from_secs(1);
        let grant = || Job::new(&claim, Action::Grant { ttl });
        for job in [grant(), Job::new(&claim, Action::Extend { ttl }), delete(&claim)] {
            assert!(mailbox.put(&name, job, Ballot::new(&round, 0, &name), now).is_none());
        }
        mailbox.quarantine.admit(&Identity::default(), true, now).unwrap();
        let barred = mailbox.take_barred(&name, now);
        let [(item, error)] = &barred[..] else { panic!("{} are barred", barred.len()) };
        assert!(matches!(item.job.action, Action::Grant { .. }));
        assert_eq!(error.kind, NodeErrorKind::SitsOut);
        assert_eq!(mailbox.take_all().len(), 2);
        let (_, refused) = mailbox.put(&name, grant(), Ballot::new(&round, 0, &name), now).unwrap();
        assert_eq!(refused.unwrap_err().kind, NodeErrorKind::SitsOut);
        let later = mailbox.put(&name, grant(), Ballot::new(&round, 0, &name), now + span);
        assert!(later.is_none());
    }

    #[test]
    fn what_waits_is_bounded() {
        let (now, name) = (Moment::ORIGIN, "a:1".into());
        let mut mailbox = up();
        let claim = Arc::new(Claim { key: "k".into(), value: "v".into() });
        let round = Round::new(1, |_| false);
        let mut put = || mailbox.put(&name, delete(&claim), Ballot::new(&round, 0, &name), now);
        assert!((0..MOST_WAITING).all(|_| put().is_none()));
        let (_, refused) = put().unwrap();
        assert_eq!(refused.unwrap_err().kind, NodeErrorKind::Overloaded);
        assert_eq!(mailbox.debts.len(), 1, "it is done later");
    }

    #[test]
    fn a_debt_does_not_overtake_what_waits() {
        let now = Moment::ORIGIN;
        let (name, mut mailbox) = ("a:1".into(), up());
        let claim = Arc::new(Claim { key: "k".into(), value: "v".into() });
        let clock: Arc<dyn crate::clock::Clock> = Arc::new(crate::clock::TokioClock);
        let (bell, round) = (Bell::new(1, &clock), Round::new(1, |_| false));
        for _ in 0..MOST_IN_BATCH {
            let ballot = Ballot::new(&bell, 0, &name);
            assert!(mailbox.put(&name, Job::new(&claim, Action::Watch), ballot, now).is_none());
        }
        bell.take_down();
        let set = Job::new(&claim, Action::Grant { ttl: Duration::from_secs(1) });
        assert!(mailbox.put(&name, set, Ballot::new(&round, 0, &name), now).is_none());
        mailbox.debts.owe(delete(&claim), now);
        let mut sent = Vec::new();
        while mailbox.next(&&now).is_some() {
            sent.extend(mailbox.take(&&now, Vec::new()).iter().map(|item| item.job.action));
        }
        assert!(matches!(sent[..], [Action::Grant { .. }, Action::Release]), "{sent:?}");
    }

    #[test]
    fn all_that_has_waited_for_too_long_is_taken_out_at_once() {
        let (name, mut mailbox) = ("a:1".into(), up());
        let claim = Arc::new(Claim { key: "k".into(), value: "v".into() });
        let round = Round::new(1, |_| false);
        let at = |ms| Moment::ORIGIN + Duration::from_millis(ms);
        for queued in 0..100 {
            let ballot = Ballot::new(&round, 0, &name);
            assert!(mailbox.put(&name, delete(&claim), ballot, at(queued)).is_none());
        }
        assert_eq!(mailbox.take_overdue(at(90), Duration::from_millis(50)).len(), 41);
        assert_eq!(mailbox.oldest(), Some(at(41)));
        assert_eq!(mailbox.take_all().len(), 59);
    }
}
