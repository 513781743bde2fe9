//! Waits for turns in the queues of this process.

use std::sync::Arc;

use super::{fronts::Fronts, request::Request};
use crate::{
    clock::Moment,
    error::LockError,
    metrics,
    wait::{Front, Joined, PendingTurn},
};

impl Request<'_> {
    /// Waits for the turn in the queue before each key.
    pub(super) async fn turns(&mut self) -> Result<Fronts, LockError> {
        let key = Arc::clone(&self.key);
        let first = self.turn(&key, self.begun).await?;
        if self.rest.is_empty() {
            return Ok(Fronts::one(first));
        }
        Box::pin(self.other_turns(first)).await
    }

    /// Waits for the turn in the queue before one key.
    pub(super) async fn turn(&mut self, key: &Arc<str>, now: Moment) -> Result<Front, LockError> {
        let joined = self.client.queues.join(key, self.wants(), now);
        self.after_joining(joined, now).await
    }

    /// Waits once more in a queue that the request joined at `since`, and left with a turn that did not bring the lock.
    pub(super) async fn turn_again(
        &mut self,
        key: &Arc<str>,
        since: Moment,
    ) -> Result<Front, LockError> {
        let joined = self.client.queues.rejoin(key, self.wants(), since);
        let now = self.now();
        self.after_joining(joined, now).await
    }

    /// Waits for the turn in a queue that the request has joined now.
    async fn after_joining(&mut self, joined: Joined, now: Moment) -> Result<Front, LockError> {
        match joined {
            Joined::First(front) => Ok(front),
            Joined::Refused(no_turn) => Err(self.no_turn(&no_turn)),
            Joined::Waiting(pending) => Box::pin(self.wait_in_queue(pending, now)).await,
        }
    }

    /// Waits in a queue of this process that the request joined at `joined`.
    async fn wait_in_queue(
        &mut self,
        pending: PendingTurn,
        joined: Moment,
    ) -> Result<Front, LockError> {
        self.has_waited = true;
        let limit = if self.wants().tries_once {
            // The attempt in progress answers this request, too.
            self.client.nodes.give_up_after().saturating_sub(joined.since(self.begun))
        } else {
            self.retries.limit_in_queue(joined)
        };
        let turn = {
            let _waiting = metrics::waiting(self.terms.label);
            pending.turn(limit).await
        };
        let now = self.now();
        self.retries.waited_in_queue(now);
        if let Ok(front) = &turn {
            let cause = if front.has_lease() { "handed_over" } else { "front" };
            self.woken(cause, now.since(self.begun));
        }
        // Counts the attempts that a polling client would have made in that time.
        self.attempts = self.retries.spent().saturating_add(1);
        turn.map_err(|no_turn| self.no_turn(&no_turn))
    }
}
