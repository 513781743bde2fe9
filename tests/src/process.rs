//! A process that ends when its test does, even if the test is killed.

use std::{
    ffi::OsStr,
    fs::File,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::wait_blocking;

/// Starts the program, says its process id, and kills it once standard input ends. The other end
/// of that pipe is in the test's process and nowhere else: it closes when a [`Process`] is
/// dropped, when a panic unwinds and when the test is killed.
const KEEPER: &str = r#"
"$@" </dev/null >&2 &
echo "$!"
read -r _
kill -9 "$!"
wait "$!"
"#;

/// A running program; dropping it kills it and waits for its end.
#[derive(Debug)]
pub(crate) struct Process {
    keeper: Child,
    /// `None` once the program was told to end.
    lifeline: Option<ChildStdin>,
    id: Pid,
}

impl Process {
    /// Starts a program whose output goes to the end of `log`.
    pub(crate) fn start<I>(program: &str, arguments: I, log: &Path) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "sh", program])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            // Not in the group of the terminal: Ctrl-C would end the keeper before its program.
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("sh could not be started: {error}"));
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let id = line.trim().parse().ok().and_then(Pid::from_raw);
        let id = id.unwrap_or_else(|| panic!("{program} was not started: {line:?}"));
        Self { lifeline: keeper.stdin.take(), keeper, id }
    }

    /// The process id. It stays this program's until this value is dropped, since the keeper
    /// waits for the program only at its own end.
    pub(crate) fn id(&self) -> i32 {
        self.id.as_raw_nonzero().get()
    }

    /// SIGSTOP; returns once the program stands still.
    pub(crate) fn pause(&self) {
        pause(self.id);
    }

    /// SIGCONT.
    pub(crate) fn resume(&self) {
        resume(self.id);
    }

    /// Tells the program to come to its end, and returns once it has.
    pub(crate) fn end(&self, signal: Signal) {
        // It may have ended by itself. What does not end is killed when this value is dropped.
        if kill_process(self.id, signal).is_ok() {
            wait_blocking(|| matches!(state(self.id).chars().next(), None | Some('Z')));
        }
    }
}

/// SIGSTOP; returns once the process stands still.
pub(crate) fn pause(id: Pid) {
    kill_process(id, Signal::STOP).unwrap();
    wait_until_stopped(id);
}

/// Returns once the process stands still.
pub(crate) fn wait_until_stopped(id: Pid) {
    let stopped = wait_blocking(|| state(id).starts_with('T'));
    assert!(stopped, "process {} does not stop: {}", id.as_raw_nonzero(), state(id));
}

/// SIGCONT.
pub(crate) fn resume(id: Pid) {
    kill_process(id, Signal::CONT).unwrap();
}

fn state(id: Pid) -> String {
    let output = Command::new("ps")
        .args(["-o", "stat=", "-p", &id.as_raw_nonzero().to_string()])
        .output()
        .unwrap_or_else(|error| panic!("ps could not be run: {error}"));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        // Only the keeper's own end is of interest, and a panic here could abort the test.
        let _ = self.keeper.wait();
    }
}
