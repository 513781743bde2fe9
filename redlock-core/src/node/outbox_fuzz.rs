//! The outbox, through any sequence of jobs, batches, answers and broken connections.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    Action, Claim, CleanUp, Job, KeySet, ReplyTo, Restarts,
    lanes::MAX_IN_BATCH,
    outbox::{Link, Outbox},
    quarantine::Quarantine,
    queued::Queued,
};
use crate::{clock::Moment, quorum::Round};

const TTL: Duration = Duration::from_secs(10);
const CLAIMS: u8 = 6;

/// The history of one claim.
#[derive(Default)]
struct Fate {
    asked: bool,
    /// Its SET was sent.
    set: bool,
    released: bool,
    /// A delete was sent after that, on a connection that did not break before its answer.
    deleted: bool,
}

struct Run {
    outbox: Outbox,
    now: Moment,
    claims: BTreeMap<u8, (Arc<Claim>, Fate)>,
    /// Commands that were sent and have no answer.
    sent: Vec<Queued>,
}

/// Each byte is one step: what to do, and to which claim.
///
/// # Panics
///
/// When a batch is too large, or a claim that may be set on the node was released there and no
/// delete of it is ever sent (rule 5), or deletes are counted wrongly.
pub fn outbox(steps: &[u8]) {
    let mut outbox = Outbox::new(Quarantine::new(Restarts::Trusted, Duration::ZERO));
    outbox.link = Link::Up;
    let now = Moment::ORIGIN;
    let mut run = Run { outbox, now, claims: BTreeMap::new(), sent: Vec::new() };
    for step in steps.iter().take(2000) {
        run.step(step / 32, step % CLAIMS);
    }
    // The node answers again, and everything that is owed is sent.
    for _ in 0..64 {
        run.now = run.now + Duration::from_millis(100);
        run.answer();
        run.take();
    }
    run.answer();
    assert!(run.outbox.has_no_cleanups(), "deletes are counted that have been answered");
    for (key, (_, fate)) in &run.claims {
        assert!(!fate.set || !fate.released || fate.deleted, "claim {key} is never deleted");
    }
}

impl Run {
    fn step(&mut self, what: u8, key: u8) {
        match what {
            0 => self.grant(key),
            1 => self.put(key, |claim| Job::new(claim, Action::Extend { ttl: TTL })),
            2 | 3 => self.release(key),
            4 => self.put(key, |claim| Job::new(claim, Action::Watch)),
            5 => self.take(),
            6 => self.answer(),
            _ => self.disconnect(),
        }
    }

    /// A claim is granted at most once by a node.
    fn grant(&mut self, key: u8) {
        if self.claims.get(&key).is_none_or(|(_, fate)| !fate.asked) {
            self.put(key, |claim| Job::new(claim, Action::Grant { ttl: TTL }));
            if let Some((_, fate)) = self.claims.get_mut(&key) {
                fate.asked = true;
            }
        }
    }

    fn release(&mut self, key: u8) {
        if self.claims.get(&key).is_none_or(|(_, fate)| !fate.asked || fate.released) {
            return;
        }
        let (since, until) = (Moment::ORIGIN, self.now + TTL * 100);
        self.put(key, |claim| {
            let clean_up =
                CleanUp { since, until, keep_until: since, may_be_there: true, repeated: false };
            Job::cleaning(claim, Action::Release { wakes: KeySet::NONE }, clean_up)
        });
        if let Some((_, fate)) = self.claims.get_mut(&key) {
            fate.released = true;
        }
    }

    fn put(&mut self, key: u8, job: impl FnOnce(&Arc<Claim>) -> Arc<Job>) {
        let name: Arc<str> = "a:1".into();
        let (claim, _) = self.claims.entry(key).or_insert_with(|| {
            let claim = Claim::new(&key.to_string().into(), "v".into());
            (Arc::new(claim), Fate::default())
        });
        let job = job(claim);
        let reply_to = ReplyTo::new(&Round::new(&[Arc::clone(&name)].into(), |_| false), 0);
        drop(self.outbox.put(&name, job, reply_to, self.now));
    }

    fn take(&mut self) {
        let (items, _) = self.outbox.take(&&self.now, Vec::new());
        assert!(items.len() <= MAX_IN_BATCH, "a batch of {}", items.len());
        for item in &items {
            let Some(fate) = self.fate_of(item) else { continue };
            match item.job.action {
                Action::Grant { .. } => (fate.set, fate.deleted) = (true, false),
                Action::Release { .. } => fate.deleted = true,
                _ => {}
            }
        }
        self.sent.extend(items);
        assert!(self.sent.len() <= 2048, "{} in flight", self.sent.len());
    }

    fn fate_of(&mut self, item: &Queued) -> Option<&mut Fate> {
        let mut claims = self.claims.values_mut();
        claims.find_map(|(claim, fate)| Arc::ptr_eq(claim, &item.job.claim).then_some(fate))
    }

    fn answer(&mut self) {
        self.outbox.lanes.answered(&self.sent);
        self.sent.clear();
        self.counts();
    }

    /// A delete is counted while it waits, while it is in flight, and while it is owed.
    fn counts(&self) {
        let in_flight = self.sent.iter().filter(|item| item.job.clean_up().is_some()).count();
        assert!(self.outbox.cleanups() >= in_flight, "{in_flight} in flight");
        assert!(!self.outbox.is_idle() || self.outbox.has_no_cleanups());
    }

    /// The connection breaks, and another one is there at once.
    fn disconnect(&mut self) {
        let unanswered = std::mem::take(&mut self.sent);
        for item in &unanswered {
            // The command may not have run.
            if let Action::Release { .. } = item.job.action
                && let Some(fate) = self.fate_of(item)
            {
                fate.deleted = false;
            }
        }
        self.outbox.begin_anew(self.now, &unanswered);
        self.outbox.link = Link::Up;
        self.counts();
    }
}
