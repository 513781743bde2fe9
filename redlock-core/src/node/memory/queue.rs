//! One queue between clients, as the scripts of a server keep it: a sorted set of waiters, and for each of them a key
//! that says that it is alive.

use std::collections::BTreeMap;

use crate::node::{Claim, queue_keys};

/// A waiter whose entry lives for less than this has crashed or is late, in seconds: as in `wake.lua`.
const SILENT: f64 = 2.5;

/// A waiter whose entry lives for more than this is there, in seconds: as in `wake.lua`.
pub(super) const FRESH: f64 = 4.7;

/// How many of the waiters that are late are passed over: as in `wake.lua`.
const MAX_PASSED_OVER: usize = 16;

/// The waiters before a lock: the first is in front. Times are on the node's own clock in seconds.
#[derive(Default)]
pub(super) struct Queue {
    /// When each waiter counts as dead unless it reports, by its place, and by its name where several have the
    /// same place.
    waiters: BTreeMap<(u64, String), f64>,
    /// When the queue goes if no waiter joins it until then.
    until: f64,
}

/// The waiter that is told something.
pub(super) struct Chosen {
    pub(super) name: String,
    /// For how long its entry would live, or zero if it is late.
    pub(super) alive: f64,
    /// How many stand before it.
    pub(super) ahead: usize,
}

impl Queue {
    pub(super) fn is_over(&self, now: f64) -> bool {
        self.waiters.is_empty() || self.until <= now
    }

    /// `join.lua`. Returns the place and how many stand before it, or `None` if the queue is full.
    pub(super) fn join(
        &mut self,
        claim: &Claim,
        place: u64,
        life: f64,
        now: f64,
    ) -> Option<(u64, u64)> {
        let place = match self.waiters.keys().find(|(_, name)| *name == claim.value) {
            Some((place, _)) => *place,
            None if self.waiters.len() as u64 >= queue_keys::MAX_WAITERS => return None,
            None if place == 0 => {
                // The node's own time, and never before an entry that is there.
                let last = self.waiters.last_key_value().map_or(0, |((place, _), _)| *place);
                ((now * 1e6) as u64).max(last + 1)
            }
            None => place,
        };
        self.waiters.insert((place, claim.value.clone()), now + life);
        self.until = now + 2.0 * life;
        while let Some(first) = self.waiters.first_entry()
            && first.key().1 != claim.value
            && *first.get() <= now
        {
            first.remove();
        }
        let ahead = self.waiters.keys().take_while(|(_, name)| *name != claim.value).count();
        Some((place, ahead as u64))
    }

    /// Takes a waiter out. Returns how many stood before it, if it was there.
    pub(super) fn leave(&mut self, waiter: &str) -> Option<usize> {
        let ahead = self.waiters.keys().position(|(_, name)| name == waiter)?;
        self.waiters.retain(|(_, name), _| name != waiter);
        Some(ahead)
    }

    /// The first waiter that is alive and not late, of those with at least this many before them. Takes out the dead
    /// waiters before it. If there is none, it is the first waiter that is late.
    pub(super) fn choose(&mut self, from: usize, now: f64) -> Option<Chosen> {
        let (mut late, mut ahead) = (None, from);
        while ahead < from + MAX_PASSED_OVER
            && let Some((waiter, dead_at)) = self.waiters.iter().nth(ahead)
        {
            let alive = dead_at - now;
            if alive > SILENT {
                return Some(Chosen { name: waiter.1.clone(), alive, ahead });
            } else if alive > 0.0 {
                late = late.or_else(|| Some(waiter.1.clone()));
                ahead += 1;
            } else {
                let dead = waiter.clone();
                self.waiters.remove(&dead);
            }
        }
        late.map(|name| Chosen { name, alive: 0.0, ahead: from })
    }

    /// The waiters in order, and when each counts as dead.
    pub(super) fn waiters(&self) -> impl Iterator<Item = (&String, f64)> {
        self.waiters.iter().map(|((_, name), dead_at)| (name, *dead_at))
    }
}
