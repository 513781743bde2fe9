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

use super::{Report, Stats, run_seed};

const USAGE: &str = "\
Usage: --seeds N [--from M] [--seconds S] [--threads T] [--crowd] [--first] [--only-order]
                          runs the seeds from M on, N of them, for S seconds at most
       --seed N [--crowd] replays one seed and prints its timeline
With --crowd every schedule has many clients with one task each.
With --first it ends at the first schedule that breaks a promise.
With --only-order, promises of order and time may be broken, and no others.";

/// What the command line asks for.
struct Asked {
    seed: Option<u64>,
    from: u64,
    seeds: u64,
    seconds: Option<u64>,
    threads: Option<usize>,
    crowd: bool,
    first: bool,
    only_order: bool,
}

fn parse(arguments: &[String]) -> Result<Asked, String> {
    let mut asked = Asked {
        seed: None,
        from: 0,
        seeds: 1000,
        seconds: None,
        threads: None,
        crowd: false,
        first: false,
        only_order: false,
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
            "--first" => asked.first = true,
            "--only-order" => asked.only_order = true,
            other => return Err(format!("unknown argument {other}")),
        }
    }
    Ok(asked)
}

/// Does what the arguments ask for. Fails when a promise was broken.
pub fn run(arguments: &[String]) -> ExitCode {
    let asked = match parse(arguments) {
        Ok(asked) => asked,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let well = match asked {
        Asked { seed: Some(seed), crowd, .. } => replay(seed, crowd),
        Asked { from, seeds, seconds, threads, crowd, first, only_order, .. } => {
            let enough = if first { 1 } else { ENOUGH };
            let until = None;
            many(&Sweep { from, seeds, crowd, threads, until, enough, only_order }, seconds)
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

/// The results of many schedules.
#[derive(Default)]
struct Total {
    stats: Stats,
    /// The schedules that have broken a promise, by seed.
    broken: Vec<(u64, Report)>,
}

/// One of this many seeds is run twice, to see that it replays.
const REPLAYED: u64 = 1000;

/// A sweep ends when this many schedules have broken a promise: more of them say nothing new.
const ENOUGH: usize = 100;

/// Among so many schedules, each kind of fault and of oddity happens many times.
const SAMPLE: u64 = 3000;

/// Which schedules to run, and until when.
struct Sweep {
    from: u64,
    seeds: u64,
    crowd: bool,
    threads: Option<usize>,
    until: Option<Instant>,
    /// It ends when this many have broken a promise.
    enough: usize,
    /// Promises of order and time do not count.
    only_order: bool,
}

impl Sweep {
    /// Whether a schedule has broken a promise that counts.
    fn is_broken(&self, report: &Report) -> bool {
        if self.only_order { !report.violations.is_empty() } else { report.is_broken() }
    }

    /// Runs them on every core, or on the number of threads that was asked for.
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
                        if self.is_broken(&report) {
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
    // What never happens is not tried: a change of the library, or of what is drawn, may have seen to that.
    let is_sample = total.stats.schedules >= SAMPLE && !sweep.crowd && !sweep.only_order;
    let never: Vec<_> = total.stats.never().filter(|_| is_sample).collect();
    if !never.is_empty() {
        println!("these never happened: {}", never.join(", "));
    }
    total.broken.is_empty() && never.is_empty()
}
