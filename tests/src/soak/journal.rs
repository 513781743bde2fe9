//! The journal of a worker: a file that outlives it, written line by line.

use std::{
    fmt,
    fs::File,
    io::Write,
    path::Path,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redlock_core::LockHandle;

use crate::history::now;

/// A promise that grew by less was not renewed: clocks are not read more exactly than this.
const RENEWED: Duration = Duration::from_millis(1);

/// One line. Times are those of [`now`], holds are numbered by their process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record {
    /// A lock was given, and promised until then.
    Taken { hold: u64, key: usize, from: Duration, promised: Duration },
    /// The promise was renewed.
    Renewed { hold: u64, promised: Duration },
    /// The holder is about to release.
    Released { hold: u64, at: Duration },
    /// The holder has found that it is no longer valid.
    Lost { hold: u64, at: Duration },
    /// Since the start of the process.
    Tally(Tally),
    /// The process ends as it should.
    End,
}

/// The outcome of an attempt that gave no lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    /// Another client held it.
    pub(super) refused: u64,
    /// There was no quorum.
    pub(super) failed: u64,
    /// The caller dropped it on the way.
    pub(super) cancelled: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        self.refused += other.refused;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken { hold, key, from, promised } => {
                write!(f, "taken {hold} {key} {} {}", from.as_nanos(), promised.as_nanos())
            }
            Self::Renewed { hold, promised } => write!(f, "renewed {hold} {}", promised.as_nanos()),
            Self::Released { hold, at } => write!(f, "released {hold} {}", at.as_nanos()),
            Self::Lost { hold, at } => write!(f, "lost {hold} {}", at.as_nanos()),
            Self::Tally(Tally { refused, failed, cancelled }) => {
                write!(f, "tally {refused} {failed} {cancelled}")
            }
            Self::End => f.write_str("end"),
        }
    }
}

impl FromStr for Record {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong = || format!("not a line of a worker: {line:?}");
        let mut words = line.split(' ');
        let kind = words.next().unwrap_or_default();
        let numbers: Result<Vec<u64>, _> = words.map(str::parse).collect();
        let time = Duration::from_nanos;
        Ok(match (kind, &numbers.map_err(|_| wrong())?[..]) {
            ("taken", &[hold, key, from, promised]) => {
                let key = usize::try_from(key).map_err(|_| wrong())?;
                Self::Taken { hold, key, from: time(from), promised: time(promised) }
            }
            ("renewed", &[hold, promised]) => Self::Renewed { hold, promised: time(promised) },
            ("released", &[hold, at]) => Self::Released { hold, at: time(at) },
            ("lost", &[hold, at]) => Self::Lost { hold, at: time(at) },
            ("tally", &[refused, failed, cancelled]) => {
                Self::Tally(Tally { refused, failed, cancelled })
            }
            ("end", []) => Self::End,
            _ => return Err(wrong()),
        })
    }
}

/// The file of one worker.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    holds: AtomicU64,
}

impl Journal {
    pub(super) fn open(path: &Path) -> Arc<Self> {
        let file = File::options().create(true).append(true).open(path).unwrap();
        Arc::new(Self { file, holds: AtomicU64::new(0) })
    }

    /// In one write, which is the kernel's once it returns: a kill takes nothing back.
    pub(super) fn write(&self, record: Record) {
        (&self.file).write_all(format!("{record}\n").as_bytes()).unwrap();
    }

    /// A lock has just been given.
    pub(super) fn begin(self: &Arc<Self>, key: usize, lock: LockHandle) -> Entry {
        let hold = self.holds.fetch_add(1, Ordering::Relaxed);
        let from = now();
        let promised = from + lock.validity();
        self.write(Record::Taken { hold, key, from, promised });
        Entry { journal: Arc::clone(self), hold, lock, promised, lost: false }
    }
}

/// A hold that is being written down. Drop it before its lock.
#[derive(Debug)]
pub(super) struct Entry {
    journal: Arc<Journal>,
    hold: u64,
    lock: LockHandle,
    promised: Duration,
    lost: bool,
}

impl Entry {
    /// Whether the lock is still valid; what that promises is written down.
    pub(super) fn check(&mut self) -> bool {
        let before = now();
        let validity = self.lock.validity();
        if validity.is_zero() {
            if !std::mem::replace(&mut self.lost, true) {
                self.journal.write(Record::Lost { hold: self.hold, at: before });
            }
        } else if before + validity > self.promised + RENEWED {
            self.promised = before + validity;
            self.journal.write(Record::Renewed { hold: self.hold, promised: self.promised });
        }
        !self.lost
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // A body that is dropped because its lock is lost has not found that out itself.
        self.check();
        // This includes a lost lock: the release of its remains may let other clients in.
        self.journal.write(Record::Released { hold: self.hold, at: now() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_is_written() {
        let (from, promised) = (Duration::from_nanos(5), Duration::from_nanos(7));
        for record in [
            Record::Taken { hold: 1, key: 2, from, promised },
            Record::Renewed { hold: 1, promised },
            Record::Released { hold: 1, at: from },
            Record::Lost { hold: 1, at: from },
            Record::Tally(Tally { refused: 1, failed: 2, cancelled: 3 }),
            Record::End,
        ] {
            assert_eq!(record.to_string().parse(), Ok(record));
        }
        assert!("taken 1 2 3".parse::<Record>().is_err());
        assert!("lost 1 x".parse::<Record>().is_err());
    }
}
