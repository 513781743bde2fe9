//! A program of another language.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A program that was built: its words, and the directory in which it runs.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    words: Vec<String>,
    directory: PathBuf,
}

impl Program {
    pub(super) fn new(words: &[&str], directory: &Path) -> Self {
        let words = words.iter().map(ToString::to_string).collect();
        Self { words, directory: directory.to_owned() }
    }

    /// The command that runs it. Arguments follow.
    pub(crate) fn command(&self) -> Command {
        let mut words = self.words.iter();
        let mut command = Command::new(words.next().map_or("", String::as_str));
        command.args(words).current_dir(&self.directory);
        command
    }

    /// Runs it to its end. `Err` says why it did not end well.
    pub(super) fn run(&self) -> Result<(), String> {
        // All words would be a screen of class path.
        let program = self.words.first().map_or("", String::as_str);
        let output = self.command().stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("`{program}` could not be run: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let mut lines = said.lines().filter(|line| line.contains(char::is_alphabetic));
        let told = lines.find(|line| line.to_lowercase().contains("error"));
        let told = told.or(lines.next_back()).unwrap_or("it says nothing");
        Err(format!("`{program}` failed: {told}"))
    }
}
