//! The programs that `cargo xtask` runs for long do what they say when they run briefly.

use std::process::Command;

/// What the program prints; fails the test unless it succeeds.
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}:\n{printed}\n{errors}", output.status);
    printed
}

#[test]
fn a_short_soak_has_no_overlap_and_every_worker_gets_a_turn() {
    // Every worker has to hold a lock before the faults and after them, or the program fails.
    let printed = output(env!("CARGO_BIN_EXE_redlock-soak"), &["--seconds", "10"]);
    assert!(printed.trim_end().ends_with("overlaps     0"), "{printed}");
    assert!(!printed.contains("holds        0:"), "{printed}");
}

#[test]
fn a_lock_alone_loses_the_update_of_a_client_that_stands_still_and_a_token_does_not() {
    let arguments = ["--rounds", "2", "--increments", "300"];
    let printed = output(env!("CARGO_BIN_EXE_redlock-lost-updates"), &arguments);
    let row = |store: &str, clients: &str| -> Vec<usize> {
        let rest = printed.lines().find_map(|line| {
            let line = line.strip_prefix(store)?.trim_start();
            line.strip_prefix(clients)
        });
        rest.unwrap().split_whitespace().map(|word| word.parse().unwrap()).collect()
    };
    for store in ["no token", "a fencing token"] {
        assert_eq!(row(store, "left alone"), [0, 0, 200, 0, 200, 0]);
    }
    let stopped = "stopped between check and write";
    assert_eq!(row("no token", stopped), [2, 0, 4, 0, 2, 2]);
    assert_eq!(row("a fencing token", stopped), [2, 0, 2, 2, 2, 0]);
    let random = row("a fencing token", "stopped at random, clocks set");
    let [_, _, increments, _, counter, lost] = random[..] else {
        panic!("{printed}");
    };
    assert!(increments >= 300 && counter == increments && lost == 0, "{printed}");
}
