//! The suites that look for planted bugs.

use std::{
    fmt,
    fs::{self, File},
    io,
    path::Path,
    process::{Command, ExitStatus, Stdio},
    str::FromStr,
    thread,
    time::{Duration, Instant},
};

use super::copy::Copy;
use crate::{shell::Failure, sim};

/// The longest time that a suite may take. A bug may keep a suite from ending, which shows nothing.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// A test may need a feature, and without it would not be there to notice anything.
const ALL: &str = "--all-features";

/// A suite with its arguments, as the head of a patch names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Suite {
    kind: Kind,
    arguments: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// `sim --seeds N`: the simulation.
    Sim,
    /// `lib FILTER`: unit tests of redlock-core.
    Lib,
    /// `test PACKAGE SUITE FILTER`: tests of a package in a file of their own.
    Test,
}

impl Kind {
    const ALL: [(&'static str, Self); 3] =
        [("sim", Self::Sim), ("lib", Self::Lib), ("test", Self::Test)];

    fn usage(self) -> &'static str {
        match self {
            Self::Sim => "sim --seeds N",
            Self::Lib => "lib NAME_OF_A_TEST",
            Self::Test => "test PACKAGE SUITE NAME_OF_A_TEST",
        }
    }
}

impl FromStr for Suite {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let (_, kind) =
            Kind::ALL.into_iter().find(|(known, _)| *known == name).ok_or_else(|| {
                let known = Kind::ALL.map(|(known, _)| known).join(", ");
                format!("there is no suite {name:?}; there are {known}")
            })?;
        let arguments: Vec<String> = words.map(str::to_owned).collect();
        let least = if kind == Kind::Test { 3 } else { 1 };
        if arguments.len() < least {
            return Err(format!("{name} needs arguments: {}", kind.usage()));
        }
        Ok(Self { kind, arguments })
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Kind::ALL.iter().find(|(_, kind)| *kind == self.kind).map(|(name, _)| *name);
        write!(f, "{} {}", name.unwrap_or_default(), self.arguments.join(" "))
    }
}

impl Suite {
    /// Whether it is one of tests, and not the simulation.
    pub(super) fn is_of_tests(&self) -> bool {
        self.kind != Kind::Sim
    }

    /// Runs the suite, which has to build and to fail. Returns what failed first.
    pub(super) fn fails(&self, copy: &Copy, log: &Path) -> Result<String, Failure> {
        self.build(copy, log)?;
        let status = run(self.command(copy, &["--first"]), log)?;
        let text = fs::read_to_string(log).unwrap_or_default();
        if status.success() {
            let what = if self.has_run(&text) { "did not notice" } else { "has no such test" };
            return Err(Failure::new(format!("{self} {what}")));
        }
        // A suite that could not run has not noticed anything.
        self.first_failure(&text).ok_or_else(|| {
            Failure::new(format!("{self} ended with {status}: see {}", log.display()))
        })
    }

    /// Runs the suite, which has to succeed.
    pub(super) fn passes(&self, copy: &Copy, log: &Path) -> Result<(), Failure> {
        self.build(copy, log)?;
        if run(self.command(copy, &[]), log)?.success() {
            return Ok(());
        }
        Err(Failure::new(format!("{self} must pass and does not: see {}", log.display())))
    }

    /// Builds the suite: a bug that does not build is not caught, but no bug.
    fn build(&self, copy: &Copy, log: &Path) -> Result<(), Failure> {
        let build = match self.kind {
            Kind::Sim => self.cargo(copy, "build"),
            Kind::Lib | Kind::Test => {
                let mut command = self.cargo(copy, "test");
                command.arg("--no-run");
                command
            }
        };
        if run(build, log)?.success() {
            return Ok(());
        }
        Err(Failure::new(format!("it does not build: see {}", log.display())))
    }

    /// The command that runs the suite. The simulation is told where to end by `options`.
    fn command(&self, copy: &Copy, options: &[&str]) -> Command {
        let mut command = match self.kind {
            Kind::Sim => {
                let mut command = self.cargo(copy, "run");
                command.arg("--").args(options).args(&self.arguments);
                return command;
            }
            Kind::Lib | Kind::Test => self.cargo(copy, "test"),
        };
        command.args(if self.kind == Kind::Test { &self.arguments[2..] } else { &self.arguments });
        command
    }

    fn cargo(&self, copy: &Copy, task: &str) -> Command {
        match self.kind {
            Kind::Sim => {
                let mut command = copy.cargo("sim", &[task]);
                command.args(sim::PROGRAM);
                command.env("RUSTFLAGS", sim::FLAGS);
                command
            }
            Kind::Lib => copy.cargo("lib", &[task, "--quiet", ALL, "-p", "redlock-core", "--lib"]),
            Kind::Test => {
                let (package, suite) = (&self.arguments[0], &self.arguments[1]);
                copy.cargo("lib", &[task, "--quiet", ALL, "-p", package, "--test", suite])
            }
        }
    }

    /// Whether a report tells of any test.
    fn has_run(&self, report: &str) -> bool {
        let mut counts = report.lines().filter_map(|line| line.strip_prefix("running "));
        self.kind == Kind::Sim || counts.any(|count| !count.starts_with("0 "))
    }

    /// The first line of a report that tells of a failure.
    fn first_failure(&self, report: &str) -> Option<String> {
        let begins = match self.kind {
            Kind::Sim => "  seed ",
            // `name_of_the_test --- FAILED`, and under `failures:`.
            Kind::Lib | Kind::Test => "---- ",
        };
        let line = report.lines().find_map(|line| line.strip_prefix(begins))?;
        Some(line.trim_end_matches(" stdout ----").chars().take(120).collect())
    }
}

/// Runs a command for at most [`LIMIT`], and appends what it prints to `log`.
fn run(mut command: Command, log: &Path) -> Result<ExitStatus, Failure> {
    let failed = |error: io::Error| Failure::new(format!("{}: {error}", log.display()));
    let open = || File::options().append(true).open(log);
    let (out, err) = (open().map_err(failed)?, open().map_err(failed)?);
    let spawned = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn();
    let mut child = spawned.map_err(failed)?;
    let begun = Instant::now();
    loop {
        let ended = child.try_wait().map_err(failed)?;
        if let Some(status) = ended {
            return Ok(status);
        }
        if begun.elapsed() > LIMIT {
            // Its status says nothing: only that it has ended counts.
            let _ = child.kill().and_then(|()| child.wait());
            return Err(Failure::new(format!("it did not end: see {}", log.display())));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(text: &str) -> Suite {
        text.parse().unwrap()
    }

    #[test]
    fn a_suite_is_written_as_it_is_read() {
        for text in ["sim --crowd --seeds 5", "lib one_test", "test redlock-core sets one_test"] {
            assert_eq!(suite(text).to_string(), text);
        }
        for (text, usage) in [("lib", "lib NAME_OF_A_TEST"), ("test sets one_test", "test PACKAGE")]
        {
            assert!(text.parse::<Suite>().unwrap_err().contains(usage), "{text}");
        }
        assert!("all of them".parse::<Suite>().unwrap_err().contains("there is no suite \"all\""));
    }

    #[test]
    fn a_report_tells_whether_there_was_such_a_test() {
        assert!(suite("lib x").has_run("\nrunning 0 tests\n\nrunning 1 test\n.\n"));
        assert!(!suite("lib x").has_run("\nrunning 0 tests\n\ntest result: ok. 0 passed\n"));
        assert!(suite("sim --seeds 9").has_run("schedules 9\n"));
    }

    #[test]
    fn the_first_failure_is_what_a_report_tells() {
        let report = "violations   1\n  seed 7: two rely on one key; a key is left\n  seed 9: x\n";
        let first = suite("sim --seeds 9").first_failure(report).unwrap();
        assert_eq!(first, "7: two rely on one key; a key is left");
        assert_eq!(suite("sim --seeds 9").first_failure("error: unknown argument\n"), None);
        let report = "running 1 test\n\nfailures:\n\n---- some::test stdout ----\npanicked\n";
        assert_eq!(suite("lib x").first_failure(report).unwrap(), "some::test");
        assert_eq!(suite("lib x").first_failure("error[E0425]: cannot find value\n"), None);
    }
}
