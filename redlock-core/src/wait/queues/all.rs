//! What concerns all queues of a client at once: the end of all turns, a look at all requests, and a
//! wake-up of all waiters.

use std::{collections::BTreeMap, sync::Arc};

use super::{Inner, Queues};
use crate::{
    clock::Moment,
    wait::{queue::Queue, queued_task::QueuedTask, readers::lock_of, turn::Front, wants::NoTurn},
};

/// The requests of this client for one lock that have no lock yet.
#[derive(Debug)]
pub(crate) struct Requests {
    /// The key of the lock.
    pub(crate) key: String,
    pub(crate) count: usize,
    /// When the first of them joined a queue.
    pub(crate) since: Moment,
}

impl Queues {
    /// Gives no more turns, and tells all waiters.
    pub(crate) fn close(&self) {
        for shard in &self.shards {
            Self::unlocked(shard, |inner| {
                inner.closed = true;
                let mut wakes = Vec::new();
                for queue in inner.in_order() {
                    let closed = |it: Arc<QueuedTask<Front>>| it.give(Err(NoTurn::Closed));
                    wakes.extend(queue.waiting.drain(..).filter_map(closed));
                }
                inner.wakes = wakes;
            });
        }
    }

    /// The requests that have no lock yet, for each key.
    pub(crate) fn requests(&self) -> Vec<Requests> {
        let mut by_lock: BTreeMap<String, Requests> = BTreeMap::new();
        for shard in &self.shards {
            let inner = shard.lock();
            for (key, queue) in &inner.by_key {
                let Some((count, since)) = queue.requests() else { continue };
                let key = lock_of(key);
                let none = || Requests { key: key.to_owned(), count: 0, since };
                let requests = by_lock.entry(key.to_owned()).or_insert_with(none);
                requests.count += count;
                requests.since = requests.since.min(since);
            }
        }
        by_lock.into_values().collect()
    }

    /// Wakes all waiters to check for themselves: the tasks of their client have ended.
    pub(crate) fn nudge(&self) {
        for shard in &self.shards {
            Self::unlocked(shard, |inner| {
                let waiting = inner.in_order().into_iter().flat_map(|queue| &queue.waiting);
                inner.wakes = waiting.filter_map(|waiter| waiter.waker()).collect();
            });
        }
    }
}

impl Inner {
    /// All queues in a fixed order.
    fn in_order(&mut self) -> Vec<&mut Queue<Front>> {
        let mut queues: Vec<_> = self.by_key.iter_mut().collect();
        queues.sort_unstable_by_key(|(key, _)| *key);
        queues.into_iter().map(|(_, queue)| queue).collect()
    }
}
