//! `cargo xtask bench`: what a lock costs, beside others. The program is in `bench/`, a workspace
//! of its own: what it is compared with is no dependency of this one.

use std::process::Command;

use crate::{
    redis_server,
    shell::{self, Failure},
};

pub(crate) const ABOUT: &str = "measures locks beside rslock, bare redis-rs and plain sockets, on redis-servers of its own; --help says more";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    redis_server::ensure()?;
    let mut command = cargo(&["run", "--release"]);
    command.arg("--").args(arguments);
    shell::run(command)
}

/// What `cargo xtask lint` checks of it.
pub(crate) fn lint() -> Result<(), Failure> {
    shell::run(cargo(&["fmt", "--check"]))?;
    let mut command = cargo(&["clippy", "--all-targets"]);
    command.args(["--", "--deny=warnings"]);
    shell::run(command)
}

/// What `cargo xtask test` tests of it.
pub(crate) fn test() -> Result<(), Failure> {
    shell::run(cargo(&["test"]))
}

/// Builds what [`test()`] runs.
pub(crate) fn build() -> Result<(), Failure> {
    shell::run_aside(&cargo(&["test", "--no-run"]))
}

/// In the target directory of this workspace: most of its dependencies are built there already.
fn cargo(words: &[&str]) -> Command {
    let mut command = shell::cargo(words);
    command.args(["--quiet", "--manifest-path", "bench/Cargo.toml"]);
    command.env("CARGO_TARGET_DIR", shell::target());
    command
}
