//! Every example runs over one Redis, which is what most teams have.

#![allow(clippy::unwrap_used)] // a test fails by a panic

mod common;

use std::process::{Command, Output, Stdio};

use common::Service;
use redlock_tests::Nodes;

/// How often a program may fail because a busy machine kept its only node from answering in time.
const TRIES: usize = 10;

fn output(program: &str, nodes: &Nodes) -> Output {
    let mut command = Command::new(program);
    command.env("REDLOCK_NODES", nodes.urls().join(",")).stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn programs_that_end_do_their_work() {
    let nodes = Nodes::start(1);
    for (name, program) in [
        ("quickstart", env!("CARGO_BIN_EXE_quickstart")),
        ("cron", env!("CARGO_BIN_EXE_cron")),
        ("leader", env!("CARGO_BIN_EXE_leader")),
        ("fencing", env!("CARGO_BIN_EXE_fencing")),
        ("hyperf-port", env!("CARGO_BIN_EXE_hyperf-port")),
    ] {
        let mut failed = Vec::new();
        let succeeds = (0..TRIES).any(|_| {
            let output = output(program, &nodes);
            failed = output.stderr;
            output.status.success() && !output.stdout.is_empty()
        });
        assert!(succeeds, "{name}: {}", String::from_utf8_lossy(&failed));
    }
}

#[test]
fn services_start() {
    let nodes = Nodes::start(1);
    for program in [
        env!("CARGO_BIN_EXE_axum-orders"),
        env!("CARGO_BIN_EXE_tonic-orders"),
        env!("CARGO_BIN_EXE_observability"),
    ] {
        // Returns when it listens, which it does when its node has answered.
        Service::start(program, &nodes);
    }
}
