//! The tasks of this repository. `cargo xtask` lists them.
//!
//! One file a task, standard library only: this is the first thing that a fresh clone builds.

mod bench;
mod browser;
mod check;
mod ci;
mod deny;
mod docs;
mod features;
mod fuzz;
mod haproxy;
mod imports;
mod install;
mod labels;
mod lint;
mod model;
mod mutants;
mod package;
mod postgres;
mod races;
mod redis_server;
mod semver;
mod shell;
mod sim;
mod soak;
mod test;

use std::process::ExitCode;

use shell::Failure;

struct Task {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<(), Failure>,
}

const TASKS: &[Task] = &[
    Task { name: "test", about: test::ABOUT, run: test::run },
    Task { name: "ci", about: ci::ABOUT, run: ci::run },
    Task { name: "check", about: check::ABOUT, run: check::run },
    Task { name: "lint", about: lint::ABOUT, run: lint::run },
    Task { name: "imports", about: imports::ABOUT, run: imports::run },
    Task { name: "docs", about: docs::ABOUT, run: docs::run },
    Task { name: "labels", about: labels::ABOUT, run: labels::run },
    Task { name: "package", about: package::ABOUT, run: package::run },
    Task { name: "model", about: model::ABOUT, run: model::run },
    Task { name: "races", about: races::ABOUT, run: races::run },
    Task { name: "sim", about: sim::ABOUT, run: sim::run },
    Task { name: "soak", about: soak::ABOUT, run: soak::run },
    Task { name: "mutants", about: mutants::ABOUT, run: mutants::run },
    Task { name: "lost-updates", about: soak::ABOUT_LOST_UPDATES, run: soak::run_lost_updates },
    Task { name: "bench", about: bench::ABOUT, run: bench::run },
    Task { name: "features", about: features::ABOUT, run: features::run },
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(name) = arguments.next() else {
        print!("{}", help());
        return ExitCode::SUCCESS;
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print!("{}", help());
        return ExitCode::SUCCESS;
    }
    let Some(task) = TASKS.iter().find(|task| task.name == name) else {
        eprint!("there is no task {name:?}\n\n{}", help());
        return ExitCode::from(2);
    };
    let rest: Vec<String> = arguments.collect();
    match (task.run)(&rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("cargo xtask {name}: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn help() -> String {
    let mut text = String::from("Usage: cargo xtask <task> [arguments]\n\nTasks:\n");
    for task in TASKS {
        text += &format!("  {:<14}{}\n", task.name, task.about);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_task_on_one_line() {
        let help = help();
        for task in TASKS {
            let line = help.lines().find(|line| line.trim_start().starts_with(task.name));
            assert_eq!(line.map(|line| line.ends_with(task.about)), Some(true), "{}", task.name);
        }
    }
}
