//! The command line of the model check.

use std::{process::ExitCode, thread};

use super::{Case, Size, cases, check};

const USAGE: &str = "\
Usage: [--small] [--only WORDS]   checks every case, or those whose name has these words
       --trace [--only WORDS]     prints the way to each broken property as well";

const HEAD: &str = "\
| case | rule left out | clients | bounds | states | unique | depth | seconds | verdict |
|---|---|---|---|---|---|---|---|---|";

/// Does what the arguments ask for. Fails when a case does not come out as it should.
pub fn run(arguments: &[String]) -> ExitCode {
    let mut small = false;
    let mut traced = false;
    let mut only = "";
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match (word.as_str(), words.as_slice()) {
            ("--small", _) => small = true,
            ("--trace", _) => traced = true,
            ("--only", [name, ..]) => {
                only = name;
                words.next();
            }
            (other, _) => {
                eprintln!("cannot make sense of {other}\n{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    let mut chosen = cases();
    chosen.retain(|case| case.name.contains(only) && (case.size == Size::Small || !small));
    if chosen.is_empty() {
        eprintln!("no case has {only:?} in its name\n{USAGE}");
        return ExitCode::from(2);
    }
    println!("{HEAD}");
    let wrong = chosen.iter().filter(|case| !comes_out(case, traced)).count();
    if wrong == 0 {
        return ExitCode::SUCCESS;
    }
    eprintln!("{wrong} of {} cases did not come out as they should", chosen.len());
    ExitCode::FAILURE
}

/// Checks one case, prints its line, and answers whether it came out as it should.
fn comes_out(case: &Case, traced: bool) -> bool {
    let outcome = check(case, thread::available_parallelism().map_or(1, usize::from));
    let steps = match outcome.steps.len() {
        0 => String::new(),
        steps => format!(", in {steps} steps"),
    };
    println!(
        "| {} | {} | {} | {} | {} | {} | {} | {:.1} | {}{steps} |",
        case.name,
        if case.rule.is_empty() { "all on" } else { case.rule },
        case.clients(),
        case.bounds(),
        grouped(outcome.total),
        grouped(outcome.unique),
        outcome.depth,
        outcome.time.as_secs_f64(),
        outcome.found,
    );
    let well = outcome.is_as_expected(case);
    if traced || !well {
        outcome.steps.iter().for_each(|step| println!("    {step}"));
    }
    if !well {
        println!("    expected: {}; never seen: {:?}", case.expected, outcome.never);
    }
    well
}

/// With a comma after every thousand.
fn grouped(number: usize) -> String {
    if number < 1000 {
        return number.to_string();
    }
    format!("{},{:03}", grouped(number / 1000), number % 1000)
}
