//! `cargo xtask bench`: what a lock costs, beside others.

use crate::{
    redis_server,
    shell::{self, Failure},
};

pub(crate) const ABOUT: &str = "measures locks beside rslock, bare redis-rs and plain sockets, on redis-servers of its own; --help says more";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    redis_server::ensure()?;
    let mut command = shell::cargo(["run", "--quiet", "--release", "--package", "redlock-bench"]);
    command.arg("--").args(arguments);
    shell::run(command)
}
