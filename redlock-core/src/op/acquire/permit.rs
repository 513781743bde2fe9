//! Taking one of the permits of a resource.
//!
//! A permit is a lock under a key of its own, with a number. The first attempt is for a random
//! number. A client that was refused asks the node that keeps the queue of all permits, or the next one that
//! votes, for a number that is free there. So a client pays one question when all permits are taken, and not an attempt
//! at each.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    fronts::Fronts,
    request::{Permits, Request},
};
use crate::{
    error::LockError,
    lease::Hold,
    node::{Action, Claim, Job, Reply, queue_keys},
    quorum::answer_of,
    wait::{FailedAttempt, Front, Joined, line_of_one_permit, permit_node},
};

/// How often a request that does not wait asks for another number, when other clients were faster.
const MAX_TRIES: usize = 4;

/// Numbers the requests that ask by themselves, so that each has a queue of its own.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

impl Request<'_> {
    /// Takes one of `count` permits.
    pub(super) async fn permit(mut self, count: u32) -> Result<Arc<Hold>, LockError> {
        if !self.rest.is_empty() {
            return Err(LockError::config(
                "permits are for one resource: a set of resources is locked by one holder",
            ));
        }
        let slot = queue_keys::permit(&self.key, 0);
        let line: Arc<str> = queue_keys::line(&slot).into();
        self.permits = Some(Box::new(Permits { line: Arc::clone(&line), count }));
        self.take_number(self.random(count));
        let mut refused = None;
        let queues = Arc::clone(&self.client.queues);
        // The waiters of this process go first, and those of other clients too, where some waited a moment ago.
        // A request that does not wait looks whether they still do.
        let now = self.now();
        let others_first = queues.is_contended(&line, now)
            && (!self.wants().tries_once || Box::pin(self.others_go_first(&line)).await?);
        if !queues.is_wanted(&line) && !others_first {
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            let own = line_of_one_permit(&line, number);
            let front = match queues.join(&own, self.wants(), self.begun) {
                Joined::First(front) => front,
                Joined::Refused(no_turn) => return Err(self.no_turn(&no_turn)),
                Joined::Waiting(_) => return Err(self.held(false, Vec::new())),
            };
            let mut fronts = Fronts::one(front);
            self.attempts = 1;
            for _ in 0..MAX_TRIES {
                let failure = match self.attempt(&mut fronts).await? {
                    Ok(granted) => return self.admit(fronts, granted),
                    Err(failure) => refused.insert(Arc::new(failure)),
                };
                if failure.no_quorum || !self.find_number(&mut fronts.first).await? {
                    break;
                }
            }
        }
        let now = self.now();
        self.retries.failed(now);
        if self.retries.limit(now).is_zero() {
            let full = FailedAttempt::full();
            return Err(self.out_of_time(Some(refused.as_deref().unwrap_or(&full))));
        }
        let mut front: Front = self.turn(&line, now).await?;
        if let Some(refused) = &refused {
            front.failed(refused);
        }
        // After waiting for the turn, what the nodes said before is out of date.
        let waited = self.now() > now;
        self.take(front, refused.filter(|_| !waited)).await
    }

    /// Chooses a permit that is free. False when there is none, as far as one node knows; true for a
    /// request that is for no permit.
    ///
    /// A node keeps permits for the waiters that it gave their turns. `front` is the place of this request
    /// among them, if it has one.
    pub(super) async fn find_number(&mut self, front: &mut Front) -> Result<bool, LockError> {
        let Some(Permits { line, count }) = self.permits.as_deref() else { return Ok(true) };
        let (line, count) = (Arc::clone(line), *count);
        let from = self.random(count);
        let nodes = Arc::clone(&self.client.nodes);
        let Some(node) = permit_node(&nodes, &line, self.now()) else {
            self.take_number(from);
            return Ok(true);
        };
        let waiter = front.entry.as_ref().map(|entry| entry.waiter().to_owned());
        let claim = Arc::new(Claim::new(&self.key, waiter.unwrap_or_default()));
        let job = Job::new(&claim, Action::FindPermit { count, from });
        match self.unless_closed(answer_of(&nodes, node, job)).await? {
            Ok(Reply::Permit { free: None }) => Ok(false),
            Ok(Reply::Permit { free: Some(number) }) if number < count => {
                if let Some(entry) = &mut front.entry {
                    // If another one is free, too, the node has given the turn for it to the first waiter.
                    entry.listen_again();
                }
                self.take_number(number);
                Ok(true)
            }
            // The other nodes can still give any of them.
            Ok(_) | Err(_) => {
                self.take_number(from);
                Ok(true)
            }
        }
    }

    /// Lets the next attempt be for the permit with this number.
    fn take_number(&mut self, number: u32) {
        let Some(Permits { line, .. }) = self.permits.as_deref() else { return };
        let key = format!("{line}:{number}");
        if *self.key != *key {
            self.key = key.into();
            self.watch = None;
        }
    }

    fn random(&self, count: u32) -> u32 {
        let random = self.up_to(Duration::from_secs(count.into())).as_secs();
        u32::try_from(random).unwrap_or(0).min(count - 1)
    }
}
