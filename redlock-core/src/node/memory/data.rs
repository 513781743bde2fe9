//! The keys of a node in memory: what a server does with each command.

mod permits;
mod set;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

pub(crate) use super::watched::Push;
use super::{
    clock::ServerClock,
    counters::Counters,
    queues::{Held, Queues},
    readers::Readers,
    watched::{MAX_WATCHED, Pushes, Watched},
};
use crate::{
    node::{Action, Claim, Command, Inspection, KeySet, Listens, Reply, Secret, queue_keys},
    token::Token,
};

/// Everything that a node knows.
pub(crate) struct Data {
    keys: BTreeMap<Arc<str>, Entry>,
    queues: Queues,
    watched: Watched,
    counters: Counters,
    readers: Readers,
    clock: ServerClock,
    /// Expired keys are removed when this many keys are there.
    sweep_at: usize,
}

struct Entry {
    value: String,
    /// When the key expires, on the node's own clock.
    expires: f64,
}

impl Entry {
    /// Whether an adoption gives it to this claim, or has done so before.
    fn passes_to(&self, claim: &Claim, from: Token) -> bool {
        Token::of_value(&self.value) == Some(from) || self.value == claim.value
    }
}

impl Data {
    pub(crate) fn new() -> Self {
        Self {
            keys: BTreeMap::new(),
            queues: Queues::default(),
            watched: Watched::default(),
            counters: Counters::default(),
            readers: Readers::default(),
            clock: ServerClock::new(),
            sweep_at: 1024,
        }
    }

    /// Sets the clock this many seconds ahead. What has expired before does not come back.
    pub(crate) fn set_clock(&mut self, ahead: f64) -> Vec<Push> {
        let mut told = Pushes::by(None);
        self.sweep(&mut told);
        self.clock.set_ahead(ahead);
        told.into_vec()
    }

    pub(crate) fn set_rate(&mut self, rate: f64) {
        self.clock.set_rate(rate);
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
        let mut told = Pushes::by(None);
        self.watched.tell_all(&mut told);
        told.into_vec()
    }

    /// `None` when there was no such key.
    pub(crate) fn remove(&mut self, key: &str) -> Option<Vec<Push>> {
        let mut told = Pushes::by(None);
        if !self.counters.remove(key) {
            let readers = self.readers.remove(key).then(|| Arc::from(key));
            let key = self.keys.remove_entry(key).map(|(key, _)| key).or(readers)?;
            self.watched.changed(&key, &mut told);
        }
        Some(told.into_vec())
    }

    /// Tells this connection nothing any more: it has gone.
    pub(crate) fn forget(&mut self, connection: u64) {
        self.watched.forget(connection);
    }

    /// How much is kept of what expires.
    fn kept(&self) -> usize {
        let (keys, readers) = (self.keys.len(), self.readers.len());
        keys.max(readers).max(self.counters.len()).max(self.queues.len())
    }

    /// Runs commands that came on one connection.
    pub(crate) fn run(&mut self, commands: &[Command], connection: u64) -> (Vec<Reply>, Vec<Push>) {
        let mut told = Pushes::by(Some(connection));
        if self.kept() >= self.sweep_at {
            self.sweep(&mut told);
        }
        if self.watched.len() >= MAX_WATCHED {
            self.watched.tell_all(&mut told);
        }
        let reply = |command: &Command| self.reply(command, connection, &mut told);
        let replies = commands.iter().map(reply).collect();
        (replies, told.into_vec())
    }

    fn reply(&mut self, command: &Command, connection: u64, told: &mut Pushes) -> Reply {
        let claim = &command.claim;
        let now = self.clock.now();
        match command.action {
            Action::Join { place, life, listens, reads } => {
                if listens == Listens::TurnAndLock {
                    self.watched.watch(Arc::clone(&claim.key), connection);
                }
                if listens != Listens::Nothing {
                    for key in queue_keys::wake_keys(claim) {
                        self.watched.watch(key.into(), connection);
                    }
                }
                let left = self.remaining(&claim.key);
                let Some((place, ahead)) = self.queues.join(claim, place, life, now) else {
                    return Reply::Full;
                };
                let may_ask = ahead == 0 && left.is_none();
                let turn_is_out = !may_ask || self.queues.turn_of_another(claim, now);
                let may_share = reads && self.readers.may_join(&claim.key, place, now);
                Reply::Queued { place, ahead, left, turn_is_out, may_share }
            }
            Action::Leave { again } => {
                let is_free = self.remaining(&claim.key).is_none();
                let has_readers = self.readers.until(&claim.key, now).is_some();
                let held = match (is_free, has_readers) {
                    (true, _) => Held::Not,
                    (_, true) => Held::ByReaders,
                    _ => Held::ByWriter,
                };
                self.queues.leave(claim, again, held, now, &mut self.watched, told)
            }
            Action::RaiseBarrier { life, insists } => {
                self.readers.raise_barrier(claim, life, insists, now)
            }
            Action::LowerBarrier => self.readers.lower_barrier(claim, now),
            Action::FindPermits { count, from, most, asker, keeps } => {
                self.find_permits(claim, (count, from), (most, asker), keeps, told)
            }
            Action::Inspect { most } => self.inspect(&claim.key, most),
            Action::Watch => {
                self.watched.watch(Arc::clone(&claim.key), connection);
                let left = self.remaining(&claim.key);
                left.map_or(Reply::Missing, |left| Reply::There { left })
            }
            _ if claim.shared => self.run_shared(command, told),
            _ if claim.is_set() => self.run_set(command, told),
            action => {
                let reply = self.run_one(command, told);
                let wakes = matches!(
                    action,
                    Action::Release { wakes: KeySet::FIRST } | Action::Clear { wakes: true }
                );
                if wakes { self.wake(claim, &claim.key, reply, told) } else { reply }
            }
        }
    }

    /// The reply to a command of a reader.
    fn run_shared(&mut self, command: &Command, told: &mut Pushes) -> Reply {
        let Command { claim, action } = command;
        let now = self.clock.now();
        let has_writer = self.keys.get(&claim.key).is_some_and(|entry| entry.expires > now);
        let (reply, changed) = self.readers.run(claim, *action, now, has_writer);
        if changed {
            self.watched.changed(&claim.key, told);
        }
        let wakes = matches!(action, Action::Release { wakes: KeySet::FIRST });
        if wakes && self.remaining(&claim.key).is_none() {
            return self.wake(claim, &claim.key, reply, told);
        }
        reply
    }

    /// The reply to a command for one lock.
    fn run_one(&mut self, command: &Command, told: &mut Pushes) -> Reply {
        let (reply, changed) = self.change(command);
        if changed {
            self.watched.changed(&command.claim.key, told);
        }
        reply
    }

    /// The reply to a command, and whether the command has changed its key.
    fn change(&mut self, command: &Command) -> (Reply, bool) {
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
                if !entry.passes_to(claim, from) {
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
                let is_longer = left < ttl;
                entry.expires = entry.expires.max(now + ttl.as_secs_f64());
                (Reply::There { left }, is_longer)
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
                | Action::Leave { .. }
                | Action::Inspect { .. }
                | Action::Watch
                | Action::RaiseBarrier { .. }
                | Action::FindPermits { .. }
                | Action::LowerBarrier,
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

    /// `inspect.lua`.
    fn inspect(&mut self, key: &Arc<str>, most: u64) -> Reply {
        let now = self.clock.now();
        let left = self.remaining(key);
        let writer = self.keys.get(key).filter(|entry| entry.expires > now);
        // Readers have no value. A key that expires within this nanosecond is free.
        let value = left.map(|_| writer.map_or_else(String::new, |entry| entry.value.clone()));
        Reply::Inspected(Arc::new(Inspection {
            value: value.map(Secret),
            left: left.unwrap_or_default(),
            waiting: self.queues.waiting(key, most, now),
            turn_is_out: self.queues.turn_is_out(key, now),
        }))
    }

    /// The rest of a release, where the queue is kept.
    fn wake(&mut self, claim: &Claim, key: &Arc<str>, reply: Reply, told: &mut Pushes) -> Reply {
        if reply == Reply::Foreign {
            return reply;
        }
        let now = self.clock.now();
        if claim.has_turn {
            self.queues.end_turn(key);
        }
        match self.queues.wake(key, now, &mut self.watched, told) {
            Some(told) => Reply::Woke { deleted: reply == Reply::Done, told },
            None => reply,
        }
    }

    /// Removes expired keys and tells their watchers, so that neither is kept for ever.
    fn sweep(&mut self, told: &mut Pushes) {
        let now = self.clock.now();
        let watched = &mut self.watched;
        self.keys.retain(|key, entry| {
            let there = entry.expires > now;
            if !there {
                watched.expired(key, told);
            }
            there
        });
        self.counters.sweep(now);
        self.readers.sweep(now);
        self.queues.sweep(now);
        self.sweep_at = (2 * self.kept()).max(1024);
    }
}

#[cfg(test)]
mod tests;
