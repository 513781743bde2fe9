//! The simulation: seeded schedules.

use std::process::Command;

use crate::shell::{self, Failure};

pub(crate) const ABOUT: &str =
    "runs seeded schedules: --seeds N [--from M] [--crowd], or replays one: --seed N [--crowd]";

/// The program, as cargo is asked for it.
pub(crate) const PROGRAM: [&str; 4] = ["--quiet", "--release", "-p", "redlock-sim"];

/// What it is compiled with.
pub(crate) const FLAGS: &str = "--cfg redlock_sim --cfg tokio_unstable";

/// How many schedules `cargo xtask test` runs, and how many more with many clients.
const SHARE: &str = "4000";
const CROWDS: &str = "200";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    shell::run(simulation(arguments))
}

/// The tests of the simulation itself, and the bounded share of it that belongs to the tests.
pub(crate) fn run_share() -> Result<(), Failure> {
    shell::run(program("test"))?;
    shell::run(simulation(&["--seeds", SHARE].map(str::to_owned)))?;
    shell::run(simulation(&["--crowd", "--seeds", CROWDS].map(str::to_owned)))
}

/// Builds what [`run_share`] runs.
pub(crate) fn build() -> Result<(), Failure> {
    shell::run_aside(&program("build"))?;
    shell::run_aside(program("test").arg("--no-run"))
}

fn simulation(arguments: &[String]) -> Command {
    let mut command = program("run");
    command.arg("--").args(arguments);
    command
}

fn program(task: &str) -> Command {
    let mut command = shell::cargo([task]);
    command.args(PROGRAM);
    shell::with_flags(&mut command, FLAGS, "sim");
    // To build takes three quarters of the time without it, and to run a fifth more.
    command.env("CARGO_PROFILE_RELEASE_LTO", "off");
    command
}
