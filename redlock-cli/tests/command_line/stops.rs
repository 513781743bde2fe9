//! How long a command that is stopped has the lock, and what is waited for.

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
    let options = ["--max-hold", "1ms", "--kill-after", "10m"];
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
