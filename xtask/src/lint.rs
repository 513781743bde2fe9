//! `cargo xtask lint`: the direction of imports, the patches of seeded bugs, formatting and clippy.

use crate::{
    bench, imports, mutants, races,
    shell::{self, Failure},
    sim,
};

pub(crate) const ABOUT: &str = "checks the direction of imports, the patches of seeded bugs, the formatting, and clippy without a warning";

pub(crate) fn run(_: &[String]) -> Result<(), Failure> {
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
    ]))?;
    bench::lint()?;
    sim::lint()?;
    races::lint()
}
