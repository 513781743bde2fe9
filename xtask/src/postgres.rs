//! Sees to it that there is a PostgreSQL to test with, where that can be had.

use std::{fs, path::Path};

use crate::install::{self, Server, runs};

const POSTGRES: Server = Server {
    name: "PostgreSQL",
    apt: "postgresql",
    dnf: "postgresql-server",
    apk: "postgresql",
    brew: "postgresql",
};

/// Where the packages of Debian put programs that are not on the PATH: `<version>/bin`.
const DEBIAN: &str = "/usr/lib/postgresql";

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
    let versions = fs::read_dir(Path::new(DEBIAN)).into_iter().flatten().flatten();
    let mut programs = versions.map(|version| version.path().join("bin/initdb"));
    runs("initdb", "--version") || programs.any(|program| program.is_file())
}
