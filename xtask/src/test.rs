//! `cargo xtask test`: the tests of all packages, and a share of what has tasks of its own.

use std::{env, thread};

use crate::{
    browser, haproxy, postgres, races, redis_server,
    shell::{self, Failure},
    sim,
};

pub(crate) const ABOUT: &str = "installs redis-server, PostgreSQL, HAProxy and Chromium if they are missing, then runs the tests of all packages, a share of the simulation and the races between threads; with a package or a suite, only that one; with other arguments, `cargo test` with them";

/// How many tests of a suite run at once.
const THREADS: &str = "RUST_TEST_THREADS";

/// Says to `examples/tests/manual.rs` that this build has made the command line.
const PROGRAMS_BUILT: &str = "REDLOCK_PROGRAMS_BUILT";

/// Two for each processor: most tests wait for servers and for timeouts most of the time.
fn threads() -> usize {
    2 * thread::available_parallelism().map_or(1, usize::from)
}

/// How cargo is asked for the suite of this name, which is a package or a file or a folder in its
/// `tests`.
fn suite(name: &str) -> Option<Vec<String>> {
    let words = |words: &[&str]| Some(words.iter().map(|it| (*it).to_owned()).collect());
    let folders = [
        "redlock-core",
        "redlock-macros",
        "redlock-tower",
        "redlock-cli",
        "tests",
        "tests/annotations",
        "tests/ui",
        "examples",
        "xtask",
    ];
    for folder in folders {
        let package = match folder {
            "tests" => "redlock-tests",
            "tests/annotations" => "redlock-annotations",
            "tests/ui" => "redlock-ui",
            "examples" => "redlock-examples",
            folder => folder,
        };
        if name == package {
            return words(&["--package", package]);
        }
        let tests = shell::workspace().join(folder).join("tests");
        let file = tests.join(name).with_extension("rs").is_file();
        if file || tests.join(name).join("main.rs").is_file() {
            return words(&["--package", package, "--test", name]);
        }
    }
    None
}

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    redis_server::ensure()?;
    postgres::try_to_ensure();
    haproxy::try_to_ensure();
    browser::try_to_ensure();
    // Unit, UI, integration and doc tests in one build. A test that fails does not hide the rest.
    let mut command = shell::cargo(["test", "--all-features", "--no-fail-fast"]);
    match arguments.split_first().and_then(|(first, rest)| Some((suite(first)?, rest))) {
        Some((suite, rest)) => command.args(suite).args(rest),
        None => command.arg("--workspace").args(arguments),
    };
    if env::var_os(THREADS).is_none() {
        command.env(THREADS, threads().to_string());
    }
    // A filter asks for some of the tests only.
    if !arguments.is_empty() {
        return shell::run(command);
    }
    // Only a run of everything builds the command line for certain.
    command.env(PROGRAMS_BUILT, "1");
    // Most suites wait for servers: meanwhile the rest is built.
    shell::beside(|| shell::run(command), || sim::build().and_then(|()| races::build()))?;
    sim::run_share()?;
    races::run(&[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_suite_is_found_by_its_name() {
        for (name, words) in [
            ("xtask", &["--package", "xtask"][..]),
            ("redlock-core", &["--package", "redlock-core"]),
            ("config", &["--package", "redlock-core", "--test", "config"]),
            ("promises", &["--package", "redlock-annotations", "--test", "promises"]),
            ("redlock-ui", &["--package", "redlock-ui"]),
            ("faults", &["--package", "redlock-tests", "--test", "faults"]),
            ("shutdown", &["--package", "redlock-tests", "--test", "shutdown"]),
        ] {
            assert_eq!(suite(name).unwrap(), words, "{name}");
        }
        assert_eq!(suite("row_18"), None, "part of the name of a test");
        assert_eq!(suite("--doc"), None);
    }
}
