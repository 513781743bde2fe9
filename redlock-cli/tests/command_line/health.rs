//! What `redlock health` says of the nodes.

use redlock_tests::Flow;
use serde_json::Value;

use super::*;

/// The program is a new client. What it does before its first question is not how fast the node is.
#[test]
fn the_latency_of_a_node_is_without_the_time_to_connect() {
    let (far, away) = (Nodes::start(1), Duration::from_millis(100));
    let proxies = far.proxies();
    proxies[0].both(Flow::Delay(away));
    let round_trip = away.as_secs_f64() * 2e3;
    let gone = "redis://127.0.0.1:1";
    let other = Nodes::start(1);
    let url = [&proxies[0].url(), gone, &other.urls()[0]].join(",");
    let begun = Instant::now();
    loop {
        let (code, shown, told) = done(&far, &["--node", &url, "--json", "health"]);
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let node = &shown["nodes"][0];
        let latency = node["latency_ms"].as_f64().unwrap_or_else(|| panic!("{shown} {told}"));
        assert!(code == 0 && latency >= round_trip, "{shown}");
        let down = &shown["nodes"][1];
        assert!(down["up"] == false && down["error"].is_string(), "{shown}");
        // With a connection there are three round trips at least. A busy machine may need another look.
        if latency < 2.0 * round_trip {
            break;
        }
        assert!(begun.elapsed() < LIMIT, "{shown}");
    }
}

#[test]
fn health_passes_on_what_the_library_advises() {
    let nodes = Nodes::start(1);
    nodes[0].command(&["ACL", "SETUSER", "app", "on", ">p", "~*", "&*", "+@all", "-info"]);
    let url = format!("redis://app:p@{}", nodes[0].address());
    let (code, shown, _) = done(&nodes, &["--node", &url, "health"]);
    assert!(code == 0 && shown.contains("\n  advice: ") && shown.contains("+info"), "{shown}");
    let (_, shown, _) = done(&nodes, &["--node", &url, "--json", "health"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert!(shown["nodes"][0]["advice"][0].as_str().unwrap().contains("+info"), "{shown}");
}
