//! The queues between clients that a node in memory keeps, as the scripts of a server keep them in
//! keys beside each lock: see [`queue_keys`].

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::watched::{Pushes, Watched};
use crate::node::{Claim, Secret, queue_keys};

/// The waiters before each lock, by their places: the first is in front. Times are on the node's own
/// clock in seconds.
#[derive(Default)]
pub(super) struct Queues(BTreeMap<Arc<str>, BTreeMap<u64, Waiter>>);

struct Waiter {
    /// The value of its claim.
    name: String,
    /// When the entry counts as dead unless its waiter reports.
    dead_at: f64,
}

impl Queues {
    /// `join.lua`. Returns the place, and how many waiters are before it.
    pub(super) fn join(
        &mut self,
        claim: &Claim,
        place: u64,
        life: Duration,
        now: f64,
    ) -> (u64, u64) {
        let queue = self.0.entry(queue_keys::line(&claim.key).into()).or_default();
        let found = queue.iter().find(|(_, waiter)| waiter.name == claim.value);
        let place = match (found.map(|(place, _)| *place), place) {
            (Some(place), _) => place,
            (None, 0) => {
                // The node's own time, and never before an entry that is there.
                let last = queue.last_key_value().map_or(0, |(place, _)| *place);
                ((now * 1e6) as u64).max(last + 1)
            }
            (None, mut place) => {
                while queue.contains_key(&place) {
                    place += 1;
                }
                place
            }
        };
        let dead_at = now + life.as_secs_f64();
        queue.insert(place, Waiter { name: claim.value.clone(), dead_at });
        while let Some(first) = queue.first_entry()
            && *first.key() < place
            && first.get().dead_at <= now
        {
            first.remove();
        }
        (place, queue.range(..place).count() as u64)
    }

    /// `leave.lua`, for a lock that is free or not. False when the waiter was not in the queue.
    pub(super) fn leave(
        &mut self,
        claim: &Claim,
        is_free: bool,
        now: f64,
        watched: &mut Watched,
        told: &mut Pushes,
    ) -> bool {
        queue_keys::wake_keys(claim).iter().for_each(|key| watched.unwatch(key));
        let queue = self.0.entry(queue_keys::line(&claim.key).into()).or_default();
        let found = queue.iter().find(|(_, waiter)| waiter.name == claim.value);
        let place = found.map(|(place, _)| *place);
        let was_first =
            place.is_some() && queue.first_key_value().map(|(first, _)| *first) == place;
        if let Some(place) = place {
            queue.remove(&place);
        }
        let next = queue.first_key_value().map(|(_, next)| next.name.clone());
        if (was_first || place.is_none()) && is_free {
            // It had the turn and did not use it, or the lock became free before it left.
            self.give_turn(&claim.key, now, watched, told);
        } else if let Some(next) = next.filter(|_| was_first) {
            let [_, key] = queue_keys::wake_keys(&Claim::new(&claim.key, next));
            watched.changed(&key.into(), told);
        }
        self.drop_empty(&claim.key);
        place.is_some()
    }

    /// `wake.lua`. False when no waiter is there to get the turn.
    pub(super) fn wake(
        &mut self,
        key: &Arc<str>,
        now: f64,
        watched: &mut Watched,
        told: &mut Pushes,
    ) -> bool {
        let woke = self.give_turn(key, now, watched, told);
        self.drop_empty(key);
        woke
    }

    fn give_turn(
        &mut self,
        key: &Arc<str>,
        now: f64,
        watched: &mut Watched,
        told: &mut Pushes,
    ) -> bool {
        let Some(queue) = self.0.get_mut(queue_keys::line(key)) else { return false };
        let keys =
            |waiter: String| queue_keys::wake_keys(&Claim::new(key, waiter)).map(Arc::<str>::from);
        while let Some((_, first)) = queue.pop_first() {
            if first.dead_at <= now {
                continue;
            }
            let next = queue.first_key_value().map(|(_, next)| keys(next.name.clone()));
            let [turn, done] = keys(first.name);
            watched.unwatch(&done);
            watched.changed(&turn, told);
            if let Some([_, next]) = next {
                watched.changed(&next, told);
            }
            return true;
        }
        false
    }

    /// The waiters before a lock that are alive, in order.
    pub(super) fn waiting(&self, key: &str, now: f64) -> Vec<Secret> {
        let waiters = self.0.get(queue_keys::line(key)).into_iter().flat_map(BTreeMap::values);
        let alive = waiters.filter(|waiter| waiter.dead_at > now);
        alive.map(|waiter| Secret(waiter.name.clone())).collect()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Removes what is dead.
    pub(super) fn sweep(&mut self, now: f64) {
        self.0.retain(|_, waiters| {
            waiters.retain(|_, waiter| waiter.dead_at > now);
            !waiters.is_empty()
        });
    }

    fn drop_empty(&mut self, key: &str) {
        if self.0.get(queue_keys::line(key)).is_some_and(BTreeMap::is_empty) {
            self.0.remove(queue_keys::line(key));
        }
    }
}
