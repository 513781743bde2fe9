//! One run: faults come and go while the workers contend, and everything is judged at the end.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use super::{
    WORKERS,
    command::Asked,
    fault::Fault,
    ledger::Ledger,
    report::Report,
    samples::{Sample, Samples},
    stage::{Seen, Stage, words_file},
    worker::stop_file,
};
use crate::{LIMIT, chance::Chance, history};

/// How often the workers are looked at.
const LOOK: Duration = Duration::from_millis(500);

const MINUTE: Duration = Duration::from_secs(60);

/// A run that goes on.
#[derive(Debug)]
pub(super) struct Run<'a> {
    asked: &'a Asked,
    directory: &'a Path,
    begun: Instant,
    stage: Arc<Stage>,
    ledger: Ledger,
    samples: Samples,
    bar: ProgressBar,
}

impl<'a> Run<'a> {
    pub(super) fn start(asked: &'a Asked, directory: &'a Path) -> Self {
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} s  {msg}");
        let bar = ProgressBar::new(asked.lasts.as_secs())
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self {
            asked,
            directory,
            begun: Instant::now(),
            stage: Arc::new(Stage::set_up(directory, asked.seed, &asked.restarts)),
            ledger: Ledger::default(),
            samples: Samples::default(),
            bar,
        }
    }

    pub(super) fn finish(mut self) -> Report {
        self.wait_until_all_hold("at first");
        let start = history::now();
        let faults = self.disturb();
        let end = history::now();
        // Once no fault is left, every worker gets a turn.
        self.wait_until_all_hold("after the faults");
        fs::write(stop_file(self.directory), "").unwrap();
        let ended = |run: &Self, worker: &Seen| run.ledger.has_ended(&worker.name);
        self.wait_until("every worker has ended", ended);
        self.bar.finish_and_clear();
        let mut report = Report::of(&self.ledger, self.asked.seed, start, end);
        report.faults = faults;
        report.courses = self.samples.courses();
        report
    }

    /// Until the time is up and all faults are over. Answers how many there were of each kind.
    fn disturb(&mut self) -> BTreeMap<&'static str, usize> {
        let mut chance = Chance::new(self.asked.seed);
        let mut log = File::create(self.directory.join("faults")).unwrap();
        let mut counts = BTreeMap::new();
        let mut in_flight: Vec<JoinHandle<()>> = Vec::new();
        let start = Instant::now();
        let (mut next_look, mut next_line) = (start, start + MINUTE);
        while start.elapsed() < self.asked.lasts {
            let fault = Fault::draw(&mut chance);
            // The target of the fault may be in trouble already.
            if self.stage.take(&fault) {
                writeln!(log, "{} {fault}", history::now().as_nanos()).unwrap();
                *counts.entry(fault.name()).or_default() += 1;
                let stage = Arc::clone(&self.stage);
                in_flight.push(thread::spawn(move || stage.suffer(&fault)));
            }
            let next_fault = Instant::now() + chance.millis(50, 1200);
            while Instant::now() < next_fault {
                if Instant::now() >= next_look {
                    next_look += LOOK;
                    self.look();
                    let holds = self.ledger.holds();
                    let faults: usize = counts.values().sum();
                    self.bar.set_position(start.elapsed().as_secs());
                    self.bar.set_message(format!("{holds} holds, {faults} faults"));
                    if Instant::now() >= next_line {
                        next_line += MINUTE;
                        let minutes = start.elapsed().as_secs() / 60;
                        let line = format!("minute {minutes}: {holds} holds, {faults} faults");
                        self.bar.suspend(|| println!("{line}"));
                    }
                }
                let next = next_look.min(next_fault);
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
            for ended in in_flight.extract_if(.., |fault| fault.is_finished()) {
                ended.join().expect("a fault could not be made or made good again");
            }
        }
        for fault in in_flight {
            fault.join().expect("a fault could not be made or made good again");
        }
        counts
    }

    /// Reads what the workers wrote, and samples what they use.
    fn look(&mut self) {
        self.ledger.read(self.directory);
        for worker in self.stage.workers() {
            if let Some(sample) = Sample::of(worker.process, self.begun.elapsed()) {
                self.samples.add(&worker.name, sample);
            } else if self.stage.workers().contains(&worker) && !self.ledger.has_ended(&worker.name)
            {
                // No fault has killed it.
                let words = fs::read_to_string(words_file(self.directory)).unwrap_or_default();
                panic!("worker {} has ended by itself; they said:\n{words}", worker.name);
            }
        }
    }

    fn wait_until_all_hold(&mut self, when: &str) {
        self.ledger.read(self.directory);
        let holds = |ledger: &Ledger, worker: &Seen| ledger.holds_of(&worker.name);
        let workers = self.stage.workers();
        let before: BTreeMap<_, _> =
            workers.iter().map(|it| (it.name.clone(), holds(&self.ledger, it))).collect();
        self.wait_until(&format!("every worker held a lock {when}"), |run, worker| {
            let before = before.get(&worker.name).copied().unwrap_or_default();
            holds(&run.ledger, worker) > before
        });
    }

    /// Until this is so of every worker.
    fn wait_until(&mut self, what: &str, mut condition: impl FnMut(&Self, &Seen) -> bool) {
        let start = Instant::now();
        loop {
            self.look();
            let workers = self.stage.workers();
            if workers.iter().filter(|worker| condition(self, worker)).count() == WORKERS {
                return;
            }
            assert!(start.elapsed() < LIMIT, "waited {LIMIT:?} in vain until {what}");
            thread::sleep(LOOK / 5);
        }
    }
}
