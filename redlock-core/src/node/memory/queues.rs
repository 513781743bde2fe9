//! The queues between clients that a node in memory keeps, as the scripts of a server keep them in
//! keys beside each lock: see [`queue_keys`].

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::watched::{Pushes, Watched};
use crate::node::{Claim, Reply, Secret, Told, queue_keys};

/// The waiters before each lock, by their places: the first is in front. Times are on the node's own
/// clock in seconds.
#[derive(Default)]
pub(super) struct Queues {
    waiting: BTreeMap<Arc<str>, BTreeMap<u64, Waiter>>,
    /// The waiters for permits that were given their turn and have not asked yet, by when their permits
    /// are no longer kept for them.
    promised: BTreeMap<Arc<str>, Vec<(String, f64)>>,
    /// The clients that have asked for permits, and when.
    askers: BTreeMap<Arc<str>, BTreeMap<u64, f64>>,
    /// The locks before which a turn is out, which waiter has it, and until when.
    turns: BTreeMap<Arc<str>, (String, f64)>,
}

/// How long a turn counts as out, in seconds: as in `wake.lua`.
const OUT: f64 = 1.0;

/// How long a client counts that has asked for a permit, in seconds: as in `slots.lua`.
const RECENT: f64 = 1.0;

/// How long a permit is kept for a waiter that has its turn, in seconds: as in `wake.lua`.
const PROMISE: f64 = 1.0;

/// A waiter whose entry lives for less than this has crashed or is late, in seconds: as in `wake.lua`.
const SILENT: f64 = 2.5;

/// A waiter whose entry lives for more than this is there, in seconds: as in `wake.lua`.
const FRESH: f64 = 4.7;

/// How many of the waiters that are late are passed over: as in `wake.lua`.
const MOST: usize = 16;

struct Waiter {
    /// The value of its claim.
    name: String,
    /// When the entry counts as dead unless its waiter reports.
    dead_at: f64,
}

/// Tells a waiter this. Returns it as the answer says it.
fn tell(
    key: &Arc<str>,
    what: &str,
    waiter: &str,
    watched: &mut Watched,
    told: &mut Pushes,
) -> Secret {
    let word = format!("{what}:{waiter}");
    watched.changed(&format!("{}:{word}", queue_keys::prefix(key)).into(), told);
    Secret(word)
}

/// By whom a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    Not,
    ByReaders,
    ByWriter,
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
        let queue = self.waiting.entry(queue_keys::line(&claim.key).into()).or_default();
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

    /// `leave.lua`.
    pub(super) fn leave(
        &mut self,
        claim: &Claim,
        again: bool,
        held: Held,
        now: f64,
        watched: &mut Watched,
        told: &mut Pushes,
    ) -> Reply {
        queue_keys::wake_keys(claim).iter().for_each(|key| watched.unwatch(key));
        let queue = self.waiting.entry(queue_keys::line(&claim.key).into()).or_default();
        let found = queue.iter().find(|(_, waiter)| waiter.name == claim.value);
        let place = found.map(|(place, _)| *place);
        let was_first =
            place.is_some() && queue.first_key_value().map(|(first, _)| *first) == place;
        let (mut is_woken, mut words) = (false, Vec::new());
        if let Some(place) = place {
            queue.remove(&place);
        }
        let is_kept = self.was_promised(queue_keys::line(&claim.key), &claim.value);
        let was_next = was_first || place.is_none() && !again;
        if place.is_none() && !again {
            self.end_turn(&claim.key);
        }
        if is_kept || was_next && held == Held::Not {
            // It had the turn and did not use it, or the lock became free before it left.
            if let Some(told) = self.wake(&claim.key, now, watched, told) {
                return Reply::Woke { deleted: place.is_some(), told };
            }
        } else if held == Held::ByReaders && (was_next || place.is_some()) {
            (is_woken, words) = self.tell_reader(&claim.key, place, was_next, now, watched, told);
        } else if was_first && let Some(next) = self.first_of(queue_keys::line(&claim.key)) {
            words.push(tell(&claim.key, "next", &next, watched, told));
        }
        self.drop_empty(queue_keys::line(&claim.key));
        let (deleted, told) = (place.is_some(), Told::of(words));
        if is_woken {
            return Reply::Woke { deleted, told };
        }
        if self.waiting.contains_key(queue_keys::line(&claim.key)) {
            return Reply::Unwoken { deleted, told };
        }
        if deleted { Reply::Done } else { Reply::Missing }
    }

    /// `wake.lua`. Returns what the waiters are told, if one of them got the turn.
    pub(super) fn wake(
        &mut self,
        key: &Arc<str>,
        now: f64,
        watched: &mut Watched,
        told: &mut Pushes,
    ) -> Option<Told> {
        let line = queue_keys::line(key);
        let queue = self.waiting.get_mut(line);
        let first = queue.and_then(|queue| {
            let (place, alive) = choose(queue, 0, now)?;
            Some((queue.remove(&place)?.name, alive))
        });
        let Some((first, alive)) = first else {
            self.drop_empty(line);
            return None;
        };
        self.turns.insert(line.into(), (first.clone(), now + OUT));
        let [_, done @ ..] = queue_keys::wake_keys(&Claim::new(key, first.clone()));
        done.iter().for_each(|key| watched.unwatch(key));
        let mut words = vec![tell(key, "turn", &first, watched, told)];
        words.extend(self.tell_behind(key, 0, alive, watched, told));
        self.drop_empty(line);
        if queue_keys::is_line_of_permits(line) {
            self.promised.entry(line.into()).or_default().push((first, now + PROMISE));
        }
        Some(Told::of(words))
    }

    /// Whether a waiter was given its turn, and has neither left since nor released the lock.
    pub(super) fn turn_is_out(&self, key: &str, now: f64) -> bool {
        self.turns.get(queue_keys::line(key)).is_some_and(|(_, until)| *until > now)
    }

    /// Whether another waiter than this one was given its turn.
    pub(super) fn turn_of_another(&self, waiter: &Claim, now: f64) -> bool {
        let turn = self.turns.get(queue_keys::line(&waiter.key));
        turn.is_some_and(|(name, until)| *until > now && *name != waiter.value)
    }

    /// Ends the turn that is out.
    pub(super) fn end_turn(&mut self, key: &str) {
        self.turns.remove(queue_keys::line(key));
    }

    /// The part of `leave.lua` for a lock that has readers. Returns whether a waiter was told that it has the
    /// turn, and all that the waiters are told.
    fn tell_reader(
        &mut self,
        key: &Arc<str>,
        place: Option<u64>,
        was_next: bool,
        now: f64,
        watched: &mut Watched,
        told: &mut Pushes,
    ) -> (bool, Vec<Secret>) {
        let queue = self.waiting.get_mut(queue_keys::line(key));
        let chosen = queue.and_then(|queue| {
            let (at, alive) = choose(queue, place.unwrap_or(0), now)?;
            Some((at, alive, queue.get(&at)?.name.clone()))
        });
        let Some((mut at, alive, first)) = chosen else { return (false, Vec::new()) };
        let mut words = Vec::new();
        if was_next {
            words.push(tell(key, "turn", &first, watched, told));
            at += 1;
        }
        words.extend(self.tell_behind(key, at, alive, watched, told));
        (was_next, words)
    }

    /// Tells the waiter at this place or behind it that it is next, and two more that they are near if the one
    /// with the turn has not said just now that it is alive.
    fn tell_behind(
        &self,
        key: &Arc<str>,
        from: u64,
        alive: f64,
        watched: &mut Watched,
        told: &mut Pushes,
    ) -> Vec<Secret> {
        let Some(queue) = self.waiting.get(queue_keys::line(key)) else { return Vec::new() };
        let told_next = if alive > FRESH { 1 } else { 3 };
        let waiters = queue.range(from..).map(|(_, it)| it).take(told_next);
        let words = waiters.enumerate().map(|(number, waiter)| {
            let what = if number == 0 { "next" } else { "near" };
            tell(key, what, &waiter.name, watched, told)
        });
        words.collect()
    }

    /// Whether a permit was kept for `asker`, which it is no longer, and how many are kept for other
    /// waiters. The rest of `slots.lua` is in the data.
    pub(super) fn promised(&mut self, line: &str, asker: &str, now: f64) -> (bool, usize) {
        let had_turn = self.was_promised(line, asker);
        let promised = self.promised.get(line).into_iter().flatten();
        (had_turn, promised.filter(|(_, until)| *until > now).count())
    }

    /// Notes that a client asks for permits. Whether another one has done so a moment ago.
    pub(super) fn others_ask(&mut self, line: &str, asker: u64, now: f64) -> bool {
        let askers = self.askers.entry(line.into()).or_default();
        askers.retain(|_, at| now - *at < RECENT);
        askers.insert(asker, now);
        askers.len() > 1
    }

    /// Whether no other waiter than this one is in the queue.
    pub(super) fn is_alone(&self, line: &str, waiter: &str) -> bool {
        let mut waiting = self.waiting.get(line).into_iter().flat_map(BTreeMap::values);
        waiting.all(|it| it.name == waiter)
    }

    /// Whether a permit was kept for this waiter, which it is no longer.
    fn was_promised(&mut self, line: &str, waiter: &str) -> bool {
        let Some(promised) = self.promised.get_mut(line) else { return false };
        let before = promised.len();
        promised.retain(|(name, _)| name != waiter);
        let was_promised = promised.len() < before;
        if promised.is_empty() {
            self.promised.remove(line);
        }
        was_promised
    }

    /// The waiters before a lock that are alive, in order.
    pub(super) fn waiting(&self, key: &str, now: f64) -> Vec<Secret> {
        let waiters =
            self.waiting.get(queue_keys::line(key)).into_iter().flat_map(BTreeMap::values);
        let alive = waiters.filter(|waiter| waiter.dead_at > now);
        alive.map(|waiter| Secret(waiter.name.clone())).collect()
    }

    /// How many locks have something here.
    pub(super) fn len(&self) -> usize {
        self.waiting.len().max(self.turns.len()).max(self.askers.len()).max(self.promised.len())
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.promised.clear();
        self.askers.clear();
        self.turns.clear();
    }

    /// Removes what is dead.
    pub(super) fn sweep(&mut self, now: f64) {
        self.turns.retain(|_, (_, until)| *until > now);
        self.askers.retain(|_, askers| askers.values().any(|at| now - *at < RECENT));
        self.promised.retain(|_, promised| {
            promised.retain(|(_, until)| *until > now);
            !promised.is_empty()
        });
        self.waiting.retain(|_, waiters| {
            waiters.retain(|_, waiter| waiter.dead_at > now);
            !waiters.is_empty()
        });
    }

    #[cfg(test)]
    pub(super) fn known_askers(&self) -> usize {
        self.askers.len()
    }

    /// The name of the waiter in front.
    fn first_of(&self, line: &str) -> Option<String> {
        let first = self.waiting.get(line)?.first_key_value();
        first.map(|(_, waiter)| waiter.name.clone())
    }

    fn drop_empty(&mut self, line: &str) {
        if self.waiting.get(line).is_some_and(BTreeMap::is_empty) {
            self.waiting.remove(line);
        }
    }
}

/// The place of the waiter that is told, of those from this place on, and for how long its entry would live. Takes
/// out dead waiters before it. Without any other, it is one that is late.
fn choose(queue: &mut BTreeMap<u64, Waiter>, from: u64, now: f64) -> Option<(u64, f64)> {
    let (mut late, mut passed) = (None, 0);
    while passed < MOST
        && let Some((place, waiter)) = queue.range(from..).nth(passed)
    {
        let (place, alive) = (*place, waiter.dead_at - now);
        if alive > SILENT {
            return Some((place, alive));
        } else if alive > 0.0 {
            late = late.or(Some((place, 0.0)));
            passed += 1;
        } else {
            queue.remove(&place);
        }
    }
    late
}
