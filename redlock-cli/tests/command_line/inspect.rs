//! The state of a lock, for programs.

use serde_json::Value;

use super::*;

/// The exit code, and what is printed with `--json`.
fn inspected(nodes: &Nodes) -> (i32, Value) {
    let (code, shown, _) = done(nodes, &["--json", "inspect", "r"]);
    (code, serde_json::from_str(&shown).unwrap())
}

#[test]
fn the_state_is_that_of_a_quorum() {
    let nodes = Nodes::start(3);
    let is = |code: i32, state: &str| {
        let (found, shown) = inspected(&nodes);
        assert!(found == code && shown["state"] == state, "{state}: {found} {shown}");
        // What a reader sees says the same.
        let (_, words, _) = done(&nodes, &["inspect", "r"]);
        assert!(words.starts_with(&format!("r: {state}")), "{words}");
        shown
    };
    is(0, "free");
    let set = |node: usize| nodes[node].command(&["SET", "redlock:r", "x", "PX", "600000"]);
    set(0);
    is(0, "free");
    set(1);
    assert!(is(0, "held")["holder"].is_null(), "it has no name");
    nodes[1].kill();
    nodes[2].kill();
    // The node that is left has the lock. It alone may be wrong.
    assert!(is(69, "unknown")["holder"].is_null());
}

#[test]
fn a_holder_that_no_quorum_agrees_on_is_named_where_no_node_shows_another() {
    let nodes = Nodes::start(3);
    let set = |node: usize, name: &str| {
        let value = format!("{}.{name}", "0".repeat(40));
        nodes[node].command(&["SET", "redlock:r", &value, "PX", "600000"]);
    };
    let shows = |words: &str| {
        let (code, shown, _) = done(&nodes, &["inspect", "r"]);
        assert!(code == 0 && shown.starts_with(&format!("r: held by {words}, ")), "{shown}");
    };
    nodes[2].kill();
    set(0, "worker-1");
    shows("worker-1 on 1 of 3 nodes");
    set(1, "worker-2");
    shows("a client without a name or by several");
    set(1, "worker-1");
    shows("worker-1");
}
