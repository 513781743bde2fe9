//! The command line of the simulation.

use std::{
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use redlock_core::simulation::{Bug, plant};

use super::{Report, Stats, run_seed};

const USAGE: &str = "\
Usage: --seeds N [--from M] [--seconds S] [--threads T] [--crowd] [--bug NAME]
                                      runs the seeds from M on, N of them, for S seconds at most
       --seed N [--crowd] [--bug NAME]
                                      replays one seed and prints its timeline
       --mutants [--seeds N] [--but A,B]
                                      plants each bug and looks for it in at most N seeds
With --crowd every schedule has many clients with one task each.";

/// What the command line asks for.
struct Asked {
    seed: Option<u64>,
    from: u64,
    seeds: u64,
    seconds: Option<u64>,
    threads: Option<usize>,
    crowd: bool,
    bug: Option<Bug>,
    mutants: bool,
    /// Bugs that are another suite's to find.
    but: Vec<String>,
}

fn parse(arguments: &[String]) -> Result<Asked, String> {
    let mut asked = Asked {
        seed: None,
        from: 0,
        seeds: 1000,
        seconds: None,
        threads: None,
        crowd: false,
        bug: None,
        mutants: false,
        but: Vec::new(),
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number =
            |text: &String| text.parse::<u64>().map_err(|_| format!("{text} is not a number"));
        match word.as_str() {
            "--seed" => asked.seed = Some(number(value()?)?),
            "--seeds" => asked.seeds = number(value()?)?,
            "--from" => asked.from = number(value()?)?,
            "--seconds" => asked.seconds = Some(number(value()?)?),
            "--threads" => asked.threads = usize::try_from(number(value()?)?).ok(),
            "--crowd" => asked.crowd = true,
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
        Asked { seed: Some(seed), crowd, .. } => replay(seed, crowd),
        Asked { from, seeds, seconds, threads, crowd, .. } => {
            many(&Sweep { threads, crowd, ..Sweep::new(from, seeds) }, seconds)
        }
    };
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(seed: u64, crowd: bool) -> bool {
    let report = run_seed(seed, crowd, true);
    report.timeline.iter().for_each(|line| println!("{line}"));
    println!("\nseed {seed}, trace {:016x}", report.hash);
    report.broken().for_each(|broken| println!("violation: {broken}"));
    !report.is_broken()
}

/// What many schedules came to.
#[derive(Default)]
struct Total {
    stats: Stats,
    /// By seed.
    broken: Vec<(u64, Report)>,
}

/// One seed in so many is run twice, to see that it replays.
const REPLAYED: u64 = 1000;

/// A sweep ends when so many schedules are broken: more tell nothing new.
const ENOUGH: usize = 100;

/// Which schedules to run, and until when.
struct Sweep {
    from: u64,
    seeds: u64,
    crowd: bool,
    threads: Option<usize>,
    until: Option<Instant>,
    /// It ends when so many are broken.
    enough: usize,
}

impl Sweep {
    fn new(from: u64, seeds: u64) -> Self {
        Self { from, seeds, crowd: false, threads: None, until: None, enough: ENOUGH }
    }

    /// Runs them on every core, or on so many threads as were asked for.
    fn run(&self, bar: &ProgressBar) -> Total {
        let Self { from, seeds, crowd, until, enough, .. } = *self;
        let next = AtomicU64::new(from);
        let done = AtomicBool::new(false);
        let total = Mutex::new(Total::default());
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..self.threads.unwrap_or_else(cores) {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= from + seeds || until.is_some_and(|until| Instant::now() > until)
                        {
                            break;
                        }
                        let mut report = run_seed(seed, crowd, false);
                        if seed.is_multiple_of(REPLAYED)
                            && run_seed(seed, crowd, false).hash != report.hash
                        {
                            report.violations.push("the seed does not replay".to_owned());
                        }
                        bar.inc(1);
                        let mut total = total.lock().unwrap();
                        total.stats.add(&report.stats);
                        if report.is_broken() {
                            total.broken.push((seed, report));
                        }
                        if total.broken.len() >= enough {
                            done.store(true, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let mut total = total.into_inner().unwrap();
        total.broken.sort_by_key(|(seed, _)| *seed);
        total
    }
}

fn many(sweep: &Sweep, seconds: Option<u64>) -> bool {
    let bar = ProgressBar::new(sweep.seeds).with_style(
        ProgressStyle::with_template("{bar:40} {pos}/{len} schedules, {per_sec}, {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar.enable_steady_tick(Duration::from_millis(500));
    let begun = Instant::now();
    let until = seconds.map(|seconds| begun + Duration::from_secs(seconds));
    let total = Sweep { until, ..*sweep }.run(&bar);
    bar.finish_and_clear();
    let took = begun.elapsed().as_secs_f64();
    let pace = total.stats.schedules as f64 / took;
    println!("from seed {} on, in {took:.0} s: {pace:.0} schedules a second", sweep.from);
    println!("{}", total.stats);
    println!("violations   {}", total.broken.len());
    for (seed, report) in &total.broken {
        println!("  seed {seed}: {}", report.broken().collect::<Vec<_>>().join("; "));
    }
    total.broken.is_empty()
}

/// Bugs that must not make any difference but to order and time, and how many schedules show that.
const HARMLESS: &[Bug] = &[Bug::WrongPlaces];
const HARMLESS_SEEDS: u64 = 5000;
const HARMLESS_CROWDS: u64 = 500;

fn mutants(seeds: u64, but: &[String]) -> bool {
    let mut all = true;
    println!("{:<26} {:>9}  what was seen first", "bug", "schedules");
    for bug in Bug::ALL.into_iter().filter(|bug| !but.contains(&format!("{bug:?}"))) {
        plant(Some(bug));
        let name = format!("{bug:?}");
        let sweep = Sweep { enough: 1, ..Sweep::new(0, seeds) };
        match sweep.run(&ProgressBar::hidden()).broken.first() {
            Some((seed, report)) => {
                let first = report.broken().next().unwrap_or_default();
                println!("{name:<26} {:>9}  {first}", seed + 1);
            }
            None => {
                println!("{name:<26} {:>9}  not found", format!("> {seeds}"));
                all = false;
            }
        }
        if HARMLESS.contains(&bug) {
            all &= is_harmless(&name);
        }
    }
    all
}

/// Whether no schedule breaks more than order and time.
fn is_harmless(name: &str) -> bool {
    let ordinary = Sweep { enough: usize::MAX, ..Sweep::new(0, HARMLESS_SEEDS) };
    let crowds = Sweep { crowd: true, seeds: HARMLESS_CROWDS, ..ordinary };
    [ordinary, crowds].iter().all(|sweep| {
        let total = sweep.run(&ProgressBar::hidden());
        let harm = total.broken.iter().find(|(_, report)| !report.violations.is_empty());
        let seen = match harm {
            Some((_, report)) => format!("more than order is broken: {}", report.violations[0]),
            None => "nothing but order and time is broken".to_owned(),
        };
        let crowd = if sweep.crowd { ", with many clients each" } else { "" };
        println!("{name:<26} {:>9}  {seen}{crowd}", sweep.seeds);
        harm.is_none()
    })
}
