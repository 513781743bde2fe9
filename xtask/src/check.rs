//! `cargo xtask check`: all that a change has to pass before its tests.

use crate::{
    docs, features, lint,
    shell::{self, Failure},
};

pub(crate) const ABOUT: &str = "runs lint, docs and features, at the same time as far as they can";

pub(crate) fn run(_: &[String]) -> Result<(), Failure> {
    shell::beside(
        || {
            lint::run_without_cfgs()?;
            docs::run(&[])?;
            features::run(&[])
        },
        || shell::run_aside(&lint::behind_cfgs()),
    )
}
