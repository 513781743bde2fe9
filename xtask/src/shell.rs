//! Running other programs: what is run is printed first, unless it runs beside others, and a failure says which it was.

use std::{
    borrow::BorrowMut,
    ffi::OsStr,
    fmt, panic,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
};

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

/// Runs the command beside what the terminal shows, which it leaves alone: what it prints is part of its failure.
/// At a low priority, so that it takes the time that others leave.
pub(crate) fn run_aside(command: &Command) -> Result<(), Failure> {
    let line = display(command);
    let mut nice = Command::new("nice");
    nice.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    nice.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        nice.current_dir(folder);
    }
    match nice.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let (out, err) = (output.stdout, output.stderr);
            let printed = [out, err].map(|it| String::from_utf8_lossy(&it).into_owned()).concat();
            Err(Failure::new(format!("`{line}` ended with {}:\n{printed}", output.status)))
        }
        Err(error) => Err(Failure::new(format!("`nice {line}` could not be run: {error}"))),
    }
}

/// Does one thing beside the other, which uses [`run_aside`]. The first failure is that of `main`.
pub(crate) fn beside(
    main: impl FnOnce() -> Result<(), Failure>,
    aside: impl FnOnce() -> Result<(), Failure> + Send,
) -> Result<(), Failure> {
    thread::scope(|scope| {
        let aside = scope.spawn(aside);
        let main = main();
        let aside = aside.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        main.and(aside)
    })
}

/// Has the command compile with these flags: in a target directory of its own, so that changing back and forth builds
/// nothing anew.
pub(crate) fn with_flags(command: &mut Command, flags: &str, directory: &str) {
    command.env("RUSTFLAGS", flags);
    command.env("CARGO_TARGET_DIR", target().join(directory));
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
    fn a_command_aside_has_its_variables_and_tells_what_it_printed() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo about $IT; exit $CODE"]).env("IT", "colours").env("CODE", "3");
        let failure = run_aside(&command).unwrap_err().to_string();
        assert!(
            failure.contains("exit status: 3") && failure.ends_with("about colours\n"),
            "{failure}"
        );
        run_aside(command.env("CODE", "0")).unwrap();
    }

    #[test]
    fn a_failure_on_either_side_is_the_failure_of_both() {
        let fails = |text: &str| Err(Failure::new(text));
        let of = |outcome: Result<(), Failure>| outcome.err().map(|failure| failure.to_string());
        assert_eq!(of(beside(|| Ok(()), || Ok(()))), None);
        assert_eq!(of(beside(|| Ok(()), || fails("aside"))).as_deref(), Some("aside"));
        assert_eq!(of(beside(|| fails("main"), || fails("aside"))).as_deref(), Some("main"));
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
