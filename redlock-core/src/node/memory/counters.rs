//! The counters of a node in memory, from which fencing tokens come.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::node::{Claim, Draw, Raise, Reply, counter};

/// The counters, by the keys that a server has them under.
#[derive(Default)]
pub(super) struct Counters(BTreeMap<String, Counter>);

struct Counter {
    last: u64,
    /// When the counter expires, on the node's own clock in seconds.
    expires: f64,
}

impl Counters {
    /// Draws numbers like the scripts, at `now` by the node's own clock and at `time` by its
    /// calendar. `None` when the numbers are used up.
    pub(super) fn draw(&mut self, lock: &str, draw: Draw, now: f64, time: u64) -> Option<u64> {
        let first = counter::first(self.last(lock, now), draw, time)?;
        self.keep(counter::key(lock), first + u64::from(draw.count) - 1, now, draw.life);
        Some(first)
    }

    /// Draws numbers for a set: larger than what any of its counters has given out.
    pub(super) fn draw_all(
        &mut self,
        claim: &Claim,
        draw: Draw,
        now: f64,
        time: u64,
    ) -> Option<u64> {
        let first = |key: &Arc<str>| counter::first(self.last(key, now), draw, time);
        let firsts: Option<Vec<u64>> = claim.keys().map(first).collect();
        let first = firsts?.into_iter().max()?;
        for key in claim.keys() {
            self.keep(counter::key(key), first + u64::from(draw.count) - 1, now, draw.life);
        }
        Some(first)
    }

    /// `confirm_all.lua`, for locks that have the right value.
    pub(super) fn raise_all(&mut self, claim: &Claim, raise: Raise, now: f64) -> Reply {
        if claim.keys().any(|key| self.last(key, now).unwrap_or(0) != raise.from) {
            return Reply::Foreign;
        }
        for key in claim.keys() {
            self.keep(counter::key(key), raise.to, now, raise.life);
        }
        Reply::Done
    }

    /// The last number that was given out for a lock.
    fn last(&self, lock: &str, now: f64) -> Option<u64> {
        let counter = self.0.get(&counter::key(lock)).filter(|counter| counter.expires > now)?;
        Some(counter.last)
    }

    /// `confirm.lua`, for a lock that has the right value.
    pub(super) fn raise(&mut self, lock: &str, raise: Raise, now: f64) -> Reply {
        if self.last(lock, now).unwrap_or(0) != raise.from {
            return Reply::Foreign;
        }
        self.keep(counter::key(lock), raise.to, now, raise.life);
        Reply::Done
    }

    fn keep(&mut self, key: String, last: u64, now: f64, life: Duration) {
        self.0.insert(key, Counter { last, expires: now + life.as_secs_f64() });
    }

    /// False when there is no such counter.
    pub(super) fn remove(&mut self, key: &str) -> bool {
        self.0.remove(key).is_some()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes what has expired.
    pub(super) fn sweep(&mut self, now: f64) {
        self.0.retain(|_, counter| counter.expires > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Duration = Duration::from_secs(10);

    fn draw(counters: &mut Counters, floor: u64, count: u32, now: f64) -> Option<u64> {
        counters.draw("r", Draw { floor, count, life: LIFE }, now, 0)
    }

    #[test]
    fn a_node_confirms_what_it_has_given_last_and_nothing_else() {
        let mut counters = Counters::default();
        assert_eq!(draw(&mut counters, 5, 3, 0.0), Some(5));
        let raise = |from, to| Raise { from, to, life: LIFE };
        assert_eq!(counters.raise("r", raise(6, 20), 0.0), Reply::Foreign);
        assert_eq!(counters.raise("r", raise(7, 20), 0.0), Reply::Done);
        assert_eq!(counters.raise("r", raise(7, 30), 0.0), Reply::Foreign, "once");
        assert_eq!(draw(&mut counters, 0, 1, 0.0), Some(21));
    }

    #[test]
    fn a_counter_goes_when_it_was_not_used_for_long() {
        let mut counters = Counters::default();
        assert_eq!(draw(&mut counters, 0, 1, 0.0), Some(1));
        assert_eq!(draw(&mut counters, 0, 1, 9.0), Some(2));
        counters.sweep(18.0);
        assert_eq!(counters.len(), 1, "the last use counts");
        assert_eq!(draw(&mut counters, 0, 1, 19.0), Some(1), "expired");
        counters.sweep(30.0);
        assert_eq!(counters.len(), 0);
    }
}
