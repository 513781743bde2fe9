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
fn a_short_soak_has_no_overlap_and_everybody_gets_a_turn() {
    // Every worker has to hold a lock before the faults and after them, or the program fails.
    let printed = output(env!("CARGO_BIN_EXE_redlock-soak"), &["--seconds", "10"]);
    assert!(printed.trim_end().ends_with("overlaps     0"), "{printed}");
    assert!(!printed.contains("holds        0:"), "{printed}");
}

#[test]
fn a_lock_alone_loses_the_update_of_a_client_that_stands_still() {
    let printed =
        output(env!("CARGO_BIN_EXE_redlock-lost-updates"), &["--rounds", "2", "--stops", "1"]);
    let row = |name: &str| -> Vec<usize> {
        let line = printed.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().map(|word| word.parse().unwrap()).collect()
    };
    assert_eq!(row("left alone"), [200, 200, 0]);
    assert_eq!(row("stopped between check and write"), [4, 2, 2]);
}
