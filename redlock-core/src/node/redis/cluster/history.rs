//! Which slots may have forgotten locks (rule 16).
//!
//! A slot that moves takes its keys along. A slot that a replica takes over may lack locks, and so may
//! the slots of a process that was restarted, with those that it got since. No new locks are granted in
//! these slots until every lease that they may have forgotten has run out. Pure: no connection, no clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};

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
    /// How long the process had been up when this client connected to it.
    pub(super) uptime: Option<Duration>,
    /// The connection to it is new: a process without a run id may be another one.
    pub(super) is_new: bool,
}

impl Served {
    /// Whether it has the data that its process had `before`.
    fn goes_on(&self, before: &Process) -> bool {
        self.process.goes_on(before) && !(self.is_new && self.process.run_id.is_none())
    }
}

/// What this client knows of a member.
#[derive(Debug)]
struct Known {
    process: Process,
    /// Until when the slots that it gets give no locks. Keys may come before their slot does (`ASK`), so its
    /// last restart may have lost those of a slot that comes later.
    may_lack_until: Moment,
}

/// What this client has seen of the slots.
#[derive(Debug)]
pub(super) struct History {
    restarts: Restarts,
    /// How long a slot that may have forgotten locks grants none.
    span: Duration,
    /// How much older than its time a look may be.
    lag: Duration,
    /// The last process of each slot that was seen, and when.
    seen: Vec<Option<(Process, Moment)>>,
    /// The members by their names: those that are in `seen`.
    members: BTreeMap<Arc<str>, Known>,
    /// Until when a slot gives no locks.
    barred: BTreeMap<u16, Moment>,
    /// This is not the first look.
    has_looked: bool,
}

impl History {
    pub(super) fn new(restarts: Restarts, span: Duration, lag: Duration) -> Self {
        Self {
            restarts,
            span,
            lag,
            seen: vec![None; usize::from(SLOTS)],
            members: BTreeMap::new(),
            barred: BTreeMap::new(),
            has_looked: false,
        }
    }

    /// Notes what a look at the cluster has found, at `now`. Returns how many slots grant no locks from now on
    /// because of it.
    pub(super) fn look(&mut self, served: &[Served], now: Moment) -> usize {
        let mut barred = 0;
        // Known from the looks before: a member may have several ranges of slots.
        let known: Vec<_> = served.iter().map(|it| self.judge(it, now)).collect();
        for (it, known) in served.iter().zip(&known) {
            for slot in it.slots.clone() {
                let until = self.sits_out_until(slot, it, known.may_lack_until, served, now);
                if until > now && self.restarts != Restarts::Trusted {
                    self.bar(slot, until);
                    barred += 1;
                }
                if let Some(seen) = self.seen.get_mut(usize::from(slot)) {
                    *seen = Some((it.process.clone(), now));
                }
            }
        }
        let before = self.members.len();
        self.members.extend(known.into_iter().map(|it| (Arc::clone(&it.process.id), it)));
        if self.members.len() > before {
            // Those that are gone (rule 18).
            let seen: BTreeSet<_> = self.seen.iter().flatten().map(|(it, _)| &it.id).collect();
            self.members.retain(|id, _| seen.contains(id));
        }
        self.has_looked |= !served.is_empty();
        self.barred.retain(|_, until| *until > now);
        barred
    }

    /// What is known of this member from now on.
    fn judge(&self, it: &Served, now: Moment) -> Known {
        let may_lack_until = match self.members.get(&it.process.id) {
            Some(known) if it.goes_on(&known.process) => known.may_lack_until,
            Some(_) => now + self.span,
            None if self.has_looked && it.process.followed.is_some() || self.is_too_young(it) => {
                now + self.span
            }
            None => now,
        };
        Known { process: it.process.clone(), may_lack_until }
    }

    fn is_too_young(&self, it: &Served) -> bool {
        self.restarts == Restarts::Strict && it.uptime.is_none_or(|up| up < self.span)
    }

    /// Until when a slot of this member gives no locks. The member may lack the keys of slots that it got until
    /// `may_lack_until`.
    fn sits_out_until(
        &self,
        slot: u16,
        it: &Served,
        may_lack_until: Moment,
        served: &[Served],
        now: Moment,
    ) -> Moment {
        let forgets = match self.seen.get(usize::from(slot)).and_then(Option::as_ref) {
            // It was down before.
            None => self.has_looked || self.is_too_young(it),
            Some((before, _)) if before.id == it.process.id => !it.goes_on(before),
            Some((before, since)) => {
                // A slot has moved from a master that goes on. A master that is gone, or is a
                // replica now, was replaced.
                let was_replaced = !served.iter().any(|it| it.goes_on(before));
                // A member that is new to this client may have been restarted after it got the slot.
                let is_new = !self.members.contains_key(&it.process.id);
                let had_it_for = now.since(*since).saturating_add(self.lag);
                let may_have_lost_it = is_new && it.uptime.is_none_or(|up| up < had_it_for);
                if !was_replaced && !may_have_lost_it {
                    return may_lack_until;
                }
                true
            }
        };
        if forgets { now + self.span } else { now }
    }

    fn bar(&mut self, slot: u16, until: Moment) {
        let barred = self.barred.entry(slot).or_insert(until);
        *barred = until.max(*barred);
    }

    /// Notes that a slot has moved, at `now`, to a master that was known as one before. Its old master goes
    /// on.
    pub(super) fn moved(&mut self, slot: u16, to: &Process, now: Moment) {
        let until = self.members.get(&to.id).map_or(now + self.span, |it| it.may_lack_until);
        if until > now && self.restarts != Restarts::Trusted {
            self.bar(slot, until);
        }
        if let Some(seen) = self.seen.get_mut(usize::from(slot)) {
            *seen = Some((to.clone(), now));
        }
    }

    /// How much longer this process may lack keys that came before their slot (`ASK`). A member without slots is unknown.
    pub(super) fn lacks(&self, process: &Process, now: Moment) -> Option<Duration> {
        let known = self.members.get(&process.id)?;
        let goes_on = process.goes_on(&known.process);
        let left = if goes_on { known.may_lack_until.since(now) } else { self.span };
        (self.restarts != Restarts::Trusted && !left.is_zero()).then_some(left)
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
    const LAG: Duration = Duration::from_secs(2);

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
        let mut history = History::new(restarts, SPAN, LAG);
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
        history.moved(0, &process("b", "2"), at(3));
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

    /// The keys that came with the slot were lost with the others.
    #[test]
    fn a_slot_that_reached_a_process_before_it_restarted_sits_out() {
        let restarted = [served(0..=8, "a", "1"), again(9..=19, "b", "9")];
        assert_eq!(looked(Restarts::Observed).look(&restarted, at(1)), 11);
        assert_eq!(looked(Restarts::Strict).look(&restarted, at(1)), 11);
        assert_eq!(looked(Restarts::Trusted).look(&restarted, at(1)), 0);

        // Keys come before their slot does.
        let mut history = looked(Restarts::Observed);
        let restarted = [served(0..=9, "a", "1"), again(10..=19, "b", "9")];
        assert_eq!(history.look(&restarted, at(1)), 10);
        let moved = [served(0..=8, "a", "1"), served(9..=19, "b", "9")];
        assert_eq!(history.look(&moved, at(2)), 1);
        assert_eq!(history.sits_out(9, at(2)), Some(SPAN - Duration::from_secs(1)));
        history.moved(8, &process("b", "9"), at(3));
        assert_eq!(history.sits_out(8, at(3)), Some(SPAN - Duration::from_secs(2)));
        // What it had forgotten has run out.
        history.moved(7, &process("b", "9"), at(61));
        let moved = [served(0..=5, "a", "1"), served(6..=19, "b", "9")];
        assert_eq!(history.look(&moved, at(62)), 0);
        assert_eq!(history.all_that_sit_out(at(62)), None);
    }

    #[test]
    fn a_slot_that_moves_to_a_new_member_sits_out_if_that_may_have_lost_it() {
        let sits_out = |restarts, up, followed: Option<&str>| {
            let mut new = again(9..=9, "c", "3");
            new.uptime = up;
            new.process.followed = followed.map(Into::into);
            let moved = [served(0..=8, "a", "1"), new, served(10..=19, "b", "2")];
            looked(restarts).look(&moved, at(5)) == 1
        };
        let up = |seconds| Some(Duration::from_secs(seconds));
        // The slot was seen elsewhere 5 s before, in a look that was up to 2 s old.
        assert!(!sits_out(Restarts::Observed, up(7), None));
        assert!(sits_out(Restarts::Observed, up(6), None));
        assert!(sits_out(Restarts::Observed, None, None));
        assert!(sits_out(Restarts::Observed, up(99), Some("r")));
        assert!(sits_out(Restarts::Strict, up(59), None));
        assert!(!sits_out(Restarts::Strict, up(60), None));
        assert!(!sits_out(Restarts::Trusted, None, Some("r")));
    }

    #[test]
    fn a_giver_without_a_run_id_may_have_restarted() {
        let mut history = History::new(Restarts::Observed, SPAN, LAG);
        let first = [again(0..=9, "a", ""), again(10..=19, "b", "2")];
        assert_eq!(history.look(&first, at(0)), 0);
        let moved = [again(0..=8, "a", ""), served(9..=19, "b", "2")];
        assert_eq!(history.look(&moved, at(1)), 10);
    }

    #[test]
    fn members_that_are_gone_are_forgotten() {
        let mut history = looked(Restarts::Observed);
        for (now, id) in (1..).zip(["c", "d", "e"]) {
            history.look(&[served(0..=9, "a", "1"), again(10..=19, id, "1")], at(now));
        }
        assert_eq!(history.members.keys().map(|it| &**it).collect::<Vec<_>>(), ["a", "e"]);
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
        let mut history = History::new(Restarts::Observed, SPAN, LAG);
        assert_eq!(history.look(&[again(0..=9, "a", "")], at(0)), 0);
        assert_eq!(history.look(&[served(0..=9, "a", "")], at(1)), 0);
        assert_eq!(history.look(&[again(0..=9, "a", "")], at(2)), 10);
    }

    #[test]
    fn a_slot_that_was_down_at_the_first_look_sits_out() {
        let mut history = History::new(Restarts::Observed, SPAN, LAG);
        assert_eq!(history.look(&[again(0..=9, "a", "1")], at(0)), 0);
        assert_eq!(history.look(&[again(0..=9, "a", "1"), again(10..=19, "b", "2")], at(1)), 10);
    }

    #[test]
    fn a_process_that_imports_a_slot_may_lack_what_it_lost() {
        let mut history = looked(Restarts::Observed);
        for (id, run, lacks) in [("b", "2", None), ("b", "3", Some(SPAN)), ("c", "1", None)] {
            assert_eq!(history.lacks(&process(id, run), at(1)), lacks, "{id} {run}");
        }
        history.look(&[again(0..=9, "a", "1"), again(10..=19, "b", "3")], at(1));
        assert_eq!(history.lacks(&process("b", "3"), at(2)), Some(SPAN - Duration::from_secs(1)));
        assert_eq!(looked(Restarts::Trusted).lacks(&process("b", "3"), at(1)), None);
    }

    #[test]
    fn the_operator_may_trust_and_may_be_strict() {
        let mut trusted = looked(Restarts::Trusted);
        assert_eq!(trusted.look(&[again(0..=9, "r", "7")], at(5)), 0);
        let mut strict = History::new(Restarts::Strict, SPAN, LAG);
        let young = Served { uptime: Some(SPAN / 2), ..again(0..=9, "a", "1") };
        assert_eq!(strict.look(&[young, again(10..=19, "b", "2")], at(0)), 10);
        let mut strict = History::new(Restarts::Strict, SPAN, LAG);
        let silent = Served { uptime: None, ..again(0..=9, "a", "1") };
        assert_eq!(strict.look(&[silent], at(0)), 10);
    }
}
