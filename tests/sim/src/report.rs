//! The results of one schedule, and of many.

use std::fmt;

use super::plan::Fault;

/// The result of one schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// A hash of everything that happened, with order and times.
    pub hash: u64,
    /// The promises that were not kept.
    pub violations: Vec<String>,
    /// The promises of order and time that were not kept.
    pub delays: Vec<String>,
    /// Everything that happened, in lines for a reader, if it was asked for.
    pub timeline: Vec<String>,
    /// Counts.
    pub stats: Stats,
}

impl Report {
    /// Whether a promise was not kept.
    pub fn is_broken(&self) -> bool {
        !self.violations.is_empty() || !self.delays.is_empty()
    }

    /// Every promise that was not kept.
    pub fn broken(&self) -> impl Iterator<Item = &str> {
        self.violations.iter().chain(&self.delays).map(String::as_str)
    }
}

/// Counts of one schedule or many.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// How many schedules were run.
    pub schedules: u64,
    /// Operations of clients: locks, extensions, releases and others.
    pub operations: u64,
    /// Locks that were given.
    pub locks: u64,
    /// Locks that were lost.
    pub losses: u64,
    /// Commands that nodes have run.
    pub commands: u64,
    /// The simulated time, in milliseconds.
    pub time: u64,
    /// By kind.
    pub faults: [u64; Fault::NAMES.len()],
    /// Clients and requests out of the ordinary, by kind.
    pub oddities: [u64; Oddity::NAMES.len()],
}

/// A client or a request out of the ordinary.
#[derive(Debug, Clone, Copy)]
pub(super) enum Oddity {
    Twin,
    Joined,
    Replaced,
    Hasty,
    Wary,
    MoreDrift,
    Blocked,
    CutShort,
    Continued,
    ContinuedLost,
    Set,
    Nested,
    Permit,
    Reader,
    HandOff,
    Adopted,
    Led,
    Inspected,
    TakenAway,
    Tick,
    TickDone,
}

impl Oddity {
    pub(super) const NAMES: [&str; 21] = [
        "clients with one server under two names",
        "clients of joined pools",
        "pools replaced",
        "clients with shorter timeouts",
        "clients with more drift",
        "requests with more drift",
        "blocked runtimes",
        "writes cut short",
        "bodies that go on after a loss",
        "of them after one",
        "requests for sets",
        "nested bodies",
        "permits",
        "readers",
        "hand-overs",
        "of them adopted",
        "terms of leaders",
        "looks of operators",
        "locks taken away",
        "replicas at ticks of jobs",
        "of them that did the job",
    ];
}

impl Stats {
    /// Adds the counts of other schedules.
    pub fn add(&mut self, other: &Self) {
        self.schedules += other.schedules;
        self.operations += other.operations;
        self.locks += other.locks;
        self.losses += other.losses;
        self.commands += other.commands;
        self.time += other.time;
        for (sum, count) in self.faults.iter_mut().zip(other.faults) {
            *sum += count;
        }
        for (sum, count) in self.oddities.iter_mut().zip(other.oddities) {
            *sum += count;
        }
    }

    /// The kinds of faults and oddities that have not happened.
    pub(super) fn never(&self) -> impl Iterator<Item = &'static str> {
        let faults = Fault::NAMES.iter().zip(&self.faults);
        let oddities = Oddity::NAMES.iter().zip(&self.oddities);
        faults.chain(oddities).filter(|(_, count)| **count == 0).map(|(name, _)| *name)
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { schedules, operations, locks, losses, commands, time, faults, oddities } = self;
        let hours = time / 3_600_000;
        writeln!(f, "schedules    {schedules}")?;
        writeln!(f, "operations   {operations}")?;
        writeln!(f, "locks        {locks} given, {losses} lost")?;
        writeln!(f, "commands     {commands} run by nodes, in {hours} hours of simulated time")?;
        write!(f, "faults       {}", faults.iter().sum::<u64>())?;
        for (index, (name, count)) in Fault::NAMES.iter().zip(faults).enumerate() {
            f.write_str(if index == 0 { ": " } else { ", " })?;
            write!(f, "{count} {name}")?;
        }
        for (index, (name, count)) in Oddity::NAMES.iter().zip(oddities).enumerate() {
            f.write_str(if index == 0 { "\nand          " } else { ", " })?;
            write!(f, "{count} {name}")?;
        }
        Ok(())
    }
}
