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
Usage: --seeds N [--from M] [--seconds S] [--bug NAME]
                                      runs the seeds from M on, N of them, for S seconds at most
       --seed N [--bug NAME]          replays one seed and prints its timeline
       --mutants [--seeds N] [--but A,B]
                                      plants each bug and looks for it in at most N seeds";

/// What the command line asks for.
struct Asked {
    seed: Option<u64>,
    from: u64,
    seeds: u64,
    seconds: Option<u64>,
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
        Asked { from, seeds, seconds, .. } => many(from, seeds, seconds),
    };
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(seed: u64) -> bool {
    let report = run_seed(seed, true);
    report.timeline.iter().for_each(|line| println!("{line}"));
    println!("\nseed {seed}, trace {:016x}", report.hash);
    report.violations.iter().for_each(|violation| println!("violation: {violation}"));
    report.violations.is_empty()
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

/// Runs seeds on every core, until so many are broken or the time is up.
fn sweep(from: u64, seeds: u64, until: Option<Instant>, bar: &ProgressBar, enough: usize) -> Total {
    let next = AtomicU64::new(from);
    let done = AtomicBool::new(false);
    let total = Mutex::new(Total::default());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + seeds || until.is_some_and(|until| Instant::now() > until) {
                        break;
                    }
                    let mut report = run_seed(seed, false);
                    if seed.is_multiple_of(REPLAYED) && run_seed(seed, false).hash != report.hash {
                        report.violations.push("the seed does not replay".to_owned());
                    }
                    bar.inc(1);
                    let mut total = total.lock().unwrap();
                    total.stats.add(&report.stats);
                    if !report.violations.is_empty() {
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

fn many(from: u64, seeds: u64, seconds: Option<u64>) -> bool {
    let bar = ProgressBar::new(seeds).with_style(
        ProgressStyle::with_template("{bar:40} {pos}/{len} schedules, {per_sec}, {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar.enable_steady_tick(Duration::from_millis(500));
    let begun = Instant::now();
    let until = seconds.map(|seconds| begun + Duration::from_secs(seconds));
    let total = sweep(from, seeds, until, &bar, ENOUGH);
    bar.finish_and_clear();
    let took = begun.elapsed().as_secs_f64();
    let pace = total.stats.schedules as f64 / took;
    println!("from seed {from} on, in {took:.0} s: {pace:.0} schedules a second");
    println!("{}", total.stats);
    println!("violations   {}", total.broken.len());
    for (seed, report) in &total.broken {
        println!("  seed {seed}: {}", report.violations.join("; "));
    }
    total.broken.is_empty()
}

fn mutants(seeds: u64, but: &[String]) -> bool {
    let mut all = true;
    println!("{:<26} {:>9}  what was seen first", "bug", "schedules");
    for bug in Bug::ALL.into_iter().filter(|bug| !but.contains(&format!("{bug:?}"))) {
        plant(Some(bug));
        let total = sweep(0, seeds, None, &ProgressBar::hidden(), 1);
        let name = format!("{bug:?}");
        match total.broken.first() {
            Some((seed, report)) => {
                println!("{name:<26} {:>9}  {}", seed + 1, report.violations[0]);
            }
            None => {
                println!("{name:<26} {:>9}  not found", format!("> {seeds}"));
                all = false;
            }
        }
    }
    all
}
