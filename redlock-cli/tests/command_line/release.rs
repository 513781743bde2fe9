//! What `redlock release` says of a lock that it took away, or did not find.

use serde_json::Value;

use super::*;

/// What is printed with `--json`.
fn json(nodes: &Nodes, words: &[&str]) -> Value {
    let (code, shown, told) = done(nodes, &[&["--json"], words].concat());
    assert_eq!(code, 0, "{told}");
    serde_json::from_str(&shown).unwrap()
}

#[test]
fn a_lock_that_was_free_is_not_taken_away() {
    let nodes = Nodes::start(3);
    for words in [&["release", "r"][..], &["release", "--now", "r"]] {
        let (code, shown, _) = done(&nodes, words);
        assert!(code == 0 && shown.starts_with("r: was free"), "{shown}");
    }
    let shown = json(&nodes, &["release", "--now", "r"]);
    assert_eq!((&shown["was_held"], &shown["deleted"]), (&false.into(), &false.into()));
    assert_eq!(shown["state"], "free");
}

#[test]
fn a_lock_that_cannot_be_looked_at_is_not_called_free() {
    let nodes = Nodes::start(1);
    // The key has another type.
    let plant = || {
        nodes[0].command(&["DEL", "redlock:r"]);
        nodes[0].command(&["LPUSH", "redlock:r", "a"]);
    };
    plant();
    let (code, shown, _) = done(&nodes, &["release", "--now", "r"]);
    assert!(code == 0 && shown.contains("state was unknown"), "{shown}");
    assert!(nodes[0].keys().is_empty(), "it was deleted: {:?}", nodes[0].keys());
    plant();
    let shown = json(&nodes, &["release", "--now", "r"]);
    assert_eq!((&shown["state"], &shown["deleted"]), (&"unknown".into(), &true.into()));
    plant();
    let (code, shown, _) = done(&nodes, &["release", "r"]);
    assert!(code == 0 && shown.contains("state was unknown"), "{shown}");
    plant();
    let shown = json(&nodes, &["release", "r"]);
    assert_eq!((&shown["state"], &shown["deleted"]), (&"unknown".into(), &false.into()));
}

#[test]
fn a_lock_that_never_expires_is_not_promised_to_get_free() {
    let nodes = Nodes::start(1);
    nodes[0].command(&["SET", "redlock:r", "x"]);
    let (code, shown, _) = done(&nodes, &["release", "r"]);
    assert!(code == 0 && shown.contains("never expires: use --now"), "{shown}");
    let shown = json(&nodes, &["release", "r"]);
    assert_eq!((&shown["state"], &shown["never_expires"]), (&"held".into(), &true.into()));
    let shown = json(&nodes, &["release", "--now", "r"]);
    assert_eq!((&shown["deleted"], &shown["never_expires"]), (&true.into(), &true.into()));
    assert!(nodes[0].keys().is_empty());
    nodes[0].command(&["SET", "redlock:r", "x", "PX", "600000"]);
    assert_eq!(json(&nodes, &["release", "r"])["never_expires"], false);

    // One node of three has such a key. That node would never vote for the lock again.
    let nodes = Nodes::start(3);
    nodes[1].command(&["SET", "redlock:r", "x"]);
    let (_, shown, _) = done(&nodes, &["inspect", "r"]);
    assert!(shown.contains(": held, never expires"), "{shown}");
    let (code, shown, _) = done(&nodes, &["release", "r"]);
    assert!(code == 0 && shown.contains("never expires: use --now"), "{shown}");
}

/// Another program has its key on the others.
#[test]
fn a_lock_that_is_free_on_a_minority_is_not_called_free() {
    let nodes = Nodes::start(3);
    for node in [&nodes[0], &nodes[1]] {
        node.command(&["LPUSH", "redlock:r", "a"]);
    }
    let (_, shown, told) = done(&nodes, &["release", "--now", "r"]);
    assert!(shown.contains("state was unknown"), "{shown} {told}");
}
