//! Another process that uses the library, to be stopped and killed.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
};

use rustix::process::Pid;

use crate::{process, wait::within};

/// A running program, usually `redlock-process`, which ends when its standard input does, so at
/// the latest with its test.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    /// `None` once it was told to end.
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
}

impl Peer {
    /// Starts the program at `path`, such as `env!("CARGO_BIN_EXE_redlock-process")`.
    pub fn start<I>(path: &str, arguments: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        let mut child = Command::new(path)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{path} could not be started: {error}"));
        let output = child.stdout.take().map(BufReader::new);
        Self { input: child.stdin.take(), output, child }
    }

    /// The next line that it prints; empty when it has ended.
    pub async fn line(&mut self) -> String {
        let mut output = self.output.take().expect("no other task reads");
        let read = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            (line.trim_end().to_owned(), output)
        });
        let (line, output) = within("a line of another process", read).await.unwrap();
        self.output = Some(output);
        line
    }

    /// Ends its standard input, which tells it to come to its end.
    pub fn close(&mut self) {
        drop(self.input.take());
    }

    /// SIGSTOP; returns once it stands still.
    pub fn pause(&self) {
        process::pause(self.id());
    }

    /// Returns once it stands still, having stopped itself.
    pub fn wait_until_stopped(&self) {
        process::wait_until_stopped(self.id());
    }

    /// SIGCONT.
    pub fn resume(&self) {
        process::resume(self.id());
    }

    /// SIGKILL; returns once it is gone.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end, with whether it ended well.
    pub async fn end(mut self) -> bool {
        self.close();
        let wait = tokio::task::spawn_blocking(move || self.child.wait().unwrap().success());
        within("another process", wait).await.unwrap()
    }

    fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.input.take());
        if !thread::panicking() {
            return;
        }
        // A test that failed may have left it stopped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
