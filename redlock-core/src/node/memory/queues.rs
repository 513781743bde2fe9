//! The queues between clients that a node in memory keeps, as the scripts of a server keep them in
//! keys beside each lock: see [`queue_keys`].

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    queue::{Chosen, FRESH, Queue},
    watched::{Pushes, Watched},
};
use crate::node::{Claim, Reply, Secret, Told, queue_keys};

/// The queues before locks. Times are on the node's own clock in seconds.
#[derive(Default)]
pub(super) struct Queues {
    waiting: BTreeMap<Arc<str>, Queue>,
    /// The waiters for permits that were given their turn and have not asked yet, by when their permits
    /// are no longer kept for them.
    promised: BTreeMap<Arc<str>, BTreeMap<String, f64>>,
    /// The permits that clients were told of, by when they have set their keys.
    coming: BTreeMap<Arc<str>, BTreeMap<u32, f64>>,
    /// The clients that have asked for permits, and when.
    askers: BTreeMap<Arc<str>, BTreeMap<u64, f64>>,
    /// The locks before which a turn is out, which waiter has it, and until when.
    turns: BTreeMap<Arc<str>, (String, f64)>,
}

/// How long a turn counts as out, in seconds: as in `wake.lua`.
const OUT: f64 = 1.0;

/// How long a client counts that has asked for a permit, and the most that what it was told of is kept for it, in
/// seconds: as in `find_permits.lua`.
pub(super) const RECENT: f64 = 1.0;

/// How long a permit is kept for a waiter that has its turn, in seconds: as in `wake.lua`.
const PROMISE: f64 = 1.0;

/// Keys through which a waiter is told something are written, because it is told nothing else through them.
fn written<const N: usize>(keys: [String; N], watched: &mut Watched, told: &mut Pushes) {
    keys.into_iter().for_each(|key| watched.changed(&key.into(), told));
}

/// Tells a waiter this, by a push. Returns the word for the reply.
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

/// What kind of holder a lock has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    Not,
    ByReaders,
    ByWriter,
}

impl Queues {
    /// `join.lua`. Returns the place and how many stand before it, or `None` if the queue is full.
    pub(super) fn join(
        &mut self,
        claim: &Claim,
        place: u64,
        life: Duration,
        now: f64,
    ) -> Option<(u64, u64)> {
        let queue_name = queue_keys::queue_name(&claim.key);
        self.drop_over(queue_name, now);
        let queue = self.waiting.entry(queue_name.into()).or_default();
        queue.join(claim, place, life.as_secs_f64(), now)
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
        let queue_name = queue_keys::queue_name(&claim.key);
        self.drop_over(queue_name, now);
        let [turn, next, near] = queue_keys::wake_keys(claim);
        written([near, next, turn], watched, told);
        let ahead = self.waiting.get_mut(queue_name).and_then(|queue| queue.leave(&claim.value));
        let was_there = ahead.is_some();
        let was_first = ahead == Some(0);
        let (mut is_woken, mut words) = (false, Vec::new());
        let is_kept = self.was_promised(queue_name, &claim.value);
        let had_turn = !was_there && !again && !self.turn_of_another(claim, now);
        let was_next = was_first || had_turn;
        if had_turn {
            self.end_turn(&claim.key);
        }
        if is_kept || was_next && held == Held::Not {
            // It had the turn and did not use it, or the lock became free before it left.
            if let Some(told) = self.wake(&claim.key, now, watched, told) {
                return Reply::Woke { deleted: was_there, told };
            }
        } else if held == Held::ByReaders && (was_next || was_there) {
            let from = ahead.unwrap_or(0);
            (is_woken, words) = self.tell_reader(&claim.key, from, was_next, now, watched, told);
        } else if was_first {
            let first = self.waiting.get(queue_name).and_then(|queue| queue.waiters().next());
            words.extend(first.map(|(first, _)| tell(&claim.key, "next", first, watched, told)));
        }
        self.drop_over(queue_name, now);
        let told = Told::of(words);
        if is_woken {
            return Reply::Woke { deleted: was_there, told };
        }
        if self.waiting.contains_key(queue_name) {
            return Reply::Unwoken { deleted: was_there, told };
        }
        if was_there { Reply::Done } else { Reply::Missing }
    }

    /// `wake.lua`. Returns what the waiters are told, if one of them got the turn.
    pub(super) fn wake(
        &mut self,
        key: &Arc<str>,
        now: f64,
        watched: &mut Watched,
        told: &mut Pushes,
    ) -> Option<Told> {
        let queue_name = queue_keys::queue_name(key);
        self.drop_over(queue_name, now);
        let queue = self.waiting.get_mut(queue_name)?;
        let Some(Chosen { name: first, alive, .. }) = queue.choose(0, now) else {
            self.drop_over(queue_name, now);
            return None;
        };
        queue.leave(&first);
        self.turns.insert(queue_name.into(), (first.clone(), now + OUT));
        let [_, next, near] = queue_keys::wake_keys(&Claim::new(key, first.clone()));
        written([near, next], watched, told);
        let mut words = vec![tell(key, "turn", &first, watched, told)];
        words.extend(self.tell_behind(key, 0, alive, watched, told));
        self.drop_over(queue_name, now);
        if queue_keys::is_queue_of_permits(queue_name) {
            let promised = self.promised.entry(queue_name.into()).or_default();
            promised.retain(|_, until| *until > now);
            promised.insert(first, now + PROMISE);
        }
        Some(Told::of(words))
    }

    /// Whether a waiter was given its turn, and has neither left since nor released the lock.
    pub(super) fn turn_is_out(&self, key: &str, now: f64) -> bool {
        self.turns.get(queue_keys::queue_name(key)).is_some_and(|(_, until)| *until > now)
    }

    /// Whether another waiter than this one was given its turn.
    pub(super) fn turn_of_another(&self, waiter: &Claim, now: f64) -> bool {
        let turn = self.turns.get(queue_keys::queue_name(&waiter.key));
        turn.is_some_and(|(name, until)| *until > now && *name != waiter.value)
    }

    /// Ends the turn that is out.
    pub(super) fn end_turn(&mut self, key: &str) {
        self.turns.remove(queue_keys::queue_name(key));
    }

    /// The part of `leave.lua` for a lock that has readers. Returns whether a waiter was told that it has the
    /// turn, and all that the waiters are told.
    fn tell_reader(
        &mut self,
        key: &Arc<str>,
        from: usize,
        was_next: bool,
        now: f64,
        watched: &mut Watched,
        told: &mut Pushes,
    ) -> (bool, Vec<Secret>) {
        let queue = self.waiting.get_mut(queue_keys::queue_name(key));
        let Some(Chosen { name: first, alive, mut ahead }) =
            queue.and_then(|queue| queue.choose(from, now))
        else {
            return (false, Vec::new());
        };
        let mut words = Vec::new();
        if was_next {
            words.push(tell(key, "turn", &first, watched, told));
            ahead += 1;
        }
        words.extend(self.tell_behind(key, ahead, alive, watched, told));
        (was_next, words)
    }

    /// Tells the waiter with this many before it that it is next. If the waiter with the turn has not just said that it
    /// is alive, tells the two behind the next one that they are near.
    fn tell_behind(
        &self,
        key: &Arc<str>,
        from: usize,
        alive: f64,
        watched: &mut Watched,
        told: &mut Pushes,
    ) -> Vec<Secret> {
        let Some(queue) = self.waiting.get(queue_keys::queue_name(key)) else { return Vec::new() };
        let told_next = if alive > FRESH { 1 } else { 3 };
        let waiters = queue.waiters().skip(from).take(told_next);
        let words = waiters.enumerate().map(|(number, (waiter, _))| {
            let what = if number == 0 { "next" } else { "near" };
            tell(key, what, waiter, watched, told)
        });
        words.collect()
    }

    /// Keeps no permit for `asker` any more. Returns whether one was kept, and how many are kept for other waiters. The
    /// rest of `find_permits.lua` is in the data.
    pub(super) fn promised(&mut self, queue_name: &str, asker: &str, now: f64) -> (bool, usize) {
        let had_turn = self.was_promised(queue_name, asker);
        let promised = self.promised.get(queue_name).into_iter().flat_map(BTreeMap::values);
        (had_turn, promised.filter(|until| **until > now).count())
    }

    /// Notes that a client was told of these permits, and sets their keys by then.
    pub(super) fn tells_of(&mut self, queue_name: &str, permits: &[u32], until: f64) {
        self.coming
            .entry(queue_name.into())
            .or_default()
            .extend(permits.iter().map(|it| (*it, until)));
    }

    /// Whether a client was told of this permit a moment ago.
    pub(super) fn is_spoken_for(&self, queue_name: &str, permit: u32, now: f64) -> bool {
        self.coming.get(queue_name).and_then(|it| it.get(&permit)).is_some_and(|until| *until > now)
    }

    /// Notes that a client asks for permits. How many others have done so a moment ago.
    pub(super) fn others_ask(&mut self, queue_name: &str, asker: u64, now: f64) -> usize {
        let askers = self.askers.entry(queue_name.into()).or_default();
        askers.retain(|_, at| now - *at < RECENT);
        askers.insert(asker, now);
        askers.len() - 1
    }

    /// Whether clients wait.
    pub(super) fn has_waiters(&self, queue_name: &str, now: f64) -> bool {
        self.waiting.get(queue_name).is_some_and(|queue| !queue.is_over(now))
    }

    /// How many other waiters than this one are in the queue.
    pub(super) fn others_wait(&self, queue_name: &str, waiter: &str, now: f64) -> usize {
        let queue = self.waiting.get(queue_name).filter(|queue| !queue.is_over(now));
        let waiters = queue.into_iter().flat_map(Queue::waiters);
        waiters.filter(|(name, _)| *name != waiter).count()
    }

    /// Keeps no permit for this waiter any more. Returns whether one was kept.
    fn was_promised(&mut self, queue_name: &str, waiter: &str) -> bool {
        let Some(promised) = self.promised.get_mut(queue_name) else { return false };
        let was_promised = promised.remove(waiter).is_some();
        if promised.is_empty() {
            self.promised.remove(queue_name);
        }
        was_promised
    }

    /// The waiters before a lock that are alive, in order: at `most` so many, or all of them if that is 0.
    pub(super) fn waiting(&self, key: &str, most: u64, now: f64) -> Vec<Secret> {
        let queue = self.waiting.get(queue_keys::queue_name(key));
        let queue = queue.filter(|queue| !queue.is_over(now));
        let waiters = queue.into_iter().flat_map(Queue::waiters);
        let alive = waiters.filter(|(_, dead_at)| *dead_at > now);
        let most = match usize::try_from(most) {
            Ok(0) | Err(_) => usize::MAX,
            Ok(most) => most,
        };
        alive.take(most).map(|(name, _)| Secret(name.clone())).collect()
    }

    /// How many locks have something here.
    pub(super) fn len(&self) -> usize {
        let kept = self.promised.len().max(self.coming.len());
        self.waiting.len().max(self.turns.len()).max(self.askers.len()).max(kept)
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.promised.clear();
        self.coming.clear();
        self.askers.clear();
        self.turns.clear();
    }

    /// Removes what is dead.
    pub(super) fn sweep(&mut self, now: f64) {
        self.turns.retain(|_, (_, until)| *until > now);
        self.askers.retain(|_, askers| askers.values().any(|at| now - *at < RECENT));
        self.promised.retain(|_, promised| {
            promised.retain(|_, until| *until > now);
            !promised.is_empty()
        });
        self.coming.retain(|_, coming| {
            coming.retain(|_, until| *until > now);
            !coming.is_empty()
        });
        self.waiting.retain(|_, queue| !queue.is_over(now));
    }

    #[cfg(test)]
    pub(super) fn known_askers(&self) -> usize {
        self.askers.len()
    }

    /// Drops a queue that is empty or has expired.
    fn drop_over(&mut self, queue_name: &str, now: f64) {
        if self.waiting.get(queue_name).is_some_and(|queue| queue.is_over(now)) {
            self.waiting.remove(queue_name);
        }
    }
}
