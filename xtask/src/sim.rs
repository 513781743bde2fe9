//! The simulation: seeded schedules, and seeded bugs to see that they are found.

use std::process::Command;

use crate::shell::{self, Failure};

pub(crate) const ABOUT: &str =
    "runs seeded schedules: --seeds N [--from M] [--crowd], or replays one: --seed N [--crowd]";
pub(crate) const ABOUT_MUTANTS: &str =
    "plants each seeded bug and sees it found: [--seeds N], at most so many schedules each";

/// Those that no schedule shows, or hardly one in tens of thousands, and what shows them instead.
const TOLD: &[(&str, &str)] = &[
    ("CleanUpOnce", "a_delete_on_a_newer_connection"),
    // A node has to have hundreds of commands to answer before the order among them matters.
    ("RenewalsBehindPolls", "renewals_and_deletes_leave_first"),
    ("ConfirmAsksHolderOnly", "a_node_confirms_what_it_has_given_last_and_nothing_else"),
];

/// The shyest bug shows in one schedule of some ten thousand.
const MOST: &str = "50000";

/// How many schedules `cargo xtask test` runs, and how many more with many clients.
const SHARE: &str = "4000";
const CROWDS: &str = "200";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    shell::run(simulation(arguments))
}

/// The bounded share that belongs to the tests.
pub(crate) fn run_share() -> Result<(), Failure> {
    shell::run(simulation(&["--seeds", SHARE].map(str::to_owned)))?;
    shell::run(simulation(&["--crowd", "--seeds", CROWDS].map(str::to_owned)))
}

pub(crate) fn run_mutants(arguments: &[String]) -> Result<(), Failure> {
    let told: Vec<&str> = TOLD.iter().map(|(bug, _)| *bug).collect();
    let mut planted = vec!["--mutants".to_owned(), "--but".to_owned(), told.join(",")];
    planted.extend(["--seeds".to_owned(), MOST.to_owned()]);
    planted.extend_from_slice(arguments);
    shell::run(simulation(&planted))?;
    for (bug, test) in TOLD {
        let suite = || {
            let mut suite = shell::cargo(["test", "--quiet", "-p", "redlock-core", "--lib", test]);
            with_cfg(&mut suite);
            suite
        };
        // It passes without the bug, so that what fails with it is the test and not the build.
        shell::run(suite())?;
        let mut planted = suite();
        planted.env("REDLOCK_BUG", bug);
        if shell::run(planted).is_ok() {
            return Err(Failure::new(format!("{bug} was not found by {test}")));
        }
        println!("{bug}: found by {test}");
    }
    Ok(())
}

/// Clippy over what is behind the cfg, which no other build sees.
pub(crate) fn lint() -> Result<(), Failure> {
    let packages = ["-p", "redlock-core", "-p", "redlock-tests"];
    let mut command = shell::cargo(["clippy", "--lib", "--bins"]);
    command.args(packages).args(["--", "--deny=warnings"]);
    with_cfg(&mut command);
    shell::run(command)
}

fn simulation(arguments: &[String]) -> Command {
    let program =
        ["run", "--quiet", "--release", "-p", "redlock-tests", "--bin", "redlock-sim", "--"];
    let mut command = shell::cargo(program);
    command.args(arguments);
    with_cfg(&mut command);
    command
}

/// A target directory of its own, so that changing back and forth builds nothing anew.
fn with_cfg(command: &mut Command) {
    command.env("RUSTFLAGS", "--cfg redlock_sim --cfg tokio_unstable");
    command.env("CARGO_TARGET_DIR", shell::workspace().join("target").join("sim"));
}
