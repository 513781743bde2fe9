//! Commands for sets of locks: each is done on all keys or on none, like the scripts of a server.

use std::{sync::Arc, time::Duration};

use super::{Data, Push};
use crate::{
    node::{Action, Claim, Command, Places, Reply},
    token::Token,
};

impl Data {
    /// Runs a command for a set.
    pub(super) fn run_set(
        &mut self,
        command: &Command,
        connection: u64,
        told: &mut Vec<Push>,
    ) -> Reply {
        let claim = &*command.claim;
        let held = self.held(claim);
        match command.action {
            Action::Grant { ttl } if held.is_free => {
                self.run_each(claim, Action::Grant { ttl }, connection, told);
                Reply::Done
            }
            Action::GrantFenced { ttl, draw } if held.is_free => {
                let (now, time) = (self.clock.now(), self.clock.time());
                let Some(first) = self.counters.draw_all(claim, draw, now, time) else {
                    return Reply::Full;
                };
                self.run_each(claim, Action::Grant { ttl }, connection, told);
                Reply::Numbered { first }
            }
            Action::Grant { .. } | Action::GrantFenced { .. } => Reply::Foreign,
            Action::Heal { ttl } if held.ours => {
                self.run_each(claim, Action::Heal { ttl }, connection, told);
                self.run_each(claim, Action::Extend { ttl }, connection, told);
                Reply::Done
            }
            Action::Adopt { ttl, from } => self.adopt_all(claim, ttl, from, connection, told),
            Action::Release { wakes } => self.release_all(claim, wakes, connection, told),
            Action::Shorten { rest } => {
                self.run_each(claim, Action::Shorten { rest }, connection, told);
                held.reply()
            }
            _ if !held.ours || !held.all => held.reply(),
            Action::Extend { ttl } => {
                let left = claim.keys().filter_map(|key| self.remaining(key)).min();
                self.run_each(claim, Action::Extend { ttl }, connection, told);
                Reply::There { left: left.unwrap_or(Duration::ZERO) }
            }
            Action::Redraw { ttl, draw } => {
                let (now, time) = (self.clock.now(), self.clock.time());
                let Some(first) = self.counters.draw_all(claim, draw, now, time) else {
                    return Reply::Full;
                };
                self.run_each(claim, Action::Extend { ttl }, connection, told);
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
            | Action::Leave
            | Action::Bar { .. }
            | Action::Unbar
            | Action::FindPermit { .. }
            | Action::Inspect
            | Action::TakeAway
            | Action::Clear { .. } => Reply::Foreign,
        }
    }

    /// What is there of the keys of a claim.
    fn held(&mut self, claim: &Claim) -> Held {
        let now = self.clock.now();
        let mut held = Held { is_free: true, ours: true, all: true };
        for key in claim.keys() {
            match self.keys.get(key).filter(|entry| entry.expires > now) {
                Some(entry) => {
                    held.is_free = false;
                    held.ours &= entry.value == claim.value;
                }
                None => held.all = false,
            }
            if self.readers.until(key, now).is_some() {
                (held.is_free, held.ours) = (false, false);
            }
        }
        held
    }

    /// Runs an action on each key by itself.
    fn run_each(&mut self, claim: &Claim, action: Action, connection: u64, told: &mut Vec<Push>) {
        for key in claim.keys() {
            self.run_alone(key, claim, action, connection, told);
        }
    }

    fn run_alone(
        &mut self,
        key: &Arc<str>,
        claim: &Claim,
        action: Action,
        connection: u64,
        told: &mut Vec<Push>,
    ) -> Reply {
        let claim = Arc::new(Claim::new(key, claim.value.clone()));
        let (reply, changed) = self.run_one(&Command { claim, action });
        if changed {
            self.tell(key, Some(connection), told);
        }
        reply
    }

    /// `adopt_all.lua`.
    fn adopt_all(
        &mut self,
        claim: &Claim,
        ttl: Duration,
        from: Token,
        connection: u64,
        told: &mut Vec<Push>,
    ) -> Reply {
        let now = self.clock.now();
        let mut held = Held { is_free: false, ours: true, all: true };
        for key in claim.keys() {
            match self.keys.get(key).filter(|entry| entry.expires > now) {
                Some(entry) => held.ours &= Token::of_value(&entry.value) == Some(from),
                None => held.all = false,
            }
        }
        if held.ours && held.all {
            self.run_each(claim, Action::Adopt { ttl, from }, connection, told);
        }
        held.reply()
    }

    fn release_all(
        &mut self,
        claim: &Claim,
        wakes: Places,
        connection: u64,
        told: &mut Vec<Push>,
    ) -> Reply {
        let (mut held, mut woken) = (Held { is_free: false, ours: true, all: true }, Places::NONE);
        for (place, key) in claim.keys().enumerate() {
            let alone = Action::Release { wakes: Places::NONE };
            let mut reply = self.run_alone(key, claim, alone, connection, told);
            if wakes.has(place) {
                reply = self.wake(key, reply, connection, told);
            }
            if let Reply::Woke { .. } = reply {
                woken.add(place);
            }
            held.ours &= reply != Reply::Foreign;
            held.all &= matches!(reply, Reply::Done | Reply::Woke { deleted: true, .. });
        }
        if woken.is_none() {
            held.reply()
        } else {
            Reply::Woke { deleted: held.ours && held.all, woken }
        }
    }
}

/// What is there of a set.
struct Held {
    /// No key is there.
    is_free: bool,
    /// No key has another value.
    ours: bool,
    /// All keys are there.
    all: bool,
}

impl Held {
    fn reply(&self) -> Reply {
        match (self.ours, self.all) {
            (false, _) => Reply::Foreign,
            (true, false) => Reply::Missing,
            (true, true) => Reply::Done,
        }
    }
}
