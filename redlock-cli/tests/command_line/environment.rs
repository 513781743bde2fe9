//! Variables that stand for options.

use super::*;

/// As `done`, with variables.
fn done_with(nodes: &Nodes, variables: &[(&str, &str)], words: &[&str]) -> (i32, String, String) {
    told(redlock(nodes, words).envs(variables.iter().copied()).output().unwrap())
}

#[test]
fn the_prefix_may_be_in_the_environment() {
    let nodes = Nodes::start(1);
    nodes[0].command(&["SET", "ours:r", "x", "PX", "600000"]);
    let variable = [("REDLOCK_KEY_PREFIX", "ours:")];
    let (code, shown, _) = done_with(&nodes, &variable, &["inspect", "r"]);
    assert!(code == 0 && shown.starts_with("r: held"), "{shown}");
    // The option counts for more.
    let option = ["--key-prefix", "theirs:", "inspect", "r"];
    let (code, shown, _) = done_with(&nodes, &variable, &option);
    assert!(code == 0 && shown.starts_with("r: free"), "{shown}");
    let (_, help, _) = done(&nodes, &["run", "--help"]);
    assert!(help.contains("[env: REDLOCK_KEY_PREFIX=]"), "{help}");
}

/// Compose files write variables so when nothing was set for them.
#[test]
fn an_empty_variable_is_as_none() {
    let nodes = Nodes::start(1);
    nodes[0].command(&["SET", "redlock:r", "x", "PX", "600000"]);
    for variable in [
        "REDLOCK_KEY_PREFIX",
        "REDLOCK_MAX_TTL",
        "REDLOCK_RESTARTS",
        "REDLOCK_TLS_CA",
        "REDLOCK_TLS_CERT",
        "REDLOCK_TLS_KEY",
    ] {
        if variable.contains("TLS") && cfg!(not(feature = "tls")) {
            continue;
        }
        let (code, shown, told) = done_with(&nodes, &[(variable, "")], &["inspect", "r"]);
        assert!(code == 0 && shown.starts_with("r: held"), "{variable}: {code} {shown} {told}");
        let (code, help, _) = done_with(&nodes, &[(variable, "")], &["--help"]);
        assert!(code == 0 && help.contains(variable), "{help}");
    }
}

#[test]
fn a_value_that_cannot_work_is_told_with_its_variable() {
    let nodes = Nodes::start(1);
    for (variable, value, option) in
        [("REDLOCK_MAX_TTL", "60", "--max-ttl"), ("REDLOCK_RESTARTS", "maybe", "--restarts")]
    {
        for words in [&["health"][..], &["run", "r", "--", "true", option]] {
            let (code, _, told) = done_with(&nodes, &[(variable, value)], words);
            let names = told.contains(variable) && told.contains(option) && told.contains(value);
            assert!(code == 64 && names, "{words:?}: {told}");
        }
        // It is no mistake of the variable.
        for variables in [&[][..], &[(variable, value)]] {
            let (code, _, told) = done_with(&nodes, variables, &[option, value, "health"]);
            assert!(code == 64 && told.contains(option) && !told.contains(variable), "{told}");
        }
    }
}
