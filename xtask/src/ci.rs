//! `cargo xtask ci`: what the workflow of a forge runs, step by step and by the same names.

use std::process::{Command, Stdio};

use crate::{
    deny, docs, features, fuzz, labels, lint, package, semver,
    shell::{self, Failure},
    test,
};

pub(crate) const ABOUT: &str = "runs the steps of the workflow, and says which it SKIPPED and why: [STEP..] [--list] [--strict]";

/// One step, which is one job of `.github/workflows/ci.yml`.
struct Step {
    name: &'static str,
    about: &'static str,
    /// What a machine may lack.
    needs: &'static [Need],
    run: fn() -> Result<(), Failure>,
}

#[derive(Clone, Copy)]
enum Need {
    /// A toolchain of rustup.
    Toolchain(&'static str),
    /// A target of rustup.
    Target(&'static str),
    /// A subcommand of cargo.
    Tool(&'static str),
    /// Another operating system: only the workflow has it.
    Os(&'static str),
}

/// The oldest toolchain that is promised, as in the manifest of the workspace.
const MSRV: &str = "1.88";
const WINDOWS: &str = "x86_64-pc-windows-gnu";
const MACOS: &str = "aarch64-apple-darwin";

/// All features that need no system library.
const PORTABLE: &str = "redlock-core/axum,redlock-core/metrics,redlock-core/serde,redlock-tower/axum,redlock-tower/console,redlock-tower/tonic";

const STEPS: &[Step] = &[
    Step { name: "lint", about: "imports, formatting, clippy", needs: &[], run: || lint::run(&[]) },
    Step {
        name: "docs",
        about: "documentation without warnings",
        needs: &[],
        run: || docs::run(&[]),
    },
    Step {
        name: "features",
        about: "every combination of features",
        needs: &[],
        run: features::powerset,
    },
    Step { name: "test", about: "every test, on stable", needs: &[], run: || test::run(&[]) },
    Step {
        name: "package",
        about: "archives, built and tested outside",
        needs: &[],
        run: || package::run(&[]),
    },
    Step {
        name: "msrv",
        about: "the published crates on the oldest toolchain",
        needs: &[Need::Toolchain(MSRV)],
        run: msrv,
    },
    Step {
        name: "minimal-versions",
        about: "the oldest dependencies that the manifests allow",
        needs: &[Need::Toolchain("nightly")],
        run: package::minimal_versions,
    },
    Step {
        name: "labels",
        about: "feature labels on docs.rs",
        needs: &[Need::Toolchain("nightly")],
        run: || labels::run(&[]),
    },
    Step {
        name: "check-windows",
        about: "the libraries build for Windows",
        needs: &[Need::Target(WINDOWS)],
        run: || check(WINDOWS),
    },
    Step {
        name: "check-macos",
        about: "the published crates build for macOS",
        needs: &[Need::Target(MACOS)],
        run: || {
            check(MACOS)?;
            // Its TLS library is written in C, and this machine has no C compiler for the target. The
            // step in-memory-macos builds it.
            let program = ["check", "--no-default-features", "--package", package::PROGRAM];
            let mut command = shell::cargo(program);
            command.args(["--target", MACOS]);
            shell::run(command)
        },
    },
    Step {
        name: "in-memory-windows",
        about: "tests over in-memory nodes, on Windows",
        needs: &[Need::Os("windows")],
        run: in_memory,
    },
    Step {
        name: "in-memory-macos",
        about: "tests over in-memory nodes, and the command line, on macOS",
        needs: &[Need::Os("macos")],
        run: in_memory,
    },
    Step {
        name: "deny",
        about: "licences, advisories and sources of dependencies",
        needs: &[Need::Tool("deny")],
        run: deny::run,
    },
    Step {
        name: "fuzz",
        about: "each fuzz target for a minute",
        needs: &[Need::Toolchain("nightly"), Need::Tool("fuzz")],
        run: fuzz::run,
    },
    Step {
        name: "semver",
        about: "no breaking change without the version that it takes",
        needs: &[Need::Tool("semver-checks")],
        run: semver::run,
    },
];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if arguments.iter().any(|it| it == "--list") {
        for step in STEPS {
            println!("{:<18} {}", step.name, step.about);
        }
        return Ok(());
    }
    let strict = arguments.iter().any(|it| it == "--strict");
    let names: Vec<_> = arguments.iter().filter(|it| !it.starts_with("--")).collect();
    if let Some(name) = names.iter().find(|name| !STEPS.iter().any(|step| step.name == **name)) {
        return Err(Failure::new(format!("there is no step {name:?}: see cargo xtask ci --list")));
    }
    let mut report = Vec::new();
    for step in STEPS.iter().filter(|it| names.is_empty() || names.iter().any(|n| *n == it.name)) {
        println!("\n== {}: {}", step.name, step.about);
        let outcome = match step.needs.iter().find_map(|need| need.lacks()) {
            Some(lack) => Outcome::Skipped(lack),
            None => (step.run)()
                .map_or_else(|error| Outcome::Failed(error.to_string()), |()| Outcome::Passed),
        };
        report.push((step.name, outcome));
    }
    println!();
    let mut bad = Vec::new();
    for (name, outcome) in &report {
        match outcome {
            Outcome::Passed => println!("passed   {name}"),
            Outcome::Skipped(lack) => println!("SKIPPED  {name}: {lack}"),
            Outcome::Failed(error) => println!("FAILED   {name}: {error}"),
        }
        if matches!(outcome, Outcome::Failed(_)) || strict && matches!(outcome, Outcome::Skipped(_))
        {
            bad.push(*name);
        }
    }
    if bad.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(format!("did not pass: {}", bad.join(", "))))
    }
}

enum Outcome {
    Passed,
    /// What this machine lacks.
    Skipped(String),
    Failed(String),
}

impl Need {
    /// What this machine lacks, and how to get it.
    fn lacks(self) -> Option<String> {
        match self {
            Self::Toolchain(name) => (!succeeds("rustup", &["run", name, "cargo", "--version"]))
                .then(|| format!("no toolchain {name}: rustup toolchain install {name}")),
            Self::Target(name) => (!prints("rustup", &["target", "list", "--installed"], name))
                .then(|| format!("no target {name}: rustup target add {name}")),
            Self::Tool(name) => (!succeeds("cargo", &[name, "--version"]))
                .then(|| format!("no cargo-{name}: cargo install cargo-{name}")),
            Self::Os(name) => {
                (std::env::consts::OS != name).then(|| format!("this machine is not {name}"))
            }
        }
    }
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let quiet =
        Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

fn prints(program: &str, arguments: &[&str], line: &str) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).lines().any(|it| it == line))
}

fn libraries() -> impl Iterator<Item = &'static str> {
    package::LIBRARIES.iter().flat_map(|name| ["--package", *name])
}

fn msrv() -> Result<(), Failure> {
    let mut command = shell::cargo_of(MSRV, ["test", "--all-features", "--lib"]);
    command.args(libraries());
    // The compiler is another one, and so is what it builds.
    command.env("CARGO_TARGET_DIR", shell::target().join("msrv"));
    shell::run(command)?;
    let mut command = shell::cargo_of(MSRV, ["check", "--package", package::PROGRAM]);
    command.env("CARGO_TARGET_DIR", shell::target().join("msrv"));
    shell::run(command)
}

fn check(target: &str) -> Result<(), Failure> {
    let mut command = shell::cargo(["check", "--features", PORTABLE, "--target", target]);
    command.args(libraries());
    shell::run(command)
}

fn in_memory() -> Result<(), Failure> {
    let mut command = shell::cargo(["test", "--features", PORTABLE, "--no-fail-fast"]);
    command.args(libraries());
    shell::run(command)?;
    if cfg!(unix) {
        shell::run(shell::cargo(["build", "--package", package::PROGRAM]))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
