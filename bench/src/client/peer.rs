//! Locks of other languages. Each is a small program in `bench/peers`, built into a folder of its own with
//! the tools of its language.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A lock of another language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Node.js.
    NodeRedlock,
    /// Go.
    Redsync,
    /// The RedLock of Redisson. Java.
    Redisson,
}

/// A program that was built: its words, and the directory in which it runs.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    words: Vec<&'static str>,
    directory: PathBuf,
}

impl Program {
    fn new(words: &[&'static str], directory: &Path) -> Self {
        Self { words: words.to_vec(), directory: directory.to_owned() }
    }

    /// The command that runs it. Arguments follow.
    pub(crate) fn command(&self) -> Command {
        let mut words = self.words.iter();
        let mut command = Command::new(words.next().copied().unwrap_or_default());
        command.args(words).current_dir(&self.directory);
        command
    }

    /// Runs it to its end. `Err` says why it did not end well.
    fn run(&self) -> Result<(), String> {
        let words = self.words.join(" ");
        let output = self.command().stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("`{words}` could not be run: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let mut lines = said.lines().filter(|line| line.contains(char::is_alphabetic));
        let told = lines.find(|line| line.to_lowercase().contains("error"));
        Err(format!(
            "`{words}` failed: {}",
            told.or(lines.next_back()).unwrap_or("it says nothing")
        ))
    }
}

impl Peer {
    /// The name in tables, files and arguments, and of its folder.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NodeRedlock => "node-redlock",
            Self::Redsync => "redsync",
            Self::Redisson => "redisson",
        }
    }

    /// Builds the program, unless it is there already: its folder under `target/peers` is deleted to
    /// build it anew. `Err` says what is missing on this machine.
    pub(crate) fn build(self) -> Result<Program, String> {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let source = root.join("bench/peers").join(self.name());
        let built = root.join("target/peers").join(self.name());
        copy(&source, &built).map_err(|error| format!("{}: {error}", built.display()))?;
        let program = |words: &[&'static str]| Program::new(words, &built);
        let is_there = |path: &str| built.join(path).exists();
        match self {
            Self::NodeRedlock => {
                if !is_there("node_modules") {
                    program(&["npm", "install", "--no-audit", "--no-fund", "--silent"]).run()?;
                }
                Ok(program(&["node", "main.mjs"]))
            }
            Self::Redsync => {
                if !is_there("peer") {
                    program(&["go", "mod", "tidy"]).run()?;
                    program(&["go", "build", "-o", "peer", "."]).run()?;
                }
                Ok(program(&["./peer"]))
            }
            Self::Redisson => {
                if !is_there("target/dependency") {
                    let jars = "dependency:copy-dependencies";
                    program(&["mvn", "--quiet", "--batch-mode", "compile", jars]).run()?;
                }
                Ok(program(&["java", "-cp", "target/classes:target/dependency/*", "Main"]))
            }
        }
    }
}

/// Copies a folder of sources. What was built beside them before stays.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&from, &to)?;
        } else {
            fs::copy(from, to)?;
        }
    }
    Ok(())
}
