//! All holds of all workers, read from what they wrote, and judged.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::Path,
    time::Duration,
};

use super::{
    KEYS,
    journal::{Record, Tally},
    key,
};
use crate::history::{self, Hold, Overlap};

/// One hold, small: there are many.
#[derive(Debug, Clone, Copy)]
struct Span {
    process: u32,
    hold: u64,
    key: usize,
    from: Duration,
    promised: Duration,
    released: Duration,
    lost: bool,
}

impl Span {
    /// The end: the lock was released, or its promise ran out.
    fn until(&self) -> Duration {
        self.promised.min(self.released)
    }
}

/// What has been read so far.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    spans: Vec<Span>,
    processes: Vec<Process>,
}

/// How far one worker's file has been read.
#[derive(Debug)]
struct Process {
    name: String,
    read: u64,
    /// Of its hold, the place in `spans`.
    open: BTreeMap<u64, usize>,
    tally: Tally,
    ended: bool,
    holds: usize,
}

impl Ledger {
    /// Reads what the workers have written since the last time.
    pub(super) fn read(&mut self, directory: &Path) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "holds") {
                let name = path.file_stem().unwrap().to_string_lossy().into_owned();
                let process = self.process(&name);
                let mut file = File::open(&path).unwrap();
                file.seek(SeekFrom::Start(self.processes[process].read)).unwrap();
                let mut text = Vec::new();
                file.read_to_end(&mut text).unwrap();
                self.take(process, &text);
            }
        }
    }

    fn process(&mut self, name: &str) -> usize {
        let known = self.processes.iter().position(|process| process.name == name);
        known.unwrap_or_else(|| {
            self.processes.push(Process {
                name: name.to_owned(),
                read: 0,
                open: BTreeMap::new(),
                tally: Tally::default(),
                ended: false,
                holds: 0,
            });
            self.processes.len() - 1
        })
    }

    /// Takes the whole lines of what comes next in the file of a process. What is behind them is
    /// still being written, or never will be: then its writer did not go on from there.
    fn take(&mut self, process: usize, text: &[u8]) {
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        self.processes[process].read += u64::try_from(whole).unwrap();
        for line in std::str::from_utf8(&text[..whole]).unwrap().lines() {
            self.enter(process, line.parse().unwrap());
        }
    }

    fn enter(&mut self, index: usize, record: Record) {
        let process = &mut self.processes[index];
        let spans = &mut self.spans;
        let place = |hold| *process.open.get(&hold).expect("a hold that was taken");
        match record {
            Record::Taken { hold, key, from, promised } => {
                process.open.insert(hold, spans.len());
                process.holds += 1;
                let process = u32::try_from(index).unwrap();
                let released = Duration::MAX;
                spans.push(Span { process, hold, key, from, promised, released, lost: false });
            }
            Record::Renewed { hold, promised } => spans[place(hold)].promised = promised,
            Record::Lost { hold, .. } => spans[place(hold)].lost = true,
            Record::Released { hold, at } => {
                spans[place(hold)].released = at;
                process.open.remove(&hold);
            }
            Record::Tally(tally) => process.tally = tally,
            Record::End => process.ended = true,
        }
    }

    pub(super) fn holds(&self) -> usize {
        self.spans.len()
    }

    /// How many holds this worker has had so far.
    pub(super) fn holds_of(&self, name: &str) -> usize {
        let process = self.processes.iter().find(|process| process.name == name);
        process.map_or(0, |process| process.holds)
    }

    /// Whether this worker has come to its end.
    pub(super) fn has_ended(&self, name: &str) -> bool {
        self.processes.iter().any(|process| process.name == name && process.ended)
    }

    pub(super) fn processes(&self) -> usize {
        self.processes.len()
    }

    pub(super) fn lost(&self) -> usize {
        self.spans.iter().filter(|span| span.lost).count()
    }

    /// Holds without an end: their holder was killed.
    pub(super) fn orphaned(&self) -> usize {
        self.spans.iter().filter(|span| span.released == Duration::MAX).count()
    }

    pub(super) fn tally(&self) -> Tally {
        let mut sum = Tally::default();
        self.processes.iter().for_each(|process| sum.add(process.tally));
        sum
    }

    /// How many locks were given in each whole minute from `start` to `end`.
    pub(super) fn per_minute(&self, start: Duration, end: Duration) -> Vec<usize> {
        let minute = |time: Duration| time.saturating_sub(start).as_secs() / 60;
        let mut counts = vec![0; usize::try_from(minute(end)).unwrap()];
        for span in self.spans.iter().filter(|span| span.from >= start) {
            if let Some(count) = counts.get_mut(usize::try_from(minute(span.from)).unwrap()) {
                *count += 1;
            }
        }
        counts
    }

    /// The longest time from `start` to `end` in which no lock was given, of any key, and of one.
    pub(super) fn longest_gaps(&self, start: Duration, end: Duration) -> (Duration, Duration) {
        let gap = |wanted: &dyn Fn(&Span) -> bool| {
            let given = self.spans.iter().filter(|span| wanted(span)).map(|span| span.from);
            let mut times: Vec<_> = given.filter(|from| (start..end).contains(from)).collect();
            times.extend([start, end]);
            times.sort_unstable();
            times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
        };
        let any = gap(&|_| true);
        let one = (0..KEYS).map(|key| gap(&|span| span.key == key)).max().unwrap_or_default();
        (any, one)
    }

    /// Every hold that began while another hold of the same key lasted.
    pub(super) fn overlaps(&self) -> Vec<Overlap> {
        // Key by key, so that the names are not all in memory at once.
        let of_key = |number: usize| {
            let spans = self.spans.iter().filter(|span| span.key == number);
            let holds: Vec<Hold> = spans.map(|span| self.hold(span)).collect();
            history::overlaps(&holds)
        };
        (0..KEYS).flat_map(of_key).collect()
    }

    fn hold(&self, span: &Span) -> Hold {
        let process = &self.processes[usize::try_from(span.process).unwrap()].name;
        let owner = format!("{process}#{}", span.hold);
        Hold { key: key(span.key), owner, from: span.from, until: span.until() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(journals: &[(&str, &str)]) -> Ledger {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in journals {
            fs::write(directory.path().join(format!("{name}.holds")), text).unwrap();
        }
        let mut ledger = Ledger::default();
        ledger.read(directory.path());
        ledger
    }

    fn overlaps(journals: &[(&str, &str)]) -> Vec<String> {
        ledger(journals).overlaps().iter().map(|o| format!("{} {}", o.first, o.second)).collect()
    }

    #[test]
    fn a_planted_overlap_is_found() {
        let found = overlaps(&[
            ("0.0", "taken 0 3 100 900\nreleased 0 500\n"),
            ("1.0", "taken 0 3 499 1000\nreleased 0 600\n"),
        ]);
        assert_eq!(found, ["soak-3 0.0#0 100 500 soak-3 1.0#0 499 600"]);
    }

    #[test]
    fn a_release_makes_room() {
        let next = ("1.0", "taken 0 3 500 1000\n");
        assert_eq!(overlaps(&[("0.0", "taken 0 3 100 900\nreleased 0 500\n"), next]), [""; 0]);
        assert_eq!(overlaps(&[("0.0", "taken 0 4 100 900\n"), next]), [""; 0], "another key");
    }

    #[test]
    fn what_a_killed_holder_was_promised_stands() {
        let next = ("1.0", "taken 0 3 850 1000\n");
        assert_eq!(overlaps(&[("0.0", "taken 0 3 100 900\n"), next]).len(), 1);
        assert_eq!(overlaps(&[("0.0", "taken 0 3 100 800\n"), next]).len(), 0);
        assert_eq!(overlaps(&[("0.0", "taken 0 3 100 800\nrenewed 0 900\n"), next]).len(), 1);
    }

    #[test]
    fn what_a_loser_was_promised_stands_until_it_lets_go() {
        let lost = "taken 0 3 100 900\nlost 0 300\n";
        let next = ("1.0", "taken 0 3 400 1000\n");
        assert_eq!(overlaps(&[("0.0", lost), next]).len(), 1);
        let let_go = format!("{lost}released 0 350\n");
        assert_eq!(overlaps(&[("0.0", &let_go), next]).len(), 0);
    }

    #[test]
    fn a_late_release_does_not_make_a_promise_longer() {
        let late = ("0.0", "taken 0 3 100 900\nreleased 0 2000\n");
        assert_eq!(overlaps(&[late, ("1.0", "taken 0 3 901 1000\n")]), [""; 0]);
    }

    #[test]
    fn files_are_read_as_they_grow_and_a_torn_line_waits_for_its_rest() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.0.holds");
        let mut ledger = Ledger::default();
        fs::write(&path, "taken 0 3 100 900\ntaken 1 2 1").unwrap();
        ledger.read(directory.path());
        assert_eq!(ledger.holds(), 1);
        fs::write(&path, "taken 0 3 100 900\ntaken 1 2 100 900\ntally 1 2 3\nend\n").unwrap();
        ledger.read(directory.path());
        assert_eq!((ledger.holds(), ledger.holds_of("0.0"), ledger.orphaned()), (2, 2, 2));
        assert_eq!(ledger.tally(), Tally { refused: 1, failed: 2, cancelled: 3 });
        assert!(ledger.has_ended("0.0") && !ledger.has_ended("0.1"));
    }

    #[test]
    fn minutes_and_gaps_are_counted() {
        let at = |second: u64| Duration::from_secs(second);
        let line = |hold: u64, key: u64, second: u64| {
            let from = at(second).as_nanos();
            format!("taken {hold} {key} {from} {from}\n")
        };
        let text = line(0, 0, 10) + &line(1, 0, 50) + &line(2, 1, 70);
        let ledger = ledger(&[("0.0", &text)]);
        assert_eq!(ledger.per_minute(at(0), at(120)), [2, 1]);
        // Keys that no worker ever got were starved from start to end.
        assert_eq!(ledger.longest_gaps(at(0), at(120)), (at(50), at(120)));
    }
}
