//! How much time a clock has missed (rule 2).
//!
//! The clocks of a virtual machine stand still while it is frozen. Its wall clock is set right
//! afterwards, and then leads the other clock by more than before. So each rise of the lead counts as
//! missed time. A fall takes nothing off: a wall clock that is set back by 20 s must not hide a freeze of
//! 15 s, whichever comes first.

use std::time::Duration;

use super::reading::{Moment, Reading};
use crate::sync::{
    Mutex,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

/// The two clocks are not read at the same moment, so leads differ by a little from reading to reading.
/// A change counts once it has grown to more than this, which is little beside the 2 ms that a deadline
/// leaves for imprecision.
const GRAIN: u64 = 200_000;

/// What the two clocks show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) now: Moment,
    /// How far the wall clock is ahead of `now`, in nanoseconds, counted from when the process began to
    /// look; negative when it was set back.
    pub(crate) wall_ahead: i64,
}

/// Counts what one clock has missed since the process began to look.
#[derive(Debug)]
pub(crate) struct Missed {
    /// The lead of the last reading that has changed it: the present lead, give or take a grain.
    lead: AtomicI64,
    /// In nanoseconds. Never shrinks.
    total: AtomicU64,
    counting: Mutex<()>,
}

impl Missed {
    pub(crate) const fn new() -> Self {
        Self { lead: AtomicI64::new(0), total: AtomicU64::new(0), counting: Mutex::new(()) }
    }

    /// Reads the clocks, and counts what they have missed since the last reading. Locks nothing unless
    /// the lead has changed.
    pub(crate) fn read(&self, show: impl Fn() -> Shown) -> Reading {
        let total = self.total.load(Ordering::Acquire);
        let shown = show();
        let lead = self.lead.load(Ordering::Acquire);
        // The moment and the count belong together only if nothing was counted in between.
        let is_unchanged = self.total.load(Ordering::Acquire) == total;
        if is_unchanged && shown.wall_ahead.abs_diff(lead) <= GRAIN {
            return Reading { now: shown.now, missed: Duration::from_nanos(total) };
        }
        self.count(show)
    }

    /// What [`read`](Self::read) would return for these clocks, but exact to less than a grain. Counts
    /// nothing.
    #[cfg(redlock_sim)]
    pub(crate) fn peek(&self, shown: Shown) -> Reading {
        let rise = shown.wall_ahead.saturating_sub(self.lead.load(Ordering::Acquire));
        let rise = u64::try_from(rise).unwrap_or(0);
        let total = self.total.load(Ordering::Acquire).saturating_add(rise);
        Reading { now: shown.now, missed: Duration::from_nanos(total) }
    }

    #[cold]
    fn count(&self, show: impl Fn() -> Shown) -> Reading {
        let _counting = self.counting.lock();
        // A process that is stopped after it has read one clock and before it reads the other sees a
        // rise where there is none. The second reading does not.
        let Shown { now, wall_ahead } = show();
        let lead = self.lead.load(Ordering::Acquire);
        if wall_ahead.abs_diff(lead) > GRAIN {
            let rise = if wall_ahead > lead { wall_ahead.abs_diff(lead) } else { 0 };
            let total = self.total.load(Ordering::Acquire).saturating_add(rise);
            // In this order: a reading that sees the new lead sees the new total.
            self.total.store(total, Ordering::Release);
            self.lead.store(wall_ahead, Ordering::Release);
        }
        Reading { now, missed: Duration::from_nanos(self.total.load(Ordering::Acquire)) }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn shown(wall_ahead: i64) -> Shown {
        Shown { now: Moment::ORIGIN, wall_ahead }
    }

    /// What was missed by each of these leads.
    fn missed(leads: &[i64]) -> Vec<i64> {
        let clock = Missed::new();
        let missed = |lead: &i64| clock.read(|| shown(*lead)).missed.as_nanos();
        leads.iter().map(|lead| missed(lead).try_into().unwrap()).collect()
    }

    #[test]
    fn a_rise_of_the_lead_counts_and_a_fall_takes_nothing_off() {
        let leads = [0, 15, -5, -5, 10, 9].map(|lead| lead * SECOND);
        assert_eq!(missed(&leads), [0, 15, 15, 15, 30, 30].map(|missed| missed * SECOND));
    }

    #[test]
    fn what_is_too_little_to_count_adds_up() {
        let leads: Vec<i64> = (0..=100).map(|rise| rise * SECOND / 100_000).collect();
        let missed = missed(&leads).into_iter().zip(leads);
        missed.for_each(|(missed, lead)| assert!(u64::try_from(lead - missed).unwrap() <= GRAIN));
    }

    #[test]
    fn readings_that_differ_by_a_little_do_not_add_up() {
        let leads: Vec<i64> = (0..10_000).map(|number| number * 7919 % 97 * 2000).collect();
        assert_eq!(missed(&leads).last(), Some(&0));
    }

    /// The process is stopped between its readings of the two clocks.
    #[test]
    fn a_rise_that_a_second_reading_does_not_see_counts_for_nothing() {
        let clock = Missed::new();
        let stops = Cell::new(true);
        let read = clock.read(|| shown(if stops.replace(false) { SECOND } else { 0 }));
        assert_eq!(read.missed, Duration::ZERO);
        assert_eq!(clock.read(|| shown(0)).missed, Duration::ZERO);
    }

    /// Another thread counts a freeze after this one has read the clocks.
    #[test]
    fn a_moment_from_before_a_freeze_does_not_go_with_a_count_from_after_it() {
        let clock = Missed::new();
        let (before, after) = (Moment::ORIGIN, Moment::ORIGIN + Duration::from_secs(1));
        let reads = Cell::new(0);
        let read = clock.read(|| {
            reads.set(reads.get() + 1);
            let now = if reads.get() == 1 { before } else { after };
            if reads.get() == 1 {
                clock.read(|| shown(SECOND));
                clock.read(|| shown(0));
            }
            Shown { now, wall_ahead: 0 }
        });
        assert_eq!((read.now, read.missed), (after, Duration::from_secs(1)));
    }

    #[test]
    fn the_ends_of_the_range_do_not_overflow() {
        let leads = [i64::MAX, i64::MIN, i64::MAX, 0, i64::MAX];
        let clock = Missed::new();
        let last = leads.iter().map(|lead| clock.read(|| shown(*lead)).missed).last();
        assert_eq!(last, Some(Duration::from_nanos(u64::MAX)));
    }

    proptest! {
        /// Whatever the wall clock does, all rises count.
        #[test]
        fn what_was_missed_is_the_sum_of_all_rises(
            leads in prop::collection::vec(-50_i64..50, 1..200),
        ) {
            let leads: Vec<i64> = leads.into_iter().map(|lead| lead * SECOND).collect();
            let mut before = 0;
            let mut rises = 0;
            for (lead, missed) in leads.iter().zip(missed(&leads)) {
                rises += (lead - before).max(0);
                before = *lead;
                prop_assert_eq!(missed, rises);
            }
        }
    }
}
