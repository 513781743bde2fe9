//! The story of the paused holder comes out as it is told: over the nodes inside the program and
//! over real redis-servers.

#![allow(clippy::unwrap_used)] // a test fails by a panic

use std::process::Command;

use redlock_tests::Nodes;

/// What the example prints, without the tokens.
fn told(arguments: &[&str], nodes: Option<&Nodes>) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencing"));
    command.args(arguments).env_remove("REDLOCK_NODES");
    if let Some(nodes) = nodes {
        command.env("REDLOCK_NODES", nodes.urls().join(","));
    }
    let output = command.output().unwrap();
    let (printed, errors) = (String::from_utf8(output.stdout), output.stderr);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&errors));
    let lines = printed.unwrap();
    let is_token = |word: &str| word.trim_end_matches(':').len() > 2 && word.starts_with('1');
    let words =
        |line: &str| line.split(' ').filter(|word| !is_token(word)).collect::<Vec<_>>().join(" ");
    lines.lines().map(words).collect()
}

const BEFORE: [&str; 5] = [
    "A holds the lock with token and reads 10",
    "A has checked that its lock is valid, and stands still",
    "B holds the lock with token and reads 10",
    "B writes 9 with token accepted",
    "A goes on",
];

#[test]
fn the_write_of_a_holder_that_stood_still_is_refused() {
    let servers = Nodes::start(3);
    for nodes in [None, Some(&servers)] {
        let after = [
            "A writes 9 with token refused: a later holder has been there",
            "1 of 10 sold, 9 in stock",
            "no update is lost",
        ];
        assert_eq!(told(&[], nodes), [&BEFORE[..], &after[..]].concat());
    }
}

#[test]
fn without_the_check_an_update_is_lost() {
    let after = [
        "A writes 9 with token accepted",
        "2 of 10 sold, 9 in stock",
        "1 update lost: the stock says that 1 was sold",
    ];
    assert_eq!(told(&["--unchecked"], None), [&BEFORE[..], &after[..]].concat());
}
