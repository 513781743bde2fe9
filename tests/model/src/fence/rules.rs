//! What can be left out of the algorithm, and how much may happen in a run.

use std::fmt;

use super::state::{NODES, places};

/// One rule, or part of one, that the algorithm does without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Omission {
    /// The largest number of a quorum is final, whatever the others returned.
    Confirm,
    /// CONFIRM raises the counter, whichever client holds the lock.
    ConfirmCompares,
    /// CONFIRM checks that the lock is held, and not that the counter reads what GRANT left.
    ConfirmChecksCounter,
    /// CONFIRM raises the counter to the first number of the range, not to the last.
    ConfirmWholeRange,
    /// A GRANT that answers after the number was chosen counts as a confirmation.
    LateGrantIgnored,
    /// The rest of a range is used after a new one has arrived.
    OldRangeDies,
    /// A number is handed on after the validity has run out.
    HandOverInValidity,
    /// A node that lost its data votes at once.
    Quarantine,
    /// Counters start at one, and not at what the clock says.
    ClockFloor,
    /// The numbers of a set are drawn from the counter of one of its resources.
    AllCounters,
    /// CONFIRM checks one counter of a set.
    ConfirmChecksAll,
}

/// How much may happen in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// How often each client asks for numbers: for a lock, or for a new range of the one it holds.
    pub(super) asks: &'static [u8],
    /// The resources that each client wants, one bit each.
    pub(super) sets: &'static [u8],
    /// How many numbers a client reserves at once.
    pub(super) range: u8,
    /// Whether a holder may ask for a new range.
    pub(super) renews: bool,
    /// Whether a client asks for a lock only once.
    pub(super) one_lock: bool,
    /// Whether the first client holds the lock from the start: two nodes have granted
    /// its first ask, and the third one was healed.
    pub(super) held: bool,
    /// The floors that a client may propose, where they do not come from the clock.
    pub(super) floors: &'static [u8],
    /// How often a holder sets a key again after it went missing.
    pub(super) heals: u8,
    /// How often a node restarts without its data.
    pub(super) restarts: u8,
    /// How often the longest ttl passes. Floors come from this clock when it is not zero.
    pub(super) ticks: u8,
    /// Whether counters expire, when they were not used for the longest ttl.
    pub(super) forgetful: bool,
    /// Whether keys may go at any moment, and not only after the validity of their holder.
    pub(super) any_expiry: bool,
}

impl Bounds {
    /// Two clients that ask once for one number, under clocks that may do anything.
    pub(super) const LEAST: Self = Self {
        asks: &[1, 1],
        sets: &[1, 1, 1],
        range: 1,
        renews: false,
        one_lock: false,
        held: false,
        floors: &[0],
        heals: 0,
        restarts: 0,
        ticks: 0,
        forgetful: false,
        any_expiry: true,
    };
}

/// In words, for readers of the table.
impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asks: Vec<String> = self.asks.iter().map(u8::to_string).collect();
        write!(f, "ask {}, range {}", asks.join("+"), self.range)?;
        if self.sets.iter().any(|set| *set != 1) {
            let name = |set: &u8| places(*set).map(|it| char::from(b'a' + it as u8)).collect();
            let sets: Vec<String> = self.sets.iter().map(name).collect();
            write!(f, ", sets {}", sets.join(" "))?;
        }
        f.write_str(if self.renews { ", new ranges" } else { "" })?;
        f.write_str(if self.one_lock { " of one lock" } else { "" })?;
        f.write_str(if self.held { ", held at first" } else { "" })?;
        if self.floors.len() > 1 {
            write!(f, ", floors {:?}", self.floors)?;
        }
        let more = [("heal", self.heals), ("restart", self.restarts), ("tick", self.ticks)];
        for (what, count) in more.into_iter().filter(|(_, count)| *count > 0) {
            write!(f, ", {what} {count}")?;
        }
        f.write_str(if self.forgetful { ", counters expire" } else { "" })?;
        f.write_str(if self.any_expiry { ", any expiry" } else { "" })
    }
}

/// What is checked: the algorithm and how much may happen to it.
#[derive(Debug, Clone)]
pub(crate) struct Fence {
    pub(crate) omission: Option<Omission>,
    pub(crate) bounds: Bounds,
}

/// How many numbers the clock is ahead of all counters at each tick: more than are ever given
/// within one.
const NUMBERS_A_TICK: u8 = 16;

/// The smallest number of nodes that is a quorum.
pub(super) const QUORUM: usize = NODES / 2 + 1;

impl Fence {
    pub(super) fn omits(&self, rule: Omission) -> bool {
        self.omission == Some(rule)
    }

    /// The resources that a client wants, one bit each.
    pub(super) fn wants(&self, client: usize) -> u8 {
        self.bounds.sets.get(client).copied().unwrap_or(0)
    }

    /// Whether two clients want the same resource.
    pub(super) fn share(&self, one: usize, other: usize) -> bool {
        self.wants(one) & self.wants(other) != 0
    }

    /// What a client may propose as the least number at this time.
    pub(super) fn floors(&self, now: u8) -> Vec<u8> {
        if self.bounds.ticks == 0 {
            return self.bounds.floors.to_vec();
        }
        vec![if self.omits(Omission::ClockFloor) { 0 } else { now * NUMBERS_A_TICK }]
    }

    /// The last number of the range that begins with this one.
    pub(super) fn last(&self, first: u8) -> u8 {
        first + self.bounds.range - 1
    }
}
