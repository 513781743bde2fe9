//! Running other programs: what is run is printed first, and a failure says which it was.

use std::{borrow::BorrowMut, ffi::OsStr, fmt, path::PathBuf, process::Command};

/// Why a task did not succeed, in one line.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `cargo`, the one that runs this task, at the top of the workspace.
pub(crate) fn cargo<I>(arguments: I) -> Command
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(workspace()).args(arguments);
    command
}

/// `cargo` of another toolchain, by rustup.
pub(crate) fn cargo_of<I>(toolchain: &str, arguments: I) -> Command
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    let mut command = Command::new("rustup");
    command.args(["run", toolchain, "cargo"]).current_dir(workspace()).args(arguments);
    // These name the toolchain that runs this task, and would be used instead.
    for variable in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(variable);
    }
    command
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// The directory of the workspace: of the one whose `cargo xtask` this is, which need not be the one
/// that it was built in, when clones share a target directory.
pub(crate) fn workspace() -> PathBuf {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR");
    let xtask = xtask.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    xtask.join("..")
}

/// Prints the command, runs it with this terminal, and fails unless it succeeds.
pub(crate) fn run(mut command: impl BorrowMut<Command>) -> Result<(), Failure> {
    let command = command.borrow_mut();
    let line = display(command);
    println!("$ {line}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::new(format!("`{line}` ended with {status}"))),
        Err(error) => Err(Failure::new(format!("`{line}` could not be run: {error}"))),
    }
}

/// The command as a user would type it.
fn display(command: &Command) -> String {
    let name = std::path::Path::new(command.get_program()).file_name();
    let variables = command.get_envs().filter_map(|(name, value)| {
        Some(format!("{}={:?}", name.to_string_lossy(), value?.to_string_lossy()))
    });
    let words = name.into_iter().chain(command.get_args()).map(|word| {
        let word = word.to_string_lossy();
        if word.contains(' ') { format!("{word:?}") } else { word.into_owned() }
    });
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = Command::new("/usr/bin/tool");
        command.args(["one", "two words"]).env("FLAGS", "-D warnings");
        assert_eq!(display(&command), "FLAGS=\"-D warnings\" tool one \"two words\"");
    }

    #[test]
    fn a_failure_names_the_command() {
        let mut command = Command::new("false");
        command.arg("now");
        let failure = run(command).unwrap_err().to_string();
        assert!(failure.starts_with("`false now` ended with"), "{failure}");
        let failure = run(Command::new("there-is-no-such-program")).unwrap_err().to_string();
        assert!(failure.starts_with("`there-is-no-such-program` could not be run"), "{failure}");
    }
}
