//! The program as a shell uses it, on real servers.

#![allow(clippy::unwrap_used, reason = "these are tests, if not all of them are #[test]")]

mod environment;
mod health;
mod inspect;
mod printing;
mod release;
mod signals;
mod starts;
mod stops;

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use redlock_tests::{LIMIT, Nodes};
use rustix::process::{Pid, Signal, kill_process};

fn redlock(nodes: &Nodes, arguments: &[&str]) -> Command {
    started_with("--default-signal", nodes, arguments)
}

/// This option of `env` says what becomes of signals. Where tests run in the background, some are ignored.
fn started_with(signals: &str, nodes: &Nodes, arguments: &[&str]) -> Command {
    // In a session of its own, no terminal controls it, wherever the tests run.
    let mut command = Command::new("setsid");
    // Patient with servers on a busy machine.
    command
        .args(["env", signals, env!("CARGO_BIN_EXE_redlock")])
        .env("REDLOCK_NODES", nodes.urls().join(", "))
        .args(["--node-timeout", "4s"])
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// The exit code, and what was printed and told.
fn done(nodes: &Nodes, arguments: &[&str]) -> (i32, String, String) {
    told(redlock(nodes, arguments).output().unwrap())
}

fn told(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Waits in a shell until the file is there. It ends with the test whose folder that is.
fn until_there(file: &Path) -> String {
    let folder = file.parent().unwrap().display();
    format!("while [ -d {folder} ] && ! [ -e {} ]; do sleep 0.05; done", file.display())
}

/// A command that runs under the lock until it is told to end.
struct Holder {
    child: Child,
    /// What it prints.
    lines: Receiver<String>,
}

impl Holder {
    fn start(nodes: &Nodes, options: &[&str], script: &str) -> Self {
        let mut words = vec!["run", "r", "--ttl", "12s"];
        words.extend(options);
        words.extend(["--", "sh", "-c", script]);
        let mut child = redlock(nodes, &words).stdout(Stdio::piped()).spawn().unwrap();
        let printed = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            printed.map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(LIMIT).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn code(mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(begun.elapsed() < LIMIT, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // A test that failed may have left it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    let nodes = Nodes::start(1);
    let run = |script| done(&nodes, &["run", "r", "--", "sh", "-c", script]).0;
    assert_eq!(run("exit 0"), 0);
    assert_eq!(run("exit 7"), 7);
    assert_eq!(run("kill -TERM $$"), 128 + 15);
    assert!(nodes[0].keys().is_empty(), "{:?}", nodes[0].keys());
}

#[test]
fn the_command_finds_its_lock_and_its_token() {
    let nodes = Nodes::start(1);
    let script = "echo $REDLOCK_RESOURCE $REDLOCK_TOKEN";
    let run = |options: &[&str]| {
        let mut words = vec!["run"];
        words.extend(options);
        words.extend(["r", "--", "sh", "-c", script]);
        done(&nodes, &words).1
    };
    assert_eq!(run(&[]), "r\n");
    let mut tokens = [(); 2].map(|()| run(&["--fenced"]));
    tokens.iter_mut().for_each(|it| *it = it.strip_prefix("r ").unwrap().to_owned());
    let [first, second] = tokens.map(|it| it.trim().parse::<u64>().unwrap());
    assert!(second > first);
}

/// The command stands in a redlock of its own, for example, whose token is not that of this lock.
#[test]
fn the_command_finds_no_token_of_another_lock() {
    let nodes = Nodes::start(1);
    let words = ["run", "r", "--", "sh", "-c", "echo $REDLOCK_RESOURCE $REDLOCK_TOKEN"];
    let outer = redlock(&nodes, &words).env("REDLOCK_TOKEN", "7").output().unwrap();
    assert_eq!(told(outer).1, "r\n");
}

#[test]
fn the_client_has_the_name_and_the_keys_the_prefix_that_were_given() {
    let nodes = Nodes::start(1);
    let options = ["--client-name", "me", "--key-prefix", "ours:"];
    let holder = Holder::start(&nodes, &options, "echo held; exec sleep 1000");
    assert_eq!(holder.line(), "held");
    assert_eq!(nodes[0].keys(), ["ours:r"]);
    let (_, shown, _) = done(&nodes, &["--key-prefix", "ours:", "inspect", "r"]);
    assert!(shown.starts_with("r: held by me, "), "{shown}");
    holder.signal(Signal::TERM);
    assert_eq!(holder.code(), Some(128 + 15));
}

#[test]
fn a_lock_is_kept_for_min_hold_and_its_command_stopped_after_max_hold() {
    let nodes = Nodes::start(1);
    let run = ["run", "r", "--wait", "0s", "--min-hold", "10m", "--max-ttl", "10m", "--", "true"];
    assert_eq!(done(&nodes, &run).0, 0);
    assert_eq!(done(&nodes, &run).0, 75, "the job ran a moment ago");
    let run = ["run", "s", "--max-hold", "200ms", "--", "sleep", "1000"];
    let (code, _, told) = done(&nodes, &run);
    assert!(
        code == 74 && told.contains("max_hold") && told.contains("was stopped"),
        "{code} {told}"
    );
}

/// The work is done: the result is that of the command.
#[test]
fn a_lock_that_may_stay_is_told_and_no_failure_of_the_command() {
    let nodes = Nodes::start(1);
    let folder = tempfile::tempdir().unwrap();
    let (begun, go_on) = (folder.path().join("begun"), folder.path().join("go-on"));
    let waits = until_there(&go_on);
    let script = format!("touch {}; {waits}; exit 3", begun.display());
    let run = ["run", "r", "--ttl", "60s", "--", "sh", "-c", &script];
    let child = redlock(&nodes, &run).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while !begun.exists() {
        assert!(started.elapsed() < LIMIT, "it does not run");
        std::thread::sleep(Duration::from_millis(20));
    }
    nodes[0].kill();
    std::fs::write(go_on, "").unwrap();
    let (code, _, told) = told(child.wait_with_output().unwrap());
    assert!(code == 3 && told.contains("may stay for its ttl"), "{code} {told}");
}

#[test]
fn a_lock_that_is_held_is_75_and_is_seen_and_taken_away() {
    let nodes = Nodes::start(3);
    let holder = Holder::start(&nodes, &[], "echo held; exec sleep 1000");
    assert_eq!(holder.line(), "held");
    let (code, _, told) = done(&nodes, &["run", "r", "--wait", "0s", "--", "true"]);
    assert!(code == 75 && told.contains("held"), "{code} {told}");
    let skips = ["run", "r", "--wait", "0", "--held-exit-code", "0", "--", "false"];
    assert_eq!(done(&nodes, &skips), (0, String::new(), String::new()), "cron mails nothing");

    let (code, shown, _) = done(&nodes, &["inspect", "r"]);
    assert!(code == 0 && shown.starts_with("r: held by "), "{shown}");
    let (code, shown, _) = done(&nodes, &["--json", "inspect", "r"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(code, 0);
    assert!(shown["holder"].is_string() && shown["remaining_ms"].as_u64() > Some(0), "{shown}");
    assert_eq!(shown["nodes"].as_array().unwrap().len(), 3);

    assert_eq!(done(&nodes, &["release", "r"]).0, 0);
    assert_eq!(done(&nodes, &["run", "r", "--wait", "0s", "--", "true"]).0, 75, "not yet free");
    assert_eq!(holder.code(), Some(74), "the command was stopped");
    assert_eq!(done(&nodes, &["run", "r", "--wait", "60s", "--", "true"]).0, 0);
    let (_, shown, _) = done(&nodes, &["inspect", "r"]);
    assert!(shown.starts_with("r: free"), "{shown}");
}

#[test]
fn a_server_that_is_young_sits_out_on_demand_and_the_ttl_goes_up_to_max_ttl() {
    let nodes = Nodes::start(1);
    let run = |options: &[&str]| {
        let mut words = vec!["run", "r", "--wait", "0s"];
        words.extend(options);
        words.extend(["--", "true"]);
        done(&nodes, &words)
    };
    let (code, _, told) = run(&["--restarts", "Strict"]);
    assert!(code == 69 && told.contains("votes again in"), "{code} {told}");
    let (code, shown, _) = done(&nodes, &["--restarts", "strict", "health"]);
    assert!(code == 69 && shown.contains("gives no votes for "), "{code} {shown}");
    assert_eq!(run(&["--restarts", "trusted"]).0, 0);
    let (code, _, told) = run(&["--ttl", "5m"]);
    assert!(code == 64 && told.contains("max_ttl"), "{code} {told}");
    assert_eq!(run(&["--ttl", "5m", "--max-ttl", "5m"]).0, 0);
}

/// A pool whose locks are short has a `max_ttl` under the usual ttl.
#[test]
fn every_command_works_with_a_max_ttl_that_is_short() {
    let nodes = Nodes::start(1);
    for short in [&["--max-ttl", "10s"][..], &["--max-ttl", "1s"]] {
        for command in
            [&["run", "r", "--", "true"][..], &["inspect", "r"], &["release", "r"], &["health"]]
        {
            // Without the patience of these tests, which is longer than such locks.
            let mut program = Command::new(env!("CARGO_BIN_EXE_redlock"));
            let words = [short, command].concat();
            let output =
                program.env("REDLOCK_NODES", nodes.urls().join(",")).args(&words).output().unwrap();
            let (code, shown, told) = told(output);
            // A machine with too much to do may be too slow for such locks.
            assert!(code != 64, "{words:?}: {shown} {told}");
        }
    }
}

#[test]
fn what_cannot_work_is_64_and_no_quorum_is_69() {
    let nodes = Nodes::start(1);
    for words in [
        &["run", "r"][..],
        &["run", "r", "--ttl", "soon", "--", "true"],
        &["run", "r", "--wait", "30", "--", "true"],
        &["run", "r", "--ttl", "10d", "--", "true"],
        &["run", "r", "--max-hold", "0s", "--", "true"],
        &["run", "", "--", "true"],
        &["--node", "http://x", "health"],
        &["--node", "redis://a", "health", "--node=redis://b,redis://c"],
        &["fly"],
        &[],
    ] {
        let (code, _, told) = done(&nodes, words);
        assert!(code == 64 && !told.is_empty(), "{words:?}: {code} {told}");
    }
    for words in [
        &["health", "redis://u:secret@h"][..],
        &["health", "redis:u:secret@h"],
        &["health", "redis://u:a secret@h"],
        &["run", "r", "--ttl", "redis://u:it's-secret@h", "--", "true"],
        &["--restarts", "redis://:a://secret@h", "health"],
    ] {
        let (code, _, told) = done(&nodes, words);
        let is_hidden = !told.contains("secret") && told.contains("behind --node");
        assert!(code == 64 && is_hidden, "{words:?}: {told}");
    }
    let bare =
        Command::new(env!("CARGO_BIN_EXE_redlock")).env_remove("REDLOCK_NODES").output().unwrap();
    let (code, _, help) = told(bare);
    assert!(code == 64 && help.contains("Usage:"), "{help}");
    for without in [None, Some(""), Some(" , ")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redlock"));
        command.env_remove("REDLOCK_NODES").envs(without.map(|urls| ("REDLOCK_NODES", urls)));
        let (code, _, told) = told(command.arg("health").output().unwrap());
        assert!(code == 64 && told.contains("no nodes: name them with --node"), "{told}");
    }

    assert_eq!(done(&nodes, &["health"]).0, 0);
    let down = ["--node", "redis://127.0.0.1:1"];
    for words in
        [&["health"][..], &["inspect", "r"], &["release", "r"], &["run", "r", "--", "true"]]
    {
        let words: Vec<_> = down.iter().chain(words).copied().collect();
        let (code, ..) = done(&nodes, &words);
        assert_eq!(code, 69, "{words:?}");
    }
}

#[test]
fn packagers_get_completions_and_manual_pages() {
    let nodes = Nodes::start(1);
    for shell in ["bash", "zsh", "fish"] {
        let (code, script, _) = done(&nodes, &["completions", shell]);
        assert!(code == 0 && script.contains("inspect"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(done(&nodes, &["man", folder.path().to_str().unwrap()]).0, 0);
    let page = std::fs::read_to_string(folder.path().join("redlock-run.1")).unwrap();
    assert!(page.contains("REDLOCK_TOKEN"), "{page}");
    // What a password would be seen in.
    let (_, help, _) = done(&nodes, &["--help"]);
    assert!(!help.contains("127.0.0.1"), "{help}");
}
