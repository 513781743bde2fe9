//! The command line of the model check.

use std::{process::ExitCode, thread};

use super::{Case, Size, cases, check};

const USAGE: &str = "\
Usage: [--small] [--only WORDS]   checks every case, or those whose name has these words
       --trace WORDS              prints the way to each broken property as well";

/// Does what the arguments ask for. Fails when a case does not come out as it should.
pub fn run(arguments: &[String]) -> ExitCode {
    let mut size = Size::Full;
    let mut only = None;
    let mut traced = false;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--small" => size = Size::Small,
            "--only" => only = words.next(),
            "--trace" => {
                traced = true;
                only = words.next();
            }
            other => {
                eprintln!("unknown argument {other}\n{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    let chosen = cases(size);
    let chosen = chosen.iter().filter(|case| only.is_none_or(|only| case.name.contains(only)));
    println!(
        "| rule left out | case | found | steps | unique states | states | seconds |\n\
         |---|---|---|---|---|---|---|"
    );
    let results: Vec<bool> = chosen.map(|case| tell(case, traced)).collect();
    if results.is_empty() {
        eprintln!("no case has such a name\n{USAGE}");
        return ExitCode::from(2);
    }
    if results.into_iter().all(|well| well) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Checks one case, prints its line, and answers whether it came out as it should.
fn tell(case: &Case, traced: bool) -> bool {
    // What is to be broken is looked for on one thread, which finds the shortest way.
    let threads = match case.expected {
        super::Expected::Holds => thread::available_parallelism().map_or(1, usize::from),
        super::Expected::Broken(_) => 1,
    };
    let outcome = check(case, threads);
    let steps = Some(outcome.steps.len()).filter(|steps| *steps > 0);
    println!(
        "| {} | {} | {} | {} | {} | {} | {:.1} |",
        case.rule,
        case.name,
        outcome.found,
        steps.map_or_else(String::new, |steps| steps.to_string()),
        outcome.unique,
        outcome.total,
        outcome.time.as_secs_f64(),
    );
    if traced {
        outcome.steps.iter().for_each(|step| println!("    {step}"));
    }
    let well = outcome.is_as_expected(case);
    if !well {
        println!("    expected: {}; never seen: {:?}", case.expected, outcome.never);
    }
    well
}
