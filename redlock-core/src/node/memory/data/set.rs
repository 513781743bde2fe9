//! Commands for sets of locks: each is done on all keys or on none, like the scripts of a server.

use std::{sync::Arc, time::Duration};

use super::Data;
use crate::{
    node::{Action, Claim, Command, KeySet, Reply, memory::watched::Pushes, set_reply::SetReply},
    token::Token,
};

impl Data {
    /// Runs a command for a set.
    pub(super) fn run_set(&mut self, command: &Command, told: &mut Pushes) -> Reply {
        let claim = &*command.claim;
        let held = self.held(claim);
        match command.action {
            Action::Grant { ttl } if held.is_free => {
                self.run_each(claim, Action::Grant { ttl }, told);
                Reply::Done
            }
            Action::GrantFenced { ttl, draw } if held.is_free => {
                let (now, time) = (self.clock.now(), self.clock.time());
                let Some(first) = self.counters.draw_all(claim, draw, now, time) else {
                    return Reply::Full;
                };
                self.run_each(claim, Action::Grant { ttl }, told);
                Reply::Numbered { first }
            }
            Action::Grant { .. } | Action::GrantFenced { .. } => Reply::Foreign,
            Action::Heal { ttl } if held.reply != Reply::Foreign => {
                self.run_each(claim, Action::Heal { ttl }, told);
                self.run_each(claim, Action::Extend { ttl }, told);
                Reply::Done
            }
            Action::Adopt { ttl, from } => self.adopt_all(claim, ttl, from, told),
            Action::Release { wakes } => self.release_all(claim, wakes, told),
            Action::Shorten { rest } => {
                self.run_each(claim, Action::Shorten { rest }, told);
                held.reply
            }
            _ if held.reply != Reply::Done => held.reply,
            Action::Extend { ttl } => {
                let left = claim.keys().filter_map(|key| self.remaining(key)).min();
                self.run_each(claim, Action::Extend { ttl }, told);
                Reply::There { left: left.unwrap_or(Duration::ZERO) }
            }
            Action::Redraw { ttl, draw } => {
                let (now, time) = (self.clock.now(), self.clock.time());
                let Some(first) = self.counters.draw_all(claim, draw, now, time) else {
                    return Reply::Full;
                };
                self.run_each(claim, Action::Extend { ttl }, told);
                // The script sets the expiry of each lock anew, however long the lock has.
                claim.keys().for_each(|key| self.watched.changed(key, told));
                Reply::Numbered { first }
            }
            Action::Confirm(raise) => {
                let now = self.clock.now();
                self.counters.raise_all(claim, raise, now)
            }
            // No set is asked for these.
            Action::Heal { .. }
            | Action::Watch
            | Action::Join { .. }
            | Action::Leave { .. }
            | Action::RaiseBarrier { .. }
            | Action::LowerBarrier
            | Action::FindPermits { .. }
            | Action::Inspect { .. }
            | Action::TakeAway
            | Action::Clear { .. } => Reply::Foreign,
        }
    }

    /// What is there of the keys of a claim.
    fn held(&mut self, claim: &Claim) -> Held {
        let now = self.clock.now();
        let (mut is_free, mut whole) = (true, SetReply::default());
        for (place, key) in claim.keys().enumerate() {
            let has_readers = self.readers.until(key, now).is_some();
            let writer = self.keys.get(key).filter(|entry| entry.expires > now);
            is_free &= writer.is_none() && !has_readers;
            let reply = match writer {
                _ if has_readers => Reply::Foreign,
                Some(entry) if entry.value != claim.value => Reply::Foreign,
                Some(_) => Reply::Done,
                None => Reply::Missing,
            };
            whole.add(place, &reply);
        }
        Held { is_free, reply: whole.reply() }
    }

    /// Runs an action on each key by itself.
    fn run_each(&mut self, claim: &Claim, action: Action, told: &mut Pushes) {
        for key in claim.keys() {
            self.run_alone(key, claim, action, told);
        }
    }

    fn run_alone(
        &mut self,
        key: &Arc<str>,
        claim: &Claim,
        action: Action,
        told: &mut Pushes,
    ) -> Reply {
        let claim = Arc::new(Claim::new(key, claim.value.clone()));
        self.run_one(&Command { claim, action }, told)
    }

    /// `adopt_all.lua`.
    fn adopt_all(&mut self, claim: &Claim, ttl: Duration, from: Token, told: &mut Pushes) -> Reply {
        let now = self.clock.now();
        let mut whole = SetReply::default();
        for (place, key) in claim.keys().enumerate() {
            let reply = match self.keys.get(key).filter(|entry| entry.expires > now) {
                Some(entry) if !entry.passes_to(claim, from) => Reply::Foreign,
                Some(_) => Reply::Done,
                None => Reply::Missing,
            };
            whole.add(place, &reply);
        }
        let reply = whole.reply();
        if reply == Reply::Done {
            self.run_each(claim, Action::Adopt { ttl, from }, told);
        }
        reply
    }

    fn release_all(&mut self, claim: &Claim, wakes: KeySet, told: &mut Pushes) -> Reply {
        let mut whole = SetReply::default();
        for (place, key) in claim.keys().enumerate() {
            let alone = Action::Release { wakes: KeySet::NONE };
            let mut reply = self.run_alone(key, claim, alone, told);
            if wakes.has(place) {
                reply = self.wake(claim, key, reply, told);
            }
            whole.add(place, &reply);
        }
        whole.reply()
    }
}

/// What is there of a set.
struct Held {
    /// No key is there.
    is_free: bool,
    /// Done if all keys are there and have our value.
    reply: Reply,
}
