//! Which owner believed to hold which lock, and when: the judge of mutual exclusion.
//!
//! A hold is recorded as the span in which its owner could rely on it: from just after the lock was
//! given until the last moment at which it was still seen to be valid, release not yet begun. All
//! times are of one monotonic clock, which the processes of a machine share. A history of holds is
//! one that a lock with leases can produce if, and only if, the spans of each key are disjoint:
//! sort and compare neighbours; no search is needed. The recorded ends lie inside the real ends, so
//! a reported overlap is never a false alarm.

use std::{
    collections::BTreeMap,
    fmt,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

/// Now, on the clock of all histories.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// One hold: an owner relied on a lock from one moment until another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The lock, without white space.
    pub key: String,
    /// The owner, without white space.
    pub owner: String,
    /// When the lock was given.
    pub from: Duration,
    /// The last moment at which it was relied on.
    pub until: Duration,
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, owner, from, until } = self;
        write!(f, "{key} {owner} {} {}", from.as_nanos(), until.as_nanos())
    }
}

impl FromStr for Hold {
    type Err = String;

    /// The opposite of [`Display`](fmt::Display): processes exchange their holds as text.
    fn from_str(line: &str) -> Result<Self, String> {
        let read = || {
            let mut words = line.split_whitespace();
            let hold = Self {
                key: words.next()?.to_owned(),
                owner: words.next()?.to_owned(),
                from: Duration::from_nanos(words.next()?.parse().ok()?),
                until: Duration::from_nanos(words.next()?.parse().ok()?),
            };
            words.next().is_none().then_some(hold)
        };
        read().ok_or_else(|| format!("not a hold: {line:?}"))
    }
}

/// The holds of one process, recorded by many tasks. Clones record into the same history.
#[derive(Debug, Clone, Default)]
pub struct History(Arc<Mutex<Vec<Hold>>>);

impl History {
    /// No hold yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a hold: call it right after the lock was given.
    pub fn begin(&self, key: &str, owner: &str) -> Recording {
        let from = now();
        let hold = Hold { key: key.to_owned(), owner: owner.to_owned(), from, until: from };
        Recording { hold, history: self.clone() }
    }

    /// Adds a hold that another process recorded.
    pub fn add(&self, hold: Hold) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(hold);
    }

    /// The holds that have ended.
    pub fn holds(&self) -> Vec<Hold> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Fails the test if two owners held one key at once.
    pub fn assert_exclusive(&self) {
        let holds = self.holds();
        let overlaps = overlaps(&holds);
        let lines: Vec<_> = overlaps.iter().map(ToString::to_string).collect();
        assert!(overlaps.is_empty(), "two held one lock at once:\n{}", lines.join("\n"));
    }
}

/// A hold that goes on. Dropping it ends and records it.
#[derive(Debug)]
pub struct Recording {
    hold: Hold,
    history: History,
}

impl Recording {
    /// Asks whether the lock is still valid, and if so lets the hold last until just before the
    /// question. Call it after each piece of work, the last time before the release.
    pub fn confirm(&mut self, is_valid: impl FnOnce() -> bool) -> bool {
        let before = now();
        let valid = is_valid();
        if valid {
            self.hold.until = before;
        }
        valid
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.history.add(self.hold.clone());
    }
}

/// Two holds of one key that had a moment in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// The hold that began first.
    pub first: Hold,
    /// The hold that began while the first still lasted.
    pub second: Hold,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, second } = self;
        // Relative to the first: absolute times of a monotonic clock tell a reader nothing.
        let since = |time: Duration| time.saturating_sub(first.from);
        write!(
            f,
            "{}: {} held it for {:?}; {} got it {:?} into that, and held it until {:?}",
            first.key,
            first.owner,
            since(first.until),
            second.owner,
            since(second.from),
            since(second.until),
        )
    }
}

/// Every hold that began while another hold of the same key lasted. Each is reported once, with the
/// longest of the holds that began before it.
pub fn overlaps(holds: &[Hold]) -> Vec<Overlap> {
    let mut keys: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
    // A hold that was never seen valid after it was given says nothing.
    for hold in holds.iter().filter(|hold| hold.from < hold.until) {
        keys.entry(&hold.key).or_default().push(hold);
    }
    let mut found = Vec::new();
    for mut holds in keys.into_values() {
        holds.sort_by_key(|hold| (hold.from, hold.until));
        let mut longest: Option<&Hold> = None;
        for hold in holds {
            match longest {
                Some(first) if hold.from < first.until => {
                    found.push(Overlap { first: first.clone(), second: hold.clone() });
                }
                _ => {}
            }
            if longest.is_none_or(|first| first.until < hold.until) {
                longest = Some(hold);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(key: &str, owner: &str, from: u64, until: u64) -> Hold {
        Hold {
            key: key.to_owned(),
            owner: owner.to_owned(),
            from: Duration::from_millis(from),
            until: Duration::from_millis(until),
        }
    }

    #[test]
    fn holds_in_turn_are_no_overlap_in_any_order() {
        let holds = [hold("k", "b", 20, 30), hold("k", "a", 10, 20), hold("k", "c", 31, 40)];
        assert_eq!(overlaps(&holds), []);
    }

    #[test]
    fn other_keys_do_not_matter() {
        assert_eq!(overlaps(&[hold("k", "a", 10, 20), hold("j", "b", 10, 20)]), []);
    }

    #[test]
    fn an_overlap_is_found_and_told_readably() {
        let holds = [hold("k", "b", 19, 30), hold("k", "a", 10, 20)];
        let [overlap] = &overlaps(&holds)[..] else { panic!("not one overlap") };
        assert_eq!(
            overlap.to_string(),
            "k: a held it for 10ms; b got it 9ms into that, and held it until 20ms"
        );
    }

    #[test]
    fn an_overlap_with_one_that_began_long_before_is_found() {
        let holds = [hold("k", "a", 0, 100), hold("k", "b", 10, 20), hold("k", "c", 30, 40)];
        let owners: Vec<_> =
            overlaps(&holds).into_iter().map(|o| (o.first.owner, o.second.owner)).collect();
        assert_eq!(owners, [("a".into(), "b".into()), ("a".into(), "c".into())]);
    }

    #[test]
    fn the_same_span_twice_is_an_overlap() {
        assert_eq!(overlaps(&[hold("k", "a", 1, 2), hold("k", "b", 1, 2)]).len(), 1);
    }

    #[test]
    fn a_hold_never_seen_valid_overlaps_nothing() {
        assert_eq!(overlaps(&[hold("k", "a", 0, 9), hold("k", "b", 5, 5)]), []);
    }

    #[test]
    fn a_hold_lasts_only_as_long_as_it_was_seen_valid() {
        let history = History::new();
        let mut recording = history.begin("k", "a");
        assert!(recording.confirm(|| true));
        let last = now();
        assert!(!recording.confirm(|| false));
        drop(recording);
        let [hold] = &history.holds()[..] else { panic!("not one hold") };
        assert!(hold.from <= hold.until && hold.until <= last, "{hold:?}");
    }

    #[test]
    fn a_lock_that_excludes_nothing_is_caught_by_the_recorder() {
        let history = History::new();
        let mut first = history.begin("k", "a");
        let mut second = history.begin("k", "b");
        let begun = now();
        while now() == begun {}
        first.confirm(|| true);
        second.confirm(|| true);
        drop((first, second));
        assert_eq!(overlaps(&history.holds()).len(), 1);
    }

    #[test]
    fn a_hold_is_read_as_it_is_written() {
        let told = hold("k", "a", 1, 2);
        assert_eq!(told.to_string().parse(), Ok(told));
        assert!("k a 1".parse::<Hold>().is_err());
        assert!("k a 1 2 3".parse::<Hold>().is_err());
    }
}
