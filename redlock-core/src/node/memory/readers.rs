//! The readers of the locks of a node in memory, as the scripts of readers keep them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::node::{Action, Claim, Reply};

/// The readers by the keys of their locks, and the barriers of the writers that wait for them. Times are on the
/// node's own clock in seconds.
#[derive(Default)]
pub(super) struct Readers {
    /// The readers of each key by their values, and when each expires.
    by_key: BTreeMap<Arc<str>, BTreeMap<String, f64>>,
    barriers: BTreeMap<Arc<str>, Barrier>,
}

/// The barrier of a writer that waits.
struct Barrier {
    writer: String,
    /// Its place in the queue, or zero.
    place: u64,
    /// When the barrier stops counting.
    until: f64,
}

impl Barrier {
    /// Whether a reader at this place is behind the writer.
    fn stops(&self, place: u64, now: f64) -> bool {
        self.until > now && (place == 0 || place > self.place)
    }
}

impl Readers {
    /// When the last reader of this lock expires, if one is there.
    pub(super) fn until(&self, key: &str, now: f64) -> Option<f64> {
        let last = self.by_key.get(key)?.values().copied().fold(f64::NEG_INFINITY, f64::max);
        (last > now).then_some(last)
    }

    /// Whether readers have the lock, and no writer has a reader at this place wait.
    pub(super) fn may_join(&self, key: &str, place: u64, now: f64) -> bool {
        self.until(key, now).is_some() && !self.is_stopped(key, place, now)
    }

    /// Whether a writer has a reader at this place wait.
    fn is_stopped(&self, key: &str, place: u64, now: f64) -> bool {
        self.barriers.get(key).is_some_and(|barrier| barrier.stops(place, now))
    }

    /// The key and the value of each reader that is there, and when it expires.
    pub(super) fn all(&self, now: f64) -> impl Iterator<Item = (&Arc<str>, &String, f64)> {
        let readers = self.by_key.iter().flat_map(|(key, readers)| {
            readers.iter().map(move |(value, until)| (key, value, *until))
        });
        readers.filter(move |(_, _, until)| *until > now)
    }

    /// Runs the command of a reader, and returns whether it has changed the key.
    pub(super) fn run(
        &mut self,
        claim: &Claim,
        action: Action,
        now: f64,
        has_writer: bool,
    ) -> (Reply, bool) {
        if has_writer {
            return (Reply::Foreign, false);
        }
        let is_stopped = self.is_stopped(&claim.key, claim.place, now);
        if is_stopped && matches!(action, Action::Grant { .. }) {
            return (Reply::Foreign, false);
        }
        let was_there_until = self.by_key.get(&claim.key).and_then(|it| it.get(&claim.value));
        let was_there = was_there_until.is_some_and(|until| *until > now);
        let readers = self.by_key.entry(Arc::clone(&claim.key)).or_default();
        if was_there && matches!(action, Action::Grant { .. }) {
            // Under a second name of the node. A node has one vote for a reader, as it has for a writer.
            return (Reply::Foreign, false);
        }
        readers.retain(|_, until| *until > now);
        let found = readers.get_mut(&claim.value);
        let done = match (action, found) {
            (Action::Grant { ttl } | Action::Heal { ttl }, _) => {
                readers.insert(claim.value.clone(), now + ttl.as_secs_f64());
                (Reply::Done, true)
            }
            (_, None) => (Reply::Missing, false),
            (Action::Extend { ttl }, Some(until)) => {
                let left = Duration::try_from_secs_f64(*until - now).unwrap_or_default();
                *until = until.max(now + ttl.as_secs_f64());
                (Reply::There { left }, true)
            }
            (Action::Shorten { rest }, Some(until)) if !rest.is_zero() => {
                *until = now + rest.as_secs_f64();
                (Reply::Done, true)
            }
            (_, Some(_)) => {
                readers.remove(&claim.value);
                (Reply::Done, true)
            }
        };
        if readers.is_empty() {
            self.by_key.remove(&claim.key);
        } else if matches!(action, Action::Release { .. } | Action::Shorten { .. }) {
            // The scripts set the expiry of the key anew, whether or not this one was among them.
            return (Reply::HasReaders { deleted: done.0 == Reply::Done }, true);
        }
        done
    }

    /// `raise_barrier.lua`.
    pub(super) fn raise_barrier(
        &mut self,
        claim: &Claim,
        life: Duration,
        insists: bool,
        now: f64,
    ) -> Reply {
        if !insists && self.until(&claim.key, now).is_none() {
            return Reply::Missing;
        }
        let (writer, place) = (claim.value.clone(), claim.place);
        let is_before = |it: &Barrier| it.place > 0 && (place == 0 || place > it.place);
        let is_other = |it: &Barrier| it.until > now && it.writer != writer;
        if self.barriers.get(&claim.key).is_some_and(|it| is_other(it) && is_before(it)) {
            return Reply::Missing;
        }
        let until = now + life.as_secs_f64();
        self.barriers.insert(Arc::clone(&claim.key), Barrier { writer, place, until });
        Reply::Done
    }

    /// The writer does not wait any more.
    pub(super) fn lower_barrier(&mut self, claim: &Claim, now: f64) -> Reply {
        match self.barriers.get(&claim.key).filter(|it| it.until > now) {
            Some(barrier) if barrier.writer == claim.value => {
                self.barriers.remove(&claim.key);
                Reply::Done
            }
            Some(_) => Reply::Foreign,
            None => Reply::Missing,
        }
    }

    /// Removes all readers of a lock. False when there were none.
    pub(super) fn remove(&mut self, key: &str) -> bool {
        self.by_key.remove(key).is_some()
    }

    /// How many locks have something here.
    pub(super) fn len(&self) -> usize {
        self.by_key.len().max(self.barriers.len())
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Removes what has expired.
    pub(super) fn sweep(&mut self, now: f64) {
        self.by_key.retain(|_, readers| {
            readers.retain(|_, until| *until > now);
            !readers.is_empty()
        });
        self.barriers.retain(|_, barrier| barrier.until > now);
    }
}
