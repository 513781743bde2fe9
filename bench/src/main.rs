//! What a lock costs: redlock-core beside rslock, bare redis-rs and plain sockets, on the same
//! servers in one run. `cargo xtask bench` runs it; `docs/benchmarks.md` says how it measures.

mod allocator;
mod arguments;
mod client;
mod distance;
mod hold;
mod load;
mod metric;
mod report;
mod results;
mod sent;
mod servers;
mod stats;
mod witness;
mod workload;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use indicatif::{ProgressBar, ProgressStyle};
use redlock_tests::Nodes;

use crate::{
    arguments::Arguments,
    client::Which,
    report::About,
    results::Results,
    workload::{Bench, Case, Workload, processes},
};

#[global_allocator]
static ALLOCATOR: allocator::Counting = allocator::Counting::new();

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [child, rest @ ..] = &words[..]
        && child == processes::CHILD
    {
        processes::child(rest);
        return ExitCode::SUCCESS;
    }
    let arguments = match Arguments::read(&words) {
        Ok(arguments) => arguments,
        Err(told) => {
            eprint!("{told}");
            return ExitCode::from(2);
        }
    };
    if cfg!(debug_assertions) {
        eprintln!("this is a debug build, whose figures say nothing: use `cargo xtask bench`");
    }
    let bench = Bench { nodes: Nodes::start(servers::MOST_NODES), quick: arguments.quick };
    let results = run(&bench, &arguments);
    println!("### targets\n\n{}", report::targets_table(&results, !arguments.is_full()));

    let about = About { redis: redis(&bench.nodes), quick: arguments.quick };
    match report::write(&directory(&arguments), &results, &about) {
        Ok(written) => {
            for path in written {
                println!("wrote {}", path.display());
            }
        }
        Err(error) => {
            eprintln!("the results could not be written: {error}");
            return ExitCode::FAILURE;
        }
    }
    if results.violations() > 0.0 {
        eprintln!("two held one lock at once: see the violations above");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn run(bench: &Bench, arguments: &Arguments) -> Results {
    let workloads: Vec<&Workload> =
        workload::ALL.iter().filter(|workload| arguments.wants(workload.name)).collect();
    let steps: usize = workloads.iter().map(|workload| steps(workload, bench, arguments)).sum();
    let bar = ProgressBar::new(steps as u64);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {eta} left, {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut results = Results::default();
    for workload in workloads {
        measure(workload, bench, arguments, &mut results, &bar);
        let table = report::results_table(&results, workload.name);
        bar.suspend(|| println!("### {}: {}\n\n{table}", workload.name, workload.about));
    }
    bar.finish_and_clear();
    results
}

fn rounds(workload: &Workload, arguments: &Arguments) -> usize {
    let (full, quick) = workload.rounds;
    arguments.rounds.unwrap_or(if arguments.quick { quick } else { full })
}

/// The cases that were asked for.
fn cases<'a>(workload: &Workload, bench: &'a Bench, arguments: &Arguments) -> Vec<Case<'a>> {
    let mut cases = (workload.cases)(bench);
    cases.retain(|case| arguments.wants_case(&case.label));
    cases
}

fn steps(workload: &Workload, bench: &Bench, arguments: &Arguments) -> usize {
    let clients = |clients: &[Which]| clients.iter().filter(|it| arguments.includes(**it)).count();
    let cases = cases(workload, bench, arguments);
    rounds(workload, arguments) * cases.iter().map(|case| clients(case.clients)).sum::<usize>()
}

/// All rounds of a workload. Each round begins with another client, so that none always follows
/// the same.
fn measure(
    workload: &Workload,
    bench: &Bench,
    arguments: &Arguments,
    results: &mut Results,
    bar: &ProgressBar,
) {
    let cases = cases(workload, bench, arguments);
    for round in 0..rounds(workload, arguments) {
        for case in &cases {
            let mut clients: Vec<Which> =
                case.clients.iter().copied().filter(|it| arguments.includes(*it)).collect();
            let first = round % clients.len().max(1);
            clients.rotate_left(first);
            for client in clients {
                bar.set_message(format!("{}: {}, {}", workload.name, case.label, client.name()));
                servers::clear(&bench.nodes);
                results.add(workload.name, &case.label, client, (case.sample)(client));
                bar.inc(1);
            }
        }
    }
}

/// The counters that the servers report.
fn redis(nodes: &Nodes) -> String {
    let info = nodes.first().map(|node| node.info("server")).unwrap_or_default();
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
    format!("redis-server {}", version.unwrap_or("of unknown version").trim())
}

/// Where the files go: only a full run changes what the repository shows.
fn directory(arguments: &Arguments) -> PathBuf {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    match &arguments.out {
        Some(out) => out.clone(),
        None if arguments.is_full() => root.join("docs/benchmarks"),
        None => root.join("target/benchmarks"),
    }
}
