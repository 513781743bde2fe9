//! The command line of the soak.

use std::{
    process::ExitCode,
    time::{Duration, SystemTime},
};

use tempfile::TempDir;

use super::{
    run::Run,
    worker::{self, Orders},
};

/// The first argument of a worker, which is this same program.
pub(super) const WORKER: &str = "worker";

const MINUTE: Duration = Duration::from_secs(60);

const USAGE: &str = "\
Usage: [--minutes N | --seconds N] [--seed S] [--restarts strict|observed|trusted]
       5 minutes, a seed from the clock, and strict when nothing else is said";

/// What the command line asks for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) lasts: Duration,
    pub(super) seed: u64,
    pub(super) restarts: String,
}

fn parse(arguments: &[String]) -> Result<Asked, String> {
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let mut asked = Asked {
        lasts: 5 * MINUTE,
        seed: u64::from(clock.subsec_micros()),
        restarts: "strict".to_owned(),
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{value} is not a number"));
        match word.as_str() {
            "--minutes" => asked.lasts = MINUTE * u32::try_from(number()?).unwrap_or(u32::MAX),
            "--seconds" => asked.lasts = Duration::from_secs(number()?),
            "--seed" => asked.seed = number()?,
            "--restarts" if super::restarts(value).is_some() => asked.restarts = value.clone(),
            _ => return Err(format!("unknown argument {word} {value}")),
        }
    }
    Ok(asked)
}

/// Does what the arguments ask for. Fails when two workers held one lock at once, when no worker
/// held any lock, and when memory or descriptors grow.
pub fn run(arguments: &[String]) -> ExitCode {
    if let Some((WORKER, words)) = arguments.split_first().map(|(first, rest)| (&**first, rest)) {
        worker::work(&Orders::read(words).expect("the orders of a worker"));
        return ExitCode::SUCCESS;
    }
    let asked = match parse(arguments) {
        Ok(asked) => asked,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let directory = tempfile::Builder::new().prefix("redlock-soak-").tempdir().unwrap();
    println!("seed {}, {} s, clients {}", asked.seed, asked.lasts.as_secs(), asked.restarts);
    let report = Run::start(&asked, directory.path()).finish();
    println!("{report}");
    if report.is_good() {
        return ExitCode::SUCCESS;
    }
    println!("the journals and the faults are in {}", TempDir::keep(directory).display());
    ExitCode::FAILURE
}
