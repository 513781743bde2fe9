//! The model check: every behaviour of the protocol within bounds.

use crate::shell::{self, Failure};

pub(crate) const ABOUT: &str = "tries every behaviour of the protocol, whole and without each of its rules: [--small] [--trace] [--only WORDS]";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut command = shell::cargo(["run", "--quiet", "--release", "-p", "redlock-model", "--"]);
    command.args(arguments);
    shell::run(command)
}
