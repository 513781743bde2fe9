//! The simulation: seeded schedules.

use std::process::Command;

use crate::shell::{self, Failure};

pub(crate) const ABOUT: &str =
    "runs seeded schedules: --seeds N [--from M] [--crowd], or replays one: --seed N [--crowd]";

/// The program, as cargo is asked for it.
pub(crate) const PROGRAM: [&str; 7] = [
    "--quiet",
    "--release",
    "-p",
    "redlock-tests",
    "--no-default-features",
    "--bin",
    "redlock-sim",
];

/// What it is compiled with.
pub(crate) const FLAGS: &str = "--cfg redlock_sim --cfg tokio_unstable";

/// How many schedules `cargo xtask test` runs, and how many more with many clients.
const SHARE: &str = "4000";
const CROWDS: &str = "200";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    shell::run(simulation(arguments))
}

/// The bounded share that belongs to the tests.
pub(crate) fn run_share() -> Result<(), Failure> {
    shell::run(simulation(&["--seeds", SHARE].map(str::to_owned)))?;
    shell::run(simulation(&["--crowd", "--seeds", CROWDS].map(str::to_owned)))
}

/// Builds what [`run_share`] runs.
pub(crate) fn build() -> Result<(), Failure> {
    let mut command = shell::cargo(["build"]);
    command.args(PROGRAM);
    shell::with_flags(&mut command, FLAGS, "sim");
    shell::run_aside(&command)
}

fn simulation(arguments: &[String]) -> Command {
    let mut command = shell::cargo(["run"]);
    command.args(PROGRAM).arg("--").args(arguments);
    shell::with_flags(&mut command, FLAGS, "sim");
    command
}
