//! `cargo xtask test`: the whole suite.

use crate::{
    bench, postgres, redis_server,
    shell::{self, Failure},
    sim,
};

pub(crate) const ABOUT: &str = "installs redis-server and PostgreSQL if they are missing, then runs every test and a share of the simulation; with arguments, `cargo test` with them";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    redis_server::ensure()?;
    postgres::try_to_ensure();
    // Unit, UI, integration and doc tests in one build. A test that fails does not hide the rest.
    let mut command = shell::cargo(["test", "--workspace", "--all-features", "--no-fail-fast"]);
    command.args(arguments);
    shell::run(command)?;
    // A filter asks for some of the tests only.
    if !arguments.is_empty() {
        return Ok(());
    }
    bench::test()?;
    sim::run_share()
}
