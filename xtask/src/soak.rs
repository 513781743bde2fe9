//! The programs that show, over real processes and servers, what a lock keeps and what it cannot.

use std::process::Command;

use crate::{
    redis_server,
    shell::{self, Failure},
};

pub(crate) const ABOUT: &str =
    "disturbs real servers and processes, and judges every hold: --minutes N [--seed S]";

pub(crate) const ABOUT_LOST_UPDATES: &str = "shows what a lock alone cannot do, and a fencing token can: [--rounds N] [--increments N] [--seed S]";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    redis_server::ensure()?;
    shell::run(program("redlock-soak", arguments))
}

pub(crate) fn run_lost_updates(arguments: &[String]) -> Result<(), Failure> {
    redis_server::ensure()?;
    shell::run(program("redlock-lost-updates", arguments))
}

fn program(name: &str, arguments: &[String]) -> Command {
    let mut command =
        shell::cargo(["run", "--quiet", "--release", "-p", "redlock-tests", "--bin", name, "--"]);
    command.args(arguments);
    command
}
