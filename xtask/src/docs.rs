//! `cargo xtask docs`: the documentation.

use crate::shell::{self, Failure};

pub(crate) const ABOUT: &str = "builds the documentation without a warning";

pub(crate) fn run(_: &[String]) -> Result<(), Failure> {
    let mut command = shell::cargo(["doc", "--workspace", "--no-deps", "--all-features"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    shell::run(command)
}
