//! Races between threads, tried in many orders.

use std::process::Command;

use crate::shell::{self, Failure};

pub(crate) const ABOUT: &str =
    "runs threads of a client in many orders: REDLOCK_ORDERS=N for more, or the name of a test";

/// What they are compiled with.
pub(crate) const FLAGS: &str = "--cfg redlock_races";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut command = tests();
    command.args(arguments);
    shell::run(command)
}

/// Builds what [`run`] runs.
pub(crate) fn build() -> Result<(), Failure> {
    shell::run_aside(tests().arg("--no-run"))
}

fn tests() -> Command {
    let mut command = shell::cargo(["test", "--quiet", "-p", "redlock-races", "--test", "races"]);
    shell::with_flags(&mut command, FLAGS, "races");
    // The orders are what takes the time.
    command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    command
}
