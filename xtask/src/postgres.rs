//! Sees to it that there is a PostgreSQL to test with, where that can be had.

use std::fs;

use crate::install::{self, Server, runs};

const POSTGRES: Server = Server {
    name: "PostgreSQL",
    apt: "postgresql",
    dnf: "postgresql-server",
    apk: "postgresql",
    brew: "postgresql",
};

/// Where packages put programs that are not on the PATH: below a directory for each version.
const PLACES: [&str; 4] =
    ["/usr/lib/postgresql", "/usr/libexec", "/opt/homebrew/opt", "/usr/local/opt"];

/// Tries to install PostgreSQL if it is missing. Without it the tests that need it say that they
/// are skipped, and the others run.
pub(crate) fn try_to_ensure() {
    if is_here() {
        return;
    }
    if let Err(failure) = install::install(&POSTGRES) {
        println!("{failure}; the tests that need PostgreSQL are skipped");
    }
}

fn is_here() -> bool {
    let versions = PLACES.iter().flat_map(|place| fs::read_dir(place).into_iter().flatten());
    let mut directories = versions.flatten().map(|version| version.path());
    runs("initdb", "--version")
        || directories.any(|version| {
            ["bin/initdb", "initdb"].iter().any(|program| version.join(program).is_file())
        })
}
