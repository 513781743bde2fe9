//! `cargo xtask lint`: the direction of imports, formatting and clippy.

use crate::{
    bench, imports,
    shell::{self, Failure},
    sim,
};

pub(crate) const ABOUT: &str =
    "checks the direction of imports, the formatting, and clippy without a warning";

pub(crate) fn run(_: &[String]) -> Result<(), Failure> {
    imports::check()?;
    shell::run(shell::cargo(["fmt", "--all", "--check"]))?;
    shell::run(shell::cargo([
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "--deny=warnings",
    ]))?;
    bench::lint()?;
    sim::lint()
}
