//! The keys of a node in memory: what a server does with each command, and which connections it
//! tells.

mod set;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::{counters::Counters, readers::Readers};
use crate::{
    clock::wall_at,
    node::{Action, Claim, Command, Places, Reply, Secret, Seen, queue_keys},
    token::Token,
};

/// The most keys that may be watched before a batch, like a server's `tracking-table-max-keys`.
/// Beyond it, the watchers of one key are told that it has changed.
const MAX_WATCHED: usize = 1 << 18;

/// Everything that a node knows.
pub(crate) struct Data {
    keys: BTreeMap<Arc<str>, Entry>,
    /// The clients in the queue before a key, the first in front.
    queues: BTreeMap<Arc<str>, BTreeMap<u64, Waiter>>,
    /// The connections that are told of the next change to a key, once each.
    watched: BTreeMap<Arc<str>, BTreeSet<u64>>,
    counters: Counters,
    pub(super) readers: Readers,
    clock: ServerClock,
    /// Expired keys are removed when this many keys are there.
    sweep_at: usize,
}

struct Entry {
    value: String,
    /// When the key expires, on the node's own clock.
    expires: f64,
}

/// An entry in a queue. On a real server, keys beside the lock: see [`queue_keys`].
struct Waiter {
    name: String,
    /// When the entry counts as dead unless its waiter reports, on the node's own clock.
    dead_at: f64,
}

/// A connection that has to be told that a key has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Push {
    pub(crate) to: u64,
    pub(crate) key: Arc<str>,
}

/// The node's clock, in seconds, which need not be right.
struct ServerClock {
    anchor: Option<Instant>,
    shown: f64,
    rate: f64,
    /// How far it was set ahead.
    ahead: f64,
}

impl ServerClock {
    /// The answer to `TIME`, in microseconds. A clock that runs fast or slow is set right from time
    /// to time. A clock that was set ahead stays ahead.
    fn time(&self) -> u64 {
        ((wall_at(Instant::now()).as_secs_f64() + self.ahead) * 1e6) as u64
    }

    fn now(&mut self) -> f64 {
        let now = Instant::now();
        let anchor = *self.anchor.get_or_insert(now);
        self.shown + now.duration_since(anchor).as_secs_f64() * self.rate
    }

    fn set(&mut self, shown: f64, rate: f64) {
        *self = Self { anchor: Some(Instant::now()), shown, rate, ahead: self.ahead };
    }
}

impl Data {
    pub(crate) fn new() -> Self {
        let clock = ServerClock { anchor: None, shown: 0.0, rate: 1.0, ahead: 0.0 };
        Self {
            keys: BTreeMap::new(),
            queues: BTreeMap::new(),
            watched: BTreeMap::new(),
            counters: Counters::default(),
            readers: Readers::default(),
            clock,
            sweep_at: 1024,
        }
    }

    /// Sets the clock this many seconds ahead.
    pub(super) fn set_clock(&mut self, ahead: f64) {
        let (shown, rate) = (self.clock.now(), self.clock.rate);
        self.clock.set(shown + ahead, rate);
        self.clock.ahead += ahead;
    }

    pub(crate) fn set_rate(&mut self, rate: f64) {
        let shown = self.clock.now();
        self.clock.set(shown, if rate > 0.0 { rate } else { 0.0 });
    }

    /// The keys that have not expired.
    pub(crate) fn keys(&mut self) -> Vec<String> {
        let holders = self.holders().into_iter();
        let mut keys: Vec<_> = holders.map(|(claim, _)| claim.key.to_string()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The claims of all holders, and how long each is there.
    pub(crate) fn holders(&mut self) -> Vec<(Claim, Duration)> {
        let now = self.clock.now();
        let left = |until: f64| Duration::try_from_secs_f64(until - now).unwrap_or_default();
        let writers = self.keys.iter().filter(|(_, entry)| entry.expires > now);
        let writers =
            writers.map(|(key, entry)| (Claim::new(key, entry.value.clone()), left(entry.expires)));
        let readers = self.readers.all(now).map(|(key, value, until)| {
            (Claim { shared: true, ..Claim::new(key, value.clone()) }, left(until))
        });
        writers.chain(readers).collect()
    }

    pub(crate) fn remaining(&mut self, key: &str) -> Option<Duration> {
        let now = self.clock.now();
        let writer = self.keys.get(key).map(|entry| entry.expires).filter(|at| *at > now);
        let left = writer.or_else(|| self.readers.until(key, now))? - now;
        Duration::try_from_secs_f64(left).ok().filter(|left| !left.is_zero())
    }

    pub(crate) fn clear(&mut self) -> Vec<Push> {
        self.keys.clear();
        self.queues.clear();
        self.counters.clear();
        self.readers.clear();
        self.tell_all()
    }

    fn tell_all(&mut self) -> Vec<Push> {
        let watched = std::mem::take(&mut self.watched);
        watched.into_iter().flat_map(|(key, who)| pushes(key, who, None)).collect()
    }

    /// `None` when there was no such key.
    pub(crate) fn remove(&mut self, key: &str) -> Option<Vec<Push>> {
        if self.counters.remove(key) {
            return Some(Vec::new());
        }
        let readers = self.readers.remove(key).then(|| Arc::from(key));
        let key = self.keys.remove_entry(key).map(|(key, _)| key).or(readers)?;
        let mut told = Vec::new();
        self.tell(&key, None, &mut told);
        Some(told)
    }

    /// A connection has gone and is told nothing any more.
    pub(crate) fn forget(&mut self, connection: u64) {
        self.watched.retain(|_, who| {
            who.remove(&connection);
            !who.is_empty()
        });
    }

    /// Runs commands that came on one connection.
    pub(crate) fn run(&mut self, commands: &[Command], connection: u64) -> (Vec<Reply>, Vec<Push>) {
        let mut told = Vec::new();
        if self.keys.len().max(self.counters.len()) >= self.sweep_at {
            self.sweep(&mut told);
        }
        if self.watched.len() >= MAX_WATCHED {
            told.extend(self.tell_all());
        }
        let reply = |command: &Command| match command.action {
            Action::Join { place, life, listens } => {
                if listens {
                    for key in queue_keys::wake_keys(&command.claim) {
                        self.watched.entry(key.into()).or_default().insert(connection);
                    }
                }
                self.join(&command.claim, place, life)
            }
            Action::Bar { life } => {
                let now = self.clock.now();
                self.readers.bar(&command.claim, life, now)
            }
            Action::Unbar => self.readers.unbar(&command.claim),
            Action::FindPermit { count, from } => self.find_permit(&command.claim, count, from),
            Action::Watch | Action::Inspect | Action::Leave => {
                self.look(command, connection, &mut told)
            }
            _ if command.claim.shared => self.run_shared(command, connection, &mut told),
            _ if command.claim.is_set() => self.run_set(command, connection, &mut told),
            _ => {
                let (reply, changed) = self.run_one(command);
                if changed {
                    self.tell(&command.claim.key, Some(connection), &mut told);
                }
                let wakes = matches!(
                    command.action,
                    Action::Release { wakes: Places::FIRST } | Action::Clear { wakes: true }
                );
                let key = &command.claim.key;
                if wakes { self.wake(key, reply, connection, &mut told) } else { reply }
            }
        };
        let replies = commands.iter().map(reply).collect();
        (replies, told)
    }

    /// The reply to a command that changes no lock.
    fn look(&mut self, command: &Command, connection: u64, told: &mut Vec<Push>) -> Reply {
        let claim = &command.claim;
        match command.action {
            Action::Leave => self.leave(claim, connection, told),
            Action::Inspect => self.inspect(&claim.key),
            _ => {
                self.watched.entry(Arc::clone(&claim.key)).or_default().insert(connection);
                let left = self.remaining(&claim.key);
                left.map_or(Reply::Missing, |left| Reply::There { left })
            }
        }
    }

    /// The reply to a command of a reader.
    fn run_shared(&mut self, command: &Command, connection: u64, told: &mut Vec<Push>) -> Reply {
        let Command { claim, action } = command;
        let now = self.clock.now();
        let has_writer = self.keys.get(&claim.key).is_some_and(|entry| entry.expires > now);
        let (reply, changed) = self.readers.run(claim, *action, now, has_writer);
        if changed {
            self.tell(&claim.key, Some(connection), told);
        }
        let wakes = matches!(action, Action::Release { wakes: Places::FIRST });
        if wakes && self.remaining(&claim.key).is_none() {
            return self.wake(&claim.key, reply, connection, told);
        }
        reply
    }

    /// The reply to a command, and whether the command has changed its key.
    fn run_one(&mut self, command: &Command) -> (Reply, bool) {
        let now = self.clock.now();
        let claim = &command.claim;
        if let Some(expires) = self.readers.until(&claim.key, now) {
            let gone = matches!(command.action, Action::TakeAway | Action::Clear { .. });
            if gone {
                self.readers.remove(&claim.key);
            }
            if command.action == Action::TakeAway {
                let entry = Entry { value: claim.value.clone(), expires };
                self.keys.insert(Arc::clone(&claim.key), entry);
            }
            return (if gone { Reply::Done } else { Reply::Foreign }, gone);
        }
        let found = self.keys.get_mut(&claim.key).filter(|entry| entry.expires > now);
        let left = |entry: &Entry| Duration::try_from_secs_f64(entry.expires - now);
        match (command.action, found) {
            (Action::Adopt { ttl, from }, Some(entry)) => {
                if Token::of_value(&entry.value) != Some(from) {
                    return (Reply::Foreign, false);
                }
                entry.value.clone_from(&claim.value);
                entry.expires = entry.expires.max(now + ttl.as_secs_f64());
                (Reply::Done, true)
            }
            (Action::Grant { .. } | Action::GrantFenced { .. } | Action::Heal { .. }, Some(_)) => {
                (Reply::Foreign, false)
            }
            (Action::GrantFenced { ttl, draw }, None) => {
                let Some(first) = self.counters.draw(&claim.key, draw, now, self.clock.time())
                else {
                    return (Reply::Full, false);
                };
                let entry = Entry { value: claim.value.clone(), expires: now + ttl.as_secs_f64() };
                self.keys.insert(Arc::clone(&claim.key), entry);
                (Reply::Numbered { first }, true)
            }
            (Action::Grant { ttl } | Action::Heal { ttl }, None) => {
                let entry = Entry { value: claim.value.clone(), expires: now + ttl.as_secs_f64() };
                self.keys.insert(Arc::clone(&claim.key), entry);
                (Reply::Done, true)
            }
            (_, None) => (Reply::Missing, false),
            (action, Some(entry))
                if entry.value != claim.value
                    && !matches!(action, Action::TakeAway | Action::Clear { .. }) =>
            {
                (Reply::Foreign, false)
            }
            (Action::Extend { ttl }, Some(entry)) => {
                let left = left(entry).unwrap_or_default();
                entry.expires = entry.expires.max(now + ttl.as_secs_f64());
                (Reply::There { left }, true)
            }
            (Action::Redraw { ttl, draw }, Some(entry)) => {
                let Some(first) = self.counters.draw(&claim.key, draw, now, self.clock.time())
                else {
                    return (Reply::Full, false);
                };
                entry.expires = entry.expires.max(now + ttl.as_secs_f64());
                (Reply::Numbered { first }, true)
            }
            (Action::Confirm(raise), Some(_)) => {
                (self.counters.raise(&claim.key, raise, now), false)
            }
            (Action::Shorten { rest }, Some(entry)) => {
                entry.expires = now + rest.as_secs_f64();
                (Reply::Done, true)
            }
            // Seen to before.
            (
                Action::Join { .. }
                | Action::Leave
                | Action::Inspect
                | Action::Watch
                | Action::Bar { .. }
                | Action::FindPermit { .. }
                | Action::Unbar,
                Some(_),
            ) => (Reply::Foreign, false),
            (Action::TakeAway, Some(entry)) => {
                entry.value.clone_from(&claim.value);
                (Reply::Done, true)
            }
            (Action::Release { .. } | Action::Clear { .. }, Some(_)) => {
                self.keys.remove(&claim.key);
                (Reply::Done, true)
            }
        }
    }

    /// `slots.lua`.
    fn find_permit(&mut self, claim: &Claim, count: u32, from: u32) -> Reply {
        let line = queue_keys::line(&claim.key).to_owned();
        let mut numbers = (0..count).map(|number| (from + number) % count);
        let free = numbers.find(|number| self.remaining(&format!("{line}:{number}")).is_none());
        Reply::Permit { free }
    }

    /// `join.lua`.
    fn join(&mut self, claim: &Claim, place: u64, life: Duration) -> Reply {
        let now = self.clock.now();
        let left = self.remaining(&claim.key);
        let queue = self.queues.entry(queue_keys::line(&claim.key).into()).or_default();
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
        let ahead = queue.range(..place).count() as u64;
        Reply::Queued { place, ahead, left }
    }

    /// `leave.lua`.
    fn leave(&mut self, claim: &Claim, connection: u64, told: &mut Vec<Push>) -> Reply {
        queue_keys::wake_keys(claim).iter().for_each(|key| drop(self.watched.remove(&**key)));
        let queue = self.queues.entry(queue_keys::line(&claim.key).into()).or_default();
        let found = queue.iter().find(|(_, waiter)| waiter.name == claim.value);
        let place = found.map(|(place, _)| *place);
        let was_first =
            place.is_some() && queue.first_key_value().map(|(first, _)| *first) == place;
        if let Some(place) = place {
            queue.remove(&place);
        }
        let next = queue.first_key_value().map(|(_, next)| next.name.clone());
        if (was_first || place.is_none()) && self.remaining(&claim.key).is_none() {
            // It had the turn and did not use it, or the lock became free before it left.
            self.give_turn(&claim.key, connection, told);
        } else if let Some(next) = next.filter(|_| was_first) {
            let [_, key] = queue_keys::wake_keys(&Claim::new(&claim.key, next));
            self.tell(&key.into(), Some(connection), told);
        }
        self.drop_empty(&claim.key);
        if place.is_some() { Reply::Done } else { Reply::Missing }
    }

    /// `inspect.lua`.
    fn inspect(&mut self, key: &Arc<str>) -> Reply {
        let now = self.clock.now();
        let left = self.remaining(key);
        let writer = self.keys.get(key).filter(|entry| entry.expires > now);
        let readers = self.readers.until(key, now).map(|_| String::new());
        let value = writer.map(|entry| entry.value.clone()).or(readers);
        let waiters = self.queues.get(queue_keys::line(key)).into_iter().flat_map(BTreeMap::values);
        let alive = waiters.filter(|waiter| waiter.dead_at > now);
        Reply::Seen(Arc::new(Seen {
            value: value.map(Secret),
            left: left.unwrap_or_default(),
            waiting: alive.map(|waiter| Secret(waiter.name.clone())).collect(),
        }))
    }

    /// The rest of a release, where the queue is kept.
    fn wake(
        &mut self,
        key: &Arc<str>,
        reply: Reply,
        connection: u64,
        told: &mut Vec<Push>,
    ) -> Reply {
        if reply == Reply::Foreign {
            return reply;
        }
        let woke = self.give_turn(key, connection, told);
        self.drop_empty(key);
        let deleted = reply == Reply::Done;
        if woke { Reply::Woke { deleted, woken: Places::FIRST } } else { reply }
    }

    /// `wake.lua`.
    fn give_turn(&mut self, key: &Arc<str>, connection: u64, told: &mut Vec<Push>) -> bool {
        let now = self.clock.now();
        let Some(queue) = self.queues.get_mut(queue_keys::line(key)) else { return false };
        let keys =
            |waiter: String| queue_keys::wake_keys(&Claim::new(key, waiter)).map(Arc::<str>::from);
        while let Some((_, first)) = queue.pop_first() {
            if first.dead_at <= now {
                continue;
            }
            let next = queue.first_key_value().map(|(_, next)| keys(next.name.clone()));
            let [turn, done] = keys(first.name);
            self.watched.remove(&done);
            self.tell(&turn, Some(connection), told);
            if let Some([_, next]) = next {
                self.tell(&next, Some(connection), told);
            }
            return true;
        }
        false
    }

    fn drop_empty(&mut self, key: &str) {
        if self.queues.get(queue_keys::line(key)).is_some_and(BTreeMap::is_empty) {
            self.queues.remove(queue_keys::line(key));
        }
    }

    /// Removes expired keys and tells their watchers, so that neither is kept for ever.
    fn sweep(&mut self, told: &mut Vec<Push>) {
        let now = self.clock.now();
        let watched = &mut self.watched;
        self.keys.retain(|key, entry| {
            let there = entry.expires > now;
            if !there && let Some(who) = watched.remove(key) {
                told.extend(pushes(Arc::clone(key), who, None));
            }
            there
        });
        self.counters.sweep(now);
        self.readers.sweep(now);
        self.queues.retain(|_, waiters| {
            waiters.retain(|_, waiter| waiter.dead_at > now);
            !waiters.is_empty()
        });
        self.sweep_at = (2 * self.keys.len().max(self.counters.len())).max(1024);
    }

    fn tell(&mut self, key: &Arc<str>, but: Option<u64>, told: &mut Vec<Push>) {
        if let Some(who) = self.watched.remove(key) {
            told.extend(pushes(Arc::clone(key), who, but));
        }
    }
}

/// The connection that makes a change hears neither of it nor of the next change: `NOLOOP`.
fn pushes(key: Arc<str>, who: BTreeSet<u64>, but: Option<u64>) -> impl Iterator<Item = Push> {
    who.into_iter()
        .filter(move |to| Some(*to) != but)
        .map(move |to| Push { to, key: Arc::clone(&key) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Draw;

    #[tokio::test(start_paused = true)]
    async fn a_listener_is_told_when_the_node_forgets_its_missing_key() {
        let mut data = Data::new();
        let mut told = 0;
        for number in 0..MAX_WATCHED + 100 {
            let claim = Claim::new(&number.to_string().into(), String::new());
            let watch = Command { claim: Arc::new(claim), action: Action::Watch };
            let (replies, pushes) = data.run(&[watch], 1);
            assert_eq!(replies, [Reply::Missing]);
            told += pushes.len();
        }
        assert_eq!((data.watched.len(), told), (100, MAX_WATCHED));
    }

    /// Under a second name, a node would have a second vote (rule 16).
    #[tokio::test(start_paused = true)]
    async fn a_reader_is_given_one_vote_by_a_node() {
        let mut data = Data::new();
        let claim = Claim { shared: true, ..Claim::new(&"r".into(), "v".to_owned()) };
        let action = Action::Grant { ttl: Duration::from_secs(60) };
        let grant = Command { claim: Arc::new(claim), action };
        for (connection, reply) in [(1, Reply::Done), (2, Reply::Foreign)] {
            assert_eq!(data.run(std::slice::from_ref(&grant), connection).0, [reply]);
        }
    }

    /// Like a server that has lost its data.
    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_cleared_forgets_its_counters() {
        let mut data = Data::new();
        let claim = Arc::new(Claim::new(&"r".into(), "v".to_owned()));
        let life = Duration::from_secs(60);
        let draw = Draw { floor: 0, count: 5, life };
        let grant = Command { claim, action: Action::GrantFenced { ttl: life, draw } };
        for _ in 0..2 {
            let (replies, _) = data.run(std::slice::from_ref(&grant), 1);
            assert_eq!(replies, [Reply::Numbered { first: 1 }]);
            data.clear();
        }
    }
}
