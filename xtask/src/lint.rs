//! `cargo xtask lint`: the direction of imports, the patches of seeded bugs, formatting and clippy.

use std::process::Command;

use crate::{
    imports, mutants, races,
    shell::{self, Failure},
    sim,
};

pub(crate) const ABOUT: &str = "checks the direction of imports, the patches of seeded bugs, the formatting, and clippy without a warning";

pub(crate) fn run(_: &[String]) -> Result<(), Failure> {
    run_without_cfgs()?;
    shell::run(behind_cfgs())
}

/// All but what is [`behind_cfgs`].
pub(crate) fn run_without_cfgs() -> Result<(), Failure> {
    imports::check()?;
    mutants::check()?;
    shell::run(shell::cargo(["fmt", "--all", "--check"]))?;
    shell::run(shell::cargo([
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "--deny=warnings",
    ]))
}

/// Clippy over what only the simulation and the races compile. Their flags do not exclude each other.
pub(crate) fn behind_cfgs() -> Command {
    let packages = ["-p", "redlock-core", "-p", "redlock-sim", "-p", "redlock-races"];
    let targets = ["--no-default-features", "--lib", "--bins", "--test", "races"];
    let mut command = shell::cargo(["clippy"]);
    command.args(targets).args(packages).args(["--", "--deny=warnings"]);
    shell::with_flags(&mut command, &format!("{} {}", sim::FLAGS, races::FLAGS), "cfgs");
    command
}
