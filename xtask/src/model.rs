//! The model check: every behaviour of the protocol within bounds.

use crate::shell::{self, Failure};

pub(crate) const ABOUT: &str = "tries every behaviour of the protocol, whole and without each of its rules: [--small] [--trace] [--only WORDS]";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let program =
        ["run", "--quiet", "--release", "-p", "redlock-tests", "--bin", "redlock-model", "--"];
    let mut command = shell::cargo(program);
    command.args(arguments);
    shell::run(command)
}
