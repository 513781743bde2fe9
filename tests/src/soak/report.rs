//! The result of a run.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::{fault::Fault, ledger::Ledger, samples::Course};
use crate::history::Overlap;

/// How many overlaps are told one by one.
const TOLD: usize = 20;

/// The result of a run, as it is printed.
#[derive(Debug)]
pub(super) struct Report {
    seed: u64,
    lasted: Duration,
    pub(super) faults: BTreeMap<&'static str, usize>,
    processes: usize,
    holds: usize,
    lost: usize,
    orphaned: usize,
    refused: u64,
    failed: u64,
    cancelled: u64,
    per_minute: Vec<usize>,
    /// The longest time in which no worker got any lock, and in which no worker got one of the
    /// locks.
    gaps: (Duration, Duration),
    overlaps: Vec<Overlap>,
    pub(super) courses: Vec<Course>,
}

impl Report {
    /// Judges what was written from `start` to `end`.
    pub(super) fn of(ledger: &Ledger, seed: u64, start: Duration, end: Duration) -> Self {
        let tally = ledger.tally();
        Self {
            seed,
            lasted: end - start,
            faults: BTreeMap::new(),
            processes: ledger.processes(),
            holds: ledger.holds(),
            lost: ledger.lost(),
            orphaned: ledger.orphaned(),
            refused: tally.refused,
            failed: tally.failed,
            cancelled: tally.cancelled,
            per_minute: ledger.per_minute(start, end),
            gaps: ledger.longest_gaps(start, end),
            overlaps: ledger.overlaps(),
            courses: Vec::new(),
        }
    }

    /// Everything that was promised was kept.
    pub(super) fn is_good(&self) -> bool {
        self.overlaps.is_empty() && self.holds > 0 && self.courses.iter().all(Course::is_flat)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, lasted, faults, holds, lost, orphaned, .. } = self;
        writeln!(f, "seed         {seed}, {} s", lasted.as_secs())?;
        writeln!(f, "processes    {}", self.processes)?;
        write!(f, "faults       {}", faults.values().sum::<usize>())?;
        for (index, name) in Fault::NAMES.iter().enumerate() {
            let count = faults.get(name).copied().unwrap_or_default();
            write!(f, "{}{count} {name}", if index == 0 { ": " } else { ", " })?;
        }
        writeln!(f)?;
        writeln!(f, "holds        {holds}: {lost} lost, {orphaned} of holders that were killed")?;
        writeln!(
            f,
            "no lock      {} held elsewhere, {} without a quorum, {} cancelled",
            self.refused, self.failed, self.cancelled
        )?;
        let mut paces = self.per_minute.clone();
        paces.sort_unstable();
        if let (Some(least), Some(most)) = (paces.first(), paces.last()) {
            let median = paces[paces.len() / 2];
            writeln!(f, "a minute     {median} holds; from {least} to {most}")?;
        }
        let (any, one) = self.gaps;
        writeln!(
            f,
            "longest gap  {any:.1?} without any lock given, {one:.1?} without one of them"
        )?;
        for course in &self.courses {
            let Course { name, memory, most_memory, files, most_files } = course;
            let [memory, files] = [memory, files]
                .map(|quarters| quarters.map(|median| median.to_string()).join(", "));
            let verdict = if course.is_flat() { "flat" } else { "GROWS" };
            writeln!(
                f,
                "worker {name}   {verdict}: KiB {memory} by quarters, at most {most_memory}"
            )?;
            writeln!(f, "             descriptors {files}, at most {most_files}")?;
        }
        if self.courses.is_empty() {
            writeln!(f, "memory       the run was too short to tell")?;
        }
        write!(f, "overlaps     {}", self.overlaps.len())?;
        for overlap in self.overlaps.iter().take(TOLD) {
            write!(f, "\n  {overlap}")?;
        }
        Ok(())
    }
}
