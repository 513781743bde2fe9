//! `cargo xtask test`: the whole suite.

use crate::{
    redis_server,
    shell::{self, Failure},
};

pub(crate) const ABOUT: &str =
    "installs redis-server if it is missing, then runs every test; arguments go to `cargo test`";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    redis_server::ensure()?;
    // Unit, UI, integration and doc tests in one build. A test that fails does not hide the rest.
    let mut command = shell::cargo(["test", "--workspace", "--all-features", "--no-fail-fast"]);
    command.args(arguments);
    shell::run(command)
}
