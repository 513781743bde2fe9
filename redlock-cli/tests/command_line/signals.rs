//! How a command is told to end, and ends.

use super::*;

#[test]
fn signals_are_passed_on_and_the_lock_is_released() {
    let nodes = Nodes::start(1);
    let script =
        "trap 'echo told; exit 3' TERM INT QUIT HUP; echo held; while :; do sleep 0.05; done";
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT, Signal::HUP] {
        let holder = Holder::start(&nodes, &[], script);
        assert_eq!(holder.line(), "held");
        holder.signal(signal);
        assert_eq!(holder.line(), "told", "{signal:?}");
        assert_eq!(holder.code(), Some(3));
        assert!(nodes[0].keys().is_empty());
    }
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let nodes = Nodes::start(1);
    let words = ["run", "r", "--", "sh", "-c", "kill -HUP 0 $PPID; echo on"];
    let (code, printed, told) =
        told(started_with("--ignore-signal=HUP", &nodes, &words).output().unwrap());
    assert!(code == 0 && printed == "on\n", "{code} {printed} {told}");
}

/// A parent that ignores SIGCHLD hands that down.
#[test]
fn the_exit_code_is_that_of_the_command_where_the_end_of_children_is_ignored() {
    let nodes = Nodes::start(1);
    let words = ["run", "r", "--", "sh", "-c", "exit 7"];
    let output = started_with("--ignore-signal=CHLD", &nodes, &words).output().unwrap();
    let (code, _, told) = told(output);
    assert_eq!(code, 7, "{told}");
}

/// A server that reads its settings again on SIGHUP, for example, and its workers.
#[test]
fn signals_that_commands_give_a_meaning_go_to_the_command_alone() {
    let nodes = Nodes::start(1);
    for signal in ["HUP", "USR1", "USR2"] {
        let folder = tempfile::tempdir().unwrap();
        let go_on = folder.path().join("go-on");
        let waits = until_there(&go_on);
        let script = format!(
            "({waits}; echo alive) & trap 'echo told' {signal}; echo held; \
             while ! [ -e {} ]; do sleep 0.05; done; wait",
            go_on.display()
        );
        let holder = Holder::start(&nodes, &[], &script);
        assert_eq!(holder.line(), "held");
        holder.signal(raw(signal));
        assert_eq!(holder.line(), "told", "{signal}");
        std::fs::write(go_on, "").unwrap();
        assert_eq!(holder.line(), "alive", "{signal}");
        assert_eq!(holder.code(), Some(0));
    }
}

fn raw(signal: &str) -> Signal {
    match signal {
        "HUP" => Signal::HUP,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        _ => Signal::TERM,
    }
}

/// It may have read its settings again. What it leaves behind is left on purpose.
#[test]
fn a_command_that_goes_on_after_a_hang_up_was_not_stopped() {
    let nodes = Nodes::start(1);
    let folder = tempfile::tempdir().unwrap();
    let waits = until_there(&folder.path().join("go-on"));
    let script = format!(
        "trap 'echo told; ({waits}) > /dev/null & exit 3' HUP; echo held; \
         while :; do sleep 0.05; done"
    );
    let holder = Holder::start(&nodes, &["--kill-after", "10m"], &script);
    assert_eq!(holder.line(), "held");
    holder.signal(Signal::HUP);
    assert_eq!(holder.line(), "told");
    assert_eq!(holder.code(), Some(3));
}

#[test]
fn all_that_the_command_started_is_told_and_waited_for() {
    let nodes = Nodes::start(1);
    for signal in ["TERM", "HUP", "USR1", "USR2"] {
        let folder = tempfile::tempdir().unwrap();
        let go_on = folder.path().join("go-on");
        let waits = until_there(&go_on);
        let inner = format!(
            "trap 'echo told; {waits}; exit' {signal}; echo held; while :; do sleep 0.05; done"
        );
        let script = format!("sh -c \"{inner}\"; echo never");
        let holder = Holder::start(&nodes, &["--kill-after", "10m"], &script);
        assert_eq!(holder.line(), "held");
        holder.signal(raw(signal));
        assert_eq!(holder.line(), "told");
        std::thread::sleep(Duration::from_millis(200));
        assert!(!nodes[0].keys().is_empty(), "the work goes on after {signal}");
        std::fs::write(go_on, "").unwrap();
        assert_eq!(holder.code(), Some(128 + raw(signal).as_raw()));
        assert!(nodes[0].keys().is_empty());
    }
}

#[test]
fn what_the_command_started_is_killed_with_it() {
    let nodes = Nodes::start(1);
    let inner = "trap '' TERM; echo held; while :; do sleep 0.05; done";
    let script = format!("sh -c \"{inner}\"; echo never");
    let holder = Holder::start(&nodes, &["--kill-after", "100ms"], &script);
    assert_eq!(holder.line(), "held");
    assert_eq!(done(&nodes, &["release", "--now", "r"]).0, 0);
    let printed = holder.lines.recv_timeout(LIMIT);
    assert_eq!(printed, Err(RecvTimeoutError::Disconnected), "nothing has the pipe open any more");
    assert_eq!(holder.code(), Some(74));
}

/// Linux has this process inherit them. Elsewhere the signals reach the group of the command alone.
#[test]
#[cfg(target_os = "linux")]
fn what_left_the_group_of_the_command_is_killed_with_it() {
    let nodes = Nodes::start(1);
    let inner = "trap '' TERM; echo held; while :; do sleep 0.05; done";
    let redlock = env!("CARGO_BIN_EXE_redlock");
    for script in [
        format!("trap '' TERM; setsid sh -c \"{inner}\"; echo never"),
        format!("{redlock} --node-timeout 4s run other -- sh -c \"{inner}\"; echo never"),
    ] {
        let holder = Holder::start(&nodes, &["--kill-after", "100ms"], &script);
        assert_eq!(holder.line(), "held");
        assert_eq!(done(&nodes, &["release", "--now", "r"]).0, 0);
        let printed = holder.lines.recv_timeout(LIMIT);
        assert_eq!(printed, Err(RecvTimeoutError::Disconnected), "nothing has the pipe open");
        assert_eq!(holder.code(), Some(74));
    }
}

/// The command obeys, and what it has started elsewhere would work on without the lock.
#[test]
#[cfg(target_os = "linux")]
fn what_left_the_group_of_a_command_that_stops_is_stopped_as_well() {
    let nodes = Nodes::start(1);
    for (traps, told) in [("trap \"echo told; exit\" TERM", true), ("trap \"\" TERM", false)] {
        let worker = format!("{traps}; echo held; for i in $(seq 600); do sleep 0.1; done");
        let script = format!("setsid sh -c '{worker}' 2> /dev/null & wait");
        let kill_after = if told { "10m" } else { "100ms" };
        let holder = Holder::start(&nodes, &["--kill-after", kill_after], &script);
        assert_eq!(holder.line(), "held");
        assert_eq!(done(&nodes, &["release", "--now", "r"]).0, 0);
        if told {
            assert_eq!(holder.line(), "told");
        }
        let printed = holder.lines.recv_timeout(LIMIT);
        assert_eq!(printed, Err(RecvTimeoutError::Disconnected), "nothing has the pipe open");
        assert_eq!(holder.code(), Some(74));
    }
}

/// A shell has started it, and became `redlock` then.
#[test]
#[cfg(target_os = "linux")]
fn what_the_command_has_not_started_is_not_killed_with_it() {
    let nodes = Nodes::start(1);
    let folder = tempfile::tempdir().unwrap();
    let beside = folder.path().join("beside");
    let script = format!(
        "setsid sh -c 'echo $$ > {}; exec sleep 1000' > /dev/null 2>&1 & exec {} --node {} --node-timeout 4s \
         run r --ttl 12s --max-hold 1s --kill-after 100ms -- sh -c \"trap '' TERM; while :; do sleep 0.05; done\"",
        beside.display(),
        env!("CARGO_BIN_EXE_redlock"),
        nodes.urls().join(","),
    );
    let run = Command::new("setsid").args(["sh", "-c", &script]).stdin(Stdio::null()).status();
    assert_eq!(run.unwrap().code(), Some(74));
    let id: i32 = std::fs::read_to_string(beside).unwrap().trim().parse().unwrap();
    let beside = Pid::from_raw(id).unwrap();
    assert_eq!(kill_process(beside, Signal::KILL), Ok(()), "it is there");
}

#[test]
fn a_signal_ends_the_waiting() {
    let nodes = Nodes::start(1);
    let first = Holder::start(&nodes, &[], "echo held; exec sleep 1000");
    assert_eq!(first.line(), "held");
    let second = Holder::start(&nodes, &["--wait", "10m"], "echo never");
    let begun = Instant::now();
    while !done(&nodes, &["inspect", "r"]).1.contains("waiting: ") {
        assert!(begun.elapsed() < LIMIT, "it does not wait");
    }
    second.signal(Signal::INT);
    assert_eq!(second.code(), Some(128 + 2));
    let (_, shown, _) = done(&nodes, &["inspect", "r"]);
    assert!(!shown.contains("waiting: "), "it has left the queue: {shown}");
    first.signal(Signal::TERM);
    assert_eq!(first.code(), Some(128 + 15));
}

#[test]
fn the_command_is_told_when_the_lock_is_lost() {
    let nodes = Nodes::start(1);
    let script = "trap 'echo told; exit 3' TERM; echo held; while :; do sleep 0.05; done";
    let holder = Holder::start(&nodes, &["--kill-after", "10m"], script);
    assert_eq!(holder.line(), "held");
    assert_eq!(done(&nodes, &["release", "--now", "r"]).0, 0);
    assert_eq!(holder.line(), "told");
    assert_eq!(holder.code(), Some(74), "whatever its own exit code");
}

/// It gets no other signal before it goes on.
#[test]
fn a_command_that_stands_still_is_told_as_well() {
    let nodes = Nodes::start(1);
    let script = "trap 'echo told; exit 3' TERM; echo held; kill -STOP $$; \
                  while :; do sleep 0.05; done";
    let takes_away = |nodes: &Nodes| assert_eq!(done(nodes, &["release", "--now", "r"]).0, 0);
    for (is_lost, code) in [(true, 74), (false, 3)] {
        let holder = Holder::start(&nodes, &["--kill-after", "10m"], script);
        assert_eq!(holder.line(), "held");
        std::thread::sleep(Duration::from_millis(100));
        if is_lost {
            takes_away(&nodes);
        } else {
            holder.signal(Signal::TERM);
        }
        assert_eq!(holder.line(), "told");
        assert_eq!(holder.code(), Some(code));
    }
}

#[test]
fn a_command_that_does_not_stop_is_killed() {
    let nodes = Nodes::start(1);
    let script = "trap '' TERM; echo held; while :; do sleep 0.05; done";
    let holder = Holder::start(&nodes, &["--kill-after", "100ms"], script);
    assert_eq!(holder.line(), "held");
    assert_eq!(done(&nodes, &["release", "--now", "r"]).0, 0);
    assert_eq!(holder.code(), Some(74));
}
