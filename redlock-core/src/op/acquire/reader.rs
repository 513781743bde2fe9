//! Taking a lock as one of its readers.
//!
//! Readers hold a lock together, so the queue of their process must not have them ask one after the
//! other. Each asks by itself once. Readers that were refused stand in a queue of their own in the
//! process, whose front waits between the clients. When it has the lock, the next ones ask at once.

use std::sync::Arc;

use super::{fronts::Fronts, request::Request};
use crate::{
    clock::Moment,
    error::LockError,
    lease::Hold,
    wait::{Front, queue_of_one, queue_of_readers},
};

impl Request<'_> {
    /// Takes the lock as a reader.
    pub(super) async fn read(mut self) -> Result<Arc<Hold>, LockError> {
        if !self.rest.is_empty() {
            return Err(LockError::config(
                "shared is for one resource: a set of resources is locked by one holder",
            ));
        }
        self.attempts = 1;
        let mut front = self.alone(&queue_of_one(&self.key), self.begun)?;
        let queue_name = queue_of_readers(&self.key);
        // When it joined the queue.
        let mut since = None;
        loop {
            let mut fronts = Fronts::one(front);
            let failure = match self.attempt(&mut fronts).await? {
                Ok(granted) => return self.admit(fronts, granted),
                Err(failure) => Arc::new(failure),
            };
            drop(fronts);
            let failed = self.now();
            self.has_failed |= failure.was_asked;
            self.retries.failed(failed);
            if self.retries.limit(failed).is_zero() {
                return Err(self.out_of_time(Some(&failure)));
            }
            let now = self.now();
            self.has_waited = false;
            front = match since {
                None => self.turn(&queue_name, now).await?,
                Some(since) => self.turn_again(&queue_name, since).await?,
            };
            since.get_or_insert(now);
            if !front.asks_beside() {
                front.failed(&failure);
                // After waiting for the turn, what the nodes said before is out of date.
                let refused = (!self.has_waited).then_some(failure);
                return self.take(front, refused).await;
            }
        }
    }

    /// The turn of a request that asks without waiting for others.
    pub(super) fn alone(&self, own: &Arc<str>, now: Moment) -> Result<Front, LockError> {
        self.client.queues.alone(own, now).ok_or_else(|| self.shutting_down())
    }
}
