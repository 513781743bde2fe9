//! Races between threads, tried in many orders.

use std::process::Command;

use crate::shell::{self, Failure};

pub(crate) const ABOUT: &str =
    "runs threads of a client in many orders: REDLOCK_ORDERS=N for more, or the name of a test";

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
    with_cfg(&mut command);
    command
}

/// Clippy over what is behind the cfg, which no other build sees.
pub(crate) fn lint() -> Result<(), Failure> {
    let packages = ["-p", "redlock-core", "-p", "redlock-races"];
    let mut command = shell::cargo(["clippy", "--no-default-features", "--lib", "--test", "races"]);
    command.args(packages).args(["--", "--deny=warnings"]);
    with_cfg(&mut command);
    shell::run(command)
}

/// A target directory of its own, so that changing back and forth builds nothing anew.
fn with_cfg(command: &mut Command) {
    command.env("RUSTFLAGS", "--cfg redlock_races");
    command.env("CARGO_TARGET_DIR", shell::workspace().join("target").join("races"));
    // The orders are what takes the time.
    command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
}
