//! A wall clock for servers that a test can set: a small library that is preloaded into
//! redis-server. (libfaketime crashes the redis-server of Debian: wolfcw/libfaketime#130.)

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// The library, compiled with the `cc` that Rust links with.
#[derive(Debug)]
pub struct ClockShim {
    directory: TempDir,
}

impl ClockShim {
    /// Compiles the library. The error is in words where no compiler is found.
    pub fn compile() -> Result<Self, String> {
        let directory = tempfile::Builder::new().prefix("redlock-clock-").tempdir().unwrap();
        let source = directory.path().join("clock.c");
        std::fs::write(&source, include_str!("clock.c")).unwrap();
        let shim = Self { directory };
        let output = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(shim.path())
            .arg(&source)
            .output()
            .map_err(|error| format!("cc cannot be run: {error}"))?;
        if output.status.success() {
            Ok(shim)
        } else {
            let words = String::from_utf8_lossy(&output.stderr);
            Err(format!("cc does not compile the clock: {}", words.lines().next().unwrap_or("?")))
        }
    }

    /// What goes before the words of a program, for a wall clock of its own: ahead by the nanoseconds
    /// in this file, an `i64` in the order of bytes of this machine. The shim must outlive it.
    pub fn before_program(&self, clock: &Path) -> [String; 3] {
        let preload = format!("LD_PRELOAD={}", self.path().display());
        let clock = format!("REDLOCK_CLOCK={}", clock.display());
        ["env".to_owned(), preload, clock]
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("clock.so")
    }
}
