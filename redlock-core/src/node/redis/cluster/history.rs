//! Which slots may have forgotten locks (rule 16).
//!
//! A slot that moves takes its keys along. A slot that a replica takes over may lack locks, and so may
//! the slots of a process that was restarted. No new locks are granted in these slots until every lease
//! that they may have forgotten has run out. Pure: no connection, no clock.

use std::{collections::BTreeMap, ops::RangeInclusive, sync::Arc, time::Duration};

use super::slots::SLOTS;
use crate::{
    clock::Moment,
    node::{Restarts, was_promoted},
};

/// The process that serves a member.
#[derive(Debug, Clone)]
pub(super) struct Process {
    /// The name that the cluster has for the member.
    pub(super) id: Arc<str>,
    /// Changes with each restart. None when the server does not tell.
    pub(super) run_id: Option<Arc<str>>,
    /// The replication id of the master that it followed last, if it tells.
    pub(super) followed: Option<Arc<str>>,
}

impl Process {
    /// Whether it has the data that it had `before`: it was neither restarted nor a replica since.
    fn goes_on(&self, before: &Self) -> bool {
        self.id == before.id
            && self.run_id == before.run_id
            && !was_promoted(before.followed.as_ref(), self.followed.as_ref())
    }
}

/// The slots that a reachable master serves.
#[derive(Debug, Clone)]
pub(super) struct Served {
    pub(super) slots: RangeInclusive<u16>,
    pub(super) process: Process,
    /// How long the process has been up, if it is a new one to this client.
    pub(super) uptime: Option<Duration>,
    /// The connection to it is new: a process without a run id may be another one.
    pub(super) is_new: bool,
}

/// What this client has seen of the slots.
#[derive(Debug)]
pub(super) struct History {
    restarts: Restarts,
    /// How long a slot that may have forgotten locks gives none.
    span: Duration,
    /// The last process of each slot that was seen.
    seen: Vec<Option<Process>>,
    /// Until when a slot gives no locks.
    barred: BTreeMap<u16, Moment>,
    /// This is not the first look.
    has_looked: bool,
}

impl History {
    pub(super) fn new(restarts: Restarts, span: Duration) -> Self {
        Self {
            restarts,
            span,
            seen: vec![None; usize::from(SLOTS)],
            barred: BTreeMap::new(),
            has_looked: false,
        }
    }

    /// Takes a look at the cluster in, at `now`. Returns how many slots give no locks from now on
    /// because of it.
    pub(super) fn look(&mut self, served: &[Served], now: Moment) -> usize {
        let mut barred = 0;
        for it in served {
            for slot in it.slots.clone() {
                let before = self.seen.get(usize::from(slot)).and_then(Option::as_ref);
                let forgets = match before {
                    // It was down before.
                    None if self.has_looked => true,
                    None => {
                        self.restarts == Restarts::Strict
                            && it.uptime.is_none_or(|up| up < self.span)
                    }
                    Some(before) if before.id == it.process.id => {
                        it.is_new && (before.run_id.is_none() || !it.process.goes_on(before))
                    }
                    // A slot has moved from a master that goes on. A master that is gone, or is a
                    // replica now, was replaced.
                    Some(before) => !served.iter().any(|it| it.process.goes_on(before)),
                };
                if forgets && self.restarts != Restarts::Trusted {
                    self.barred.insert(slot, now + self.span);
                    barred += 1;
                }
                if let Some(seen) = self.seen.get_mut(usize::from(slot)) {
                    *seen = Some(it.process.clone());
                }
            }
        }
        self.has_looked |= !served.is_empty();
        self.barred.retain(|_, until| *until > now);
        barred
    }

    /// Notes that a slot has moved to a master that was known as one before. Its old master goes
    /// on.
    pub(super) fn moved(&mut self, slot: u16, to: &Process) {
        if let Some(seen) = self.seen.get_mut(usize::from(slot)) {
            *seen = Some(to.clone());
        }
    }

    /// How many slots give no locks at `now`, and how much longer the last of them does.
    pub(super) fn all_that_sit_out(&self, now: Moment) -> Option<(usize, Duration)> {
        let left = self.barred.values().map(|until| until.since(now));
        let left: Vec<_> = left.filter(|left| !left.is_zero()).collect();
        Some((left.len(), left.into_iter().max()?))
    }

    /// How much longer this slot gives no locks at `now`.
    pub(super) fn sits_out(&self, slot: u16, now: Moment) -> Option<Duration> {
        let left = self.barred.get(&slot)?.since(now);
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Moment {
        Moment::ORIGIN + Duration::from_secs(seconds)
    }

    fn process(id: &str, run: &str) -> Process {
        Process { id: id.into(), run_id: (!run.is_empty()).then(|| run.into()), followed: None }
    }

    fn served(slots: RangeInclusive<u16>, id: &str, run: &str) -> Served {
        Served { slots, process: process(id, run), uptime: Some(SPAN), is_new: false }
    }

    fn again(slots: RangeInclusive<u16>, id: &str, run: &str) -> Served {
        Served { is_new: true, ..served(slots, id, run) }
    }

    fn looked(restarts: Restarts) -> History {
        let mut history = History::new(restarts, SPAN);
        let first = [again(0..=9, "a", "1"), again(10..=19, "b", "2")];
        assert_eq!(history.look(&first, at(0)), 0);
        history
    }

    #[test]
    fn a_slot_that_moves_between_masters_that_go_on_keeps_its_locks() {
        let mut history = looked(Restarts::Observed);
        let moved = [served(0..=4, "a", "1"), served(5..=19, "b", "2")];
        assert_eq!(history.look(&moved, at(1)), 0);
        // A master that is new to the cluster gets slots as well.
        let grown = [served(0..=4, "a", "1"), served(5..=18, "b", "2"), again(19..=19, "c", "3")];
        assert_eq!(history.look(&grown, at(2)), 0);
        history.moved(0, &process("b", "2"));
        let last = [served(1..=4, "a", "1"), served(0..=0, "b", "2")];
        assert_eq!(history.look(&last, at(3)), 0);
    }

    #[test]
    fn a_slot_that_a_replica_takes_over_sits_out() {
        let mut history = looked(Restarts::Observed);
        let failed_over = [again(0..=9, "r", "7"), served(10..=19, "b", "2")];
        assert_eq!(history.look(&failed_over, at(5)), 10);
        assert_eq!(history.sits_out(0, at(5)), Some(SPAN));
        assert_eq!(history.sits_out(9, at(64)), Some(Duration::from_secs(1)));
        assert_eq!(history.sits_out(9, at(65)), None);
        assert_eq!(history.all_that_sit_out(at(64)), Some((10, Duration::from_secs(1))));
        assert_eq!(history.all_that_sit_out(at(65)), None);
        assert_eq!(history.sits_out(10, at(5)), None);
        assert_eq!(history.look(&failed_over, at(70)), 0, "it is known now");
    }

    #[test]
    fn a_process_that_restarted_sits_out_with_its_slots_alone() {
        let mut history = looked(Restarts::Observed);
        let again_up = [again(0..=9, "a", "9"), served(10..=19, "b", "2")];
        assert_eq!(history.look(&again_up, at(5)), 10);
        let reconnected = [again(0..=9, "a", "9"), again(10..=19, "b", "2")];
        assert_eq!(history.look(&reconnected, at(6)), 0, "a connection that broke is no restart");
    }

    #[test]
    fn a_master_that_was_a_replica_unseen_sits_out_with_its_slots() {
        let promoted = |it: Served, followed: &str| Served {
            process: Process { followed: Some(followed.into()), ..it.process },
            ..it
        };
        let mut history = looked(Restarts::Observed);
        let back = |followed| promoted(again(0..=9, "a", "1"), followed);
        let other = || served(10..=19, "b", "2");
        assert_eq!(history.look(&[back("r"), other()], at(5)), 10);
        assert_eq!(history.look(&[back("r"), other()], at(70)), 0, "it is known now");
        // A server forgets after a while which master it followed.
        assert_eq!(history.look(&[again(0..=9, "a", "1"), other()], at(71)), 0);
        // Nor does it vouch for the slots that it has given away.
        let moved = [back("s"), served(5..=19, "b", "2")];
        let moved =
            moved.map(|it| if &*it.process.id == "a" { Served { slots: 0..=4, ..it } } else { it });
        assert_eq!(history.look(&moved, at(80)), 10);
    }

    #[test]
    fn a_process_without_a_run_id_may_have_restarted_at_each_reconnect() {
        let mut history = History::new(Restarts::Observed, SPAN);
        assert_eq!(history.look(&[again(0..=9, "a", "")], at(0)), 0);
        assert_eq!(history.look(&[served(0..=9, "a", "")], at(1)), 0);
        assert_eq!(history.look(&[again(0..=9, "a", "")], at(2)), 10);
    }

    #[test]
    fn a_slot_that_was_down_at_the_first_look_sits_out() {
        let mut history = History::new(Restarts::Observed, SPAN);
        assert_eq!(history.look(&[again(0..=9, "a", "1")], at(0)), 0);
        assert_eq!(history.look(&[again(0..=9, "a", "1"), again(10..=19, "b", "2")], at(1)), 10);
    }

    #[test]
    fn the_operator_may_trust_and_may_be_strict() {
        let mut trusted = looked(Restarts::Trusted);
        assert_eq!(trusted.look(&[again(0..=9, "r", "7")], at(5)), 0);
        let mut strict = History::new(Restarts::Strict, SPAN);
        let young = Served { uptime: Some(SPAN / 2), ..again(0..=9, "a", "1") };
        assert_eq!(strict.look(&[young, again(10..=19, "b", "2")], at(0)), 10);
        let mut strict = History::new(Restarts::Strict, SPAN);
        let silent = Served { uptime: None, ..again(0..=9, "a", "1") };
        assert_eq!(strict.look(&[silent], at(0)), 10);
    }
}
