//! A network of a test's own, and tests that cannot run on a machine.

use std::{
    io::Write,
    process::{Command, Stdio},
};

/// Set in the process that runs inside.
const INSIDE: &str = "REDLOCK_TEST_NAMESPACE";

const SKIPPED: &str = "SKIPPED";

/// Set where no test may be skipped.
const STRICT: &str = "REDLOCK_STRICT";

/// How `unshare` is called: as an ordinary user where that is allowed, else as root.
const WAYS: [&[&str]; 2] = [&["-r", "-n", "-m"], &["-n", "-m"]];

/// Whether the calling test runs in network and mount namespaces of its own, with a loopback that
/// is up, and nothing else. If not, runs this test, `path` in this binary, once more in such a
/// place, fails where it fails, and answers false: then there is nothing left to do.
#[must_use]
pub fn inside_namespace(path: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let Some(way) = WAYS.iter().find(|way| may(way)) else {
        let row = path.rsplit("::").next().unwrap_or(path);
        skipped(row, "no network namespace can be made here (unshare, ip)");
        return false;
    };
    let output = unshare(way)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", path, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && words.contains("1 passed"),
        "{path} in a namespace:\n{words}\n{errors}"
    );
    for line in errors.lines().filter(|line| line.starts_with(SKIPPED)) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    false
}

/// How to start a program that may move itself into a time namespace with another boot clock: what goes
/// before its name. `None`, and said so, where the machine cannot.
#[must_use]
pub fn before_moving_in_time(test: &str) -> Option<&'static [&'static str]> {
    const WAYS: [&[&str]; 2] = [&[], &["unshare", "-r"]];
    let may = |way: &&&[&str]| {
        let words = [way, &["unshare", "--time", "--boottime", "1", "true"][..]].concat();
        let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
        output.is_ok_and(|output| output.status.success())
    };
    let way = WAYS.iter().find(may);
    if way.is_none() {
        skipped(test, "no time namespace can be made here (unshare --time)");
    }
    way.copied()
}

fn unshare(way: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(way).args(["sh", "-c", r#"ip link set lo up && exec "$@""#, "sh"]);
    command.stdin(Stdio::null());
    command
}

fn may(way: &[&str]) -> bool {
    unshare(way).arg("true").output().is_ok_and(|output| output.status.success())
}

/// Says on the terminal that a test could not run here, where `cargo test` does not hide it. Fails the test when
/// `REDLOCK_STRICT` is set: a machine that is to run them all must not pass without them.
pub fn skipped(test: &str, reason: &str) {
    assert!(std::env::var_os(STRICT).is_none(), "{SKIPPED} {test}: {reason} ({STRICT} is set)");
    // print! would be captured, and shown for failures alone.
    let _ = writeln!(std::io::stderr(), "{SKIPPED} {test}: {reason}");
}
