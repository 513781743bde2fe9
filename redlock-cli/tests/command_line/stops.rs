//! How long a command that is stopped has the lock, and what is waited for.

use redlock_tests::skipped;

use super::*;

/// The next client begins when the command has ended, however long it takes.
#[test]
fn the_lock_is_renewed_until_a_command_that_has_run_for_too_long_has_ended() {
    let nodes = Nodes::start(1);
    let folder = tempfile::tempdir().unwrap();
    let go_on = folder.path().join("go-on");
    let waits = until_there(&go_on);
    let script =
        format!("trap 'echo told; {waits}; exit 3' TERM; echo held; while :; do sleep 0.05; done");
    let options = ["--max-hold", "2s", "--kill-after", "10m"];
    let holder = Holder::start(&nodes, &options, &script);
    assert_eq!(holder.line(), "held");
    assert_eq!(holder.line(), "told");
    let begun = Instant::now();
    let mut before = nodes[0].ttl("redlock:r");
    loop {
        let left = nodes[0].ttl("redlock:r");
        assert!(left.is_some(), "it is free while the command works");
        if std::mem::replace(&mut before, left) < left {
            break;
        }
        assert!(begun.elapsed() < LIMIT, "it is not renewed");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::write(go_on, "").unwrap();
    assert_eq!(holder.code(), Some(74), "whatever its own exit code");
    assert!(nodes[0].keys().is_empty());
}

#[test]
fn a_command_that_runs_for_too_long_and_does_not_stop_is_killed() {
    let nodes = Nodes::start(1);
    let script = "trap '' TERM; echo held; while :; do sleep 0.05; done";
    let holder = Holder::start(&nodes, &["--max-hold", "1ms", "--kill-after", "100ms"], script);
    assert_eq!(holder.code(), Some(74));
    assert!(nodes[0].keys().is_empty());
}

#[test]
fn signals_are_passed_on_to_a_command_that_is_being_stopped() {
    let nodes = Nodes::start(1);
    let folder = tempfile::tempdir().unwrap();
    let waits = until_there(&folder.path().join("go-on"));
    let script =
        format!("trap 'echo told' TERM; trap 'echo interrupted; exit 3' INT; echo held; {waits}");
    let holder = Holder::start(&nodes, &["--kill-after", "10m"], &script);
    assert_eq!(holder.line(), "held");
    assert_eq!(done(&nodes, &["release", "--now", "r"]).0, 0);
    assert_eq!(holder.line(), "told");
    holder.signal(Signal::INT);
    assert_eq!(holder.line(), "interrupted");
    assert_eq!(holder.code(), Some(74));
}

/// The exit code of `redlock` as the first process of a container, which runs this script. None where there can be no
/// such process.
fn as_first_process(script: &str) -> Option<i32> {
    const WAYS: [&[&str]; 2] = [
        &["-r", "-p", "-f", "--mount-proc", "--kill-child"],
        &["-p", "-f", "--mount-proc", "--kill-child"],
    ];
    let may = |way: &&&[&str]| {
        let output = Command::new("unshare").args(**way).arg("true").output();
        output.is_ok_and(|output| output.status.success())
    };
    let Some(way) = WAYS.iter().find(may) else {
        skipped("the_first_process_of_a_container", "no process namespace can be made here");
        return None;
    };
    let nodes = Nodes::start(1);
    let mut command = Command::new("setsid");
    command
        .args(["env", "--default-signal", "unshare"])
        .args(*way)
        .arg(env!("CARGO_BIN_EXE_redlock"))
        .args(["--node", &nodes.urls().join(","), "--node-timeout", "4s"])
        .args(["run", "r", "--ttl", "12s", "--kill-after", "10m", "--", "sh", "-c"])
        .arg(script)
        .stdin(Stdio::null());
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        let is_late = begun.elapsed() > LIMIT;
        if is_late {
            let _ = child.kill();
            let _ = child.wait();
        }
        assert!(!is_late, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(nodes[0].keys().is_empty());
    assert!(status.code().is_some(), "a signal has ended it: {status}");
    status.code()
}

/// What a shell leaves behind becomes the child of that process, and stays there until it is reaped.
#[test]
fn the_first_process_of_a_container_does_not_wait_for_orphans_that_have_ended() {
    let script = "sleep 1000 & sleep 1001 & kill -TERM $PPID; wait";
    assert!(as_first_process(script).is_none_or(|code| code == 128 + 15));
}

/// They would fill the table of processes while the command runs.
#[test]
fn the_first_process_of_a_container_reaps_orphans_while_the_command_runs() {
    let script = "pid=$( (sleep 1000 > /dev/null & echo $!) ); kill $pid; \
                  while [ -d /proc/$pid ]; do sleep 0.05; done; exit 7";
    assert!(as_first_process(script).is_none_or(|code| code == 7));
}
