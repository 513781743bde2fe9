//! The command line of the simulation.

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use redlock_core::simulation::{Bug, plant};

use super::{Report, run as run_seed};

const USAGE: &str = "\
Usage: --seeds N [--from M] [--bug NAME]   runs the seeds M to M + N
       --seed N [--bug NAME]               replays one seed and prints its timeline
       --mutants [--seeds N] [--but A,B]   plants each bug and looks for it in at most N seeds";

/// What the command line asks for.
struct Asked {
    seed: Option<u64>,
    from: u64,
    seeds: u64,
    bug: Option<Bug>,
    mutants: bool,
    /// Bugs that are another suite's to find.
    but: Vec<String>,
}

fn parse(arguments: &[String]) -> Result<Asked, String> {
    let mut asked =
        Asked { seed: None, from: 0, seeds: 1000, bug: None, mutants: false, but: Vec::new() };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: &String| {
            text.parse::<u64>().map_err(|_| format!("{text} is not a number of a seed"))
        };
        match word.as_str() {
            "--seed" => asked.seed = Some(number(value()?)?),
            "--seeds" => asked.seeds = number(value()?)?,
            "--from" => asked.from = number(value()?)?,
            "--mutants" => asked.mutants = true,
            "--but" => asked.but = value()?.split(',').map(str::to_owned).collect(),
            "--bug" => {
                let name = value()?;
                asked.bug =
                    Some(Bug::named(name).ok_or_else(|| {
                        format!("there is no bug {name}; there are {:?}", Bug::ALL)
                    })?);
            }
            other => return Err(format!("unknown argument {other}")),
        }
    }
    Ok(asked)
}

/// Does what the arguments ask for. Fails when something must not have happened.
pub fn run(arguments: &[String]) -> ExitCode {
    let asked = match parse(arguments) {
        Ok(asked) => asked,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    plant(asked.bug);
    let well = match asked {
        Asked { mutants: true, seeds, but, .. } => mutants(seeds, &but),
        Asked { seed: Some(seed), .. } => replay(seed),
        Asked { from, seeds, .. } => many(from, seeds),
    };
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(seed: u64) -> bool {
    let report = run_seed(seed, true);
    print!("{}", report.timeline);
    println!("\nseed {seed}, trace {:016x}", report.hash);
    report.violations.iter().for_each(|violation| println!("violation: {violation}"));
    report.violations.is_empty()
}

/// What many schedules came to.
#[derive(Default)]
struct Total {
    schedules: u64,
    operations: u64,
    holds: u64,
    faults: BTreeMap<&'static str, u64>,
    broken: Vec<Report>,
}

impl Total {
    fn add(&mut self, report: Report) {
        self.schedules += 1;
        self.operations += report.operations;
        self.holds += report.holds;
        for (kind, count) in &report.faults {
            *self.faults.entry(kind).or_insert(0) += count;
        }
        if !report.violations.is_empty() {
            self.broken.push(report);
        }
    }
}

/// One seed in so many is run twice, to see that it replays.
const REPLAYED: u64 = 1000;

/// Runs seeds on every core, until `enough`.
fn sweep(from: u64, seeds: u64, bar: &ProgressBar, enough: fn(&Total) -> bool) -> Total {
    let next = AtomicU64::new(from);
    let total = Mutex::new(Total::default());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + seeds {
                        break;
                    }
                    let mut report = run_seed(seed, false);
                    if seed % REPLAYED == 0 && run_seed(seed, false).hash != report.hash {
                        report.violations.push("the seed does not replay".to_owned());
                    }
                    bar.inc(1);
                    let mut total = total.lock().unwrap();
                    total.add(report);
                    if enough(&total) {
                        next.store(from + seeds, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut total = total.into_inner().unwrap();
    total.broken.sort_by_key(|report| report.seed);
    total
}

fn many(from: u64, seeds: u64) -> bool {
    let bar = ProgressBar::new(seeds).with_style(
        ProgressStyle::with_template("{bar:40} {pos}/{len} schedules, {per_sec}, {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar.enable_steady_tick(Duration::from_millis(500));
    let begun = Instant::now();
    let total = sweep(from, seeds, &bar, |total| total.broken.len() >= 100);
    bar.finish_and_clear();
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{} schedules from seed {from} in {seconds:.0} s: {:.0} a second, {} operations, {} holds",
        total.schedules,
        total.schedules as f64 / seconds,
        total.operations,
        total.holds,
    );
    let faults: Vec<String> =
        total.faults.iter().map(|(kind, count)| format!("{count} x {kind}")).collect();
    println!("faults: {}", faults.join(", "));
    println!("violations: {}", total.broken.len());
    for report in &total.broken {
        println!("  seed {}: {}", report.seed, report.violations.join("; "));
    }
    total.broken.is_empty()
}

fn mutants(seeds: u64, but: &[String]) -> bool {
    let mut all = true;
    println!("{:<26} {:>9}  what was seen first", "bug", "schedules");
    for bug in Bug::ALL.into_iter().filter(|bug| !but.contains(&format!("{bug:?}"))) {
        plant(Some(bug));
        let total = sweep(0, seeds, &ProgressBar::hidden(), |total| !total.broken.is_empty());
        match total.broken.first() {
            Some(report) => {
                println!(
                    "{:<26} {:>9}  {}",
                    format!("{bug:?}"),
                    report.seed + 1,
                    report.violations[0]
                );
            }
            None => {
                println!("{:<26} {:>9}  not found", format!("{bug:?}"), format!("> {seeds}"));
                all = false;
            }
        }
    }
    all
}
