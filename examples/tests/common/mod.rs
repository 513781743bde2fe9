//! An example as a process of its own, over nodes of the test's own.

#![allow(clippy::expect_used, clippy::unwrap_used)] // a test fails by a panic
#![allow(dead_code)] // no suite needs all of it

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use redlock_tests::{Nodes, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// A service that runs until it is told to stop, killed when the test is over.
pub(crate) struct Service {
    process: Child,
    pub(crate) url: String,
}

impl Service {
    /// Starts the program of an example, and returns once it listens.
    pub(crate) fn start(program: &str, nodes: &Nodes) -> Self {
        Self::start_with(program, nodes, &[])
    }

    /// The same, with more environment variables.
    pub(crate) fn start_with(program: &str, nodes: &Nodes, variables: &[(&str, &str)]) -> Self {
        let mut process = Command::new(program)
            .envs(variables.iter().copied())
            .env("REDLOCK_NODES", nodes.urls().join(","))
            .env("ADDR", "127.0.0.1:0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let url = lines
            .by_ref()
            .map(Result::unwrap)
            .find_map(|line| line.strip_prefix("listening on ").map(str::to_owned))
            .expect("it says where it listens");
        // Whatever else it says must have somewhere to go.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, url }
    }

    pub(crate) fn terminate(&self) {
        let id = Pid::from_raw(i32::try_from(self.process.id()).unwrap()).unwrap();
        kill_process(id, Signal::TERM).unwrap();
    }

    pub(crate) async fn ends_well(mut self) {
        wait_until("the process ends", async || self.process.try_wait().unwrap().is_some()).await;
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Whether every node has a key of which this is a part.
pub(crate) fn locked(nodes: &Nodes, what: &str) -> bool {
    nodes.iter().all(|node| node.keys().iter().any(|key| key.contains(what)))
}
