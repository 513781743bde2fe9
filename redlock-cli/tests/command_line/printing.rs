//! What becomes of messages and output that cannot be written.

use std::fs::OpenOptions;

use super::*;

/// The end to write to of a pipe whose reader has gone.
fn closed_pipe() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

#[test]
fn a_message_without_a_reader_does_not_change_the_exit_code() {
    let nodes = Nodes::start(1);
    let down = ["--node", "redis://127.0.0.1:1", "run", "r", "--", "true"];
    let missing = ["run", "r", "--", "/no/such/program"];
    // The lock is taken away meanwhile, and `run` has something to say.
    let lost = ["run", "r", "--", "sh", "-c", "$REDLOCK release --now r; exit 5"];
    for (words, code) in [(&down[..], 69), (&missing, 127), (&lost, 5), (&["fly"], 64)] {
        let status = redlock(&nodes, words)
            .env("REDLOCK", env!("CARGO_BIN_EXE_redlock"))
            .stdout(Stdio::null())
            .stderr(closed_pipe())
            .status();
        assert_eq!(status.unwrap().code(), Some(code), "{words:?}");
    }
}

/// What prints something that was asked for.
const PRINTS: [&[&str]; 6] = [
    &["inspect", "r"],
    &["--json", "inspect", "r"],
    &["release", "r"],
    &["health"],
    &["completions", "bash"],
    &["--help"],
];

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let nodes = Nodes::start(1);
    for words in PRINTS {
        let output =
            redlock(&nodes, words).stdout(closed_pipe()).stderr(Stdio::piped()).spawn().unwrap();
        let (code, _, told) = told(output.wait_with_output().unwrap());
        assert!(code == 0 && told.is_empty(), "{words:?}: {code} {told}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_a_failure() {
    let nodes = Nodes::start(1);
    for words in PRINTS {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let child = redlock(&nodes, words).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let (code, _, told) = told(child.wait_with_output().unwrap());
        assert!(code == 70 && told.contains("cannot print"), "{words:?}: {code} {told}");
    }
}
