//! Taking a lock as one of its readers.
//!
//! Readers hold a lock together, so the queue of their process must not have them ask one after the
//! other. Each asks by itself once. Readers that were refused stand in a queue of their own in the
//! process, whose front waits between the clients. When it has the lock, the next one asks at once.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::{fronts::Fronts, request::Request};
use crate::{
    error::LockError,
    lease::Hold,
    wait::{Front, Joined, line_of_one, line_of_readers},
};

/// Numbers the requests that ask by themselves, so that each has a queue of its own.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

impl Request<'_> {
    /// Takes the lock as a reader.
    pub(super) async fn read(mut self) -> Result<Arc<Hold>, LockError> {
        if !self.rest.is_empty() {
            return Err(LockError::config(
                "shared is for one resource: a set of resources is locked by one holder",
            ));
        }
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let own = line_of_one(&self.key, number);
        let front = match self.client.queues.join(&own, self.wants(), self.begun) {
            Joined::First(front) => front,
            Joined::Refused(no_turn) => return Err(self.no_turn(&no_turn)),
            Joined::Waiting(_) => return Err(self.held(false, Vec::new())),
        };
        self.attempts = 1;
        let mut fronts = Fronts::one(front);
        let failure = match self.attempt(&mut fronts).await? {
            Ok(granted) => return self.admit(fronts, granted),
            Err(failure) => Arc::new(failure),
        };
        drop(fronts);
        let failed = self.now();
        self.retries.failed(failed);
        if self.retries.limit(failed).is_zero() {
            return Err(self.out_of_time(Some(&failure)));
        }
        let line = line_of_readers(&self.key);
        let now = self.now();
        let mut front: Front = self.turn(&line, now).await?;
        front.failed(&failure);
        // After waiting for the turn, what the nodes said before is out of date.
        let waited = self.now() > now;
        self.take(front, (!waited).then_some(failure)).await
    }
}
