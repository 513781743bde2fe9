//! The workflow and the steps are one list, and each job has what its step needs.

use super::*;

const WORKFLOW: &str = include_str!("../../../.github/workflows/ci.yml");

/// The words after `key` on the lines of the workflow.
fn after(key: &str) -> impl Iterator<Item = &str> {
    WORKFLOW.lines().filter_map(move |line| line.split_once(key).map(|(_, rest)| rest.trim()))
}

#[test]
fn the_workflow_runs_every_step_by_its_name_and_no_other() {
    let mut run: Vec<_> = after("cargo xtask ci --strict ").collect();
    run.sort_unstable();
    let mut steps: Vec<_> = STEPS.iter().map(|step| step.name).collect();
    steps.sort_unstable();
    assert_eq!(run, steps);
}

/// The job of this name.
fn job(name: &str) -> &str {
    let (_, rest) = WORKFLOW.split_once(&format!("\n  {name}:\n")).unwrap();
    let end = rest.match_indices("\n  ").find(|(at, _)| !rest[at + 3..].starts_with(' '));
    &rest[..end.map_or(rest.len(), |(at, _)| at)]
}

#[test]
fn every_job_installs_what_its_step_needs() {
    for step in STEPS {
        let job = job(step.name);
        let has = |line: &str| {
            let found = job.lines().any(|it| it.trim().trim_start_matches("- ") == line);
            assert!(found, "{}: no line {line:?} in\n{job}", step.name);
        };
        has("uses: actions/checkout@v4");
        has(&format!("run: cargo xtask ci --strict {}", step.name));
        has("toolchain: stable");
        let mut os = "ubuntu";
        for need in step.needs {
            match *need {
                Need::Toolchain(MSRV) => has(&format!("toolchain: \"{MSRV}\"")),
                Need::Toolchain(name) => has(&format!("toolchain: {name}")),
                Need::Target(name) => has(&format!("targets: {name}")),
                Need::Tool(name) => has(&format!("tool: cargo-{name}")),
                Need::Os(name) => os = name,
            }
        }
        has(&format!("runs-on: {os}-latest"));
    }
    // What the steps run of the toolchain itself.
    for (name, component) in [("lint", "clippy, rustfmt"), ("features", "clippy")] {
        assert!(job(name).contains(&format!("components: {component}\n")), "{name}");
    }
}

#[test]
fn the_comparison_has_the_commit_where_the_change_begins() {
    let job = job("semver");
    for line in [
        "fetch-depth: 0".to_owned(),
        format!("{}: ${{{{ vars.REDLOCK_BASELINE }}}}", semver::RELEASE),
        // In this order: when a branch moves, `before` is where it was.
        format!(
            "{}: ${{{{ github.event.pull_request.base.sha || github.event.before }}}}",
            semver::REVISION
        ),
    ] {
        assert!(job.lines().any(|it| it.trim() == line), "no line {line:?} in\n{job}");
    }
}

#[test]
fn no_step_of_a_job_depends_on_a_condition() {
    // The gate sees a job that was skipped; a step that was skipped is a success to it.
    let jobs = WORKFLOW.split("\njobs:\n").nth(1).unwrap();
    let (jobs, gate) = jobs.split_once("\n  gate:\n").unwrap();
    let conditions =
        |text: &str| text.lines().any(|it| it.trim().trim_start_matches("- ").starts_with("if:"));
    assert!(!conditions(jobs) && conditions(gate), "{jobs}");
}

#[test]
fn the_gate_needs_every_job_and_fails_for_those_that_were_skipped() {
    let jobs = WORKFLOW.split("\njobs:\n").nth(1).unwrap();
    let names = jobs.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<_> = names.filter_map(|line| line.trim().strip_suffix(':')).collect();
    let (gate, others) = names.split_last().unwrap();
    assert_eq!(*gate, "gate");
    let needs = after("needs: [").next().unwrap().trim_end_matches(']');
    assert_eq!(needs.split(", ").collect::<Vec<_>>(), others);
    let gate = jobs.split("\n  gate:\n").nth(1).unwrap();
    assert!(gate.contains("if: always()") && gate.contains("!= \"success\""), "{gate}");
}

#[test]
fn the_oldest_toolchain_is_that_of_the_manifest() {
    let manifest = include_str!("../../../Cargo.toml");
    assert!(manifest.contains(&format!("rust-version = \"{MSRV}\"")));
    assert!(WORKFLOW.contains(&format!("toolchain: \"{MSRV}\"")));
}

#[test]
fn what_a_machine_lacks_is_named_with_the_way_to_get_it() {
    let lack = Need::Tool("there-is-no-such-tool").lacks().unwrap();
    assert!(lack.contains("cargo install cargo-there-is-no-such-tool"), "{lack}");
    assert!(Need::Os(std::env::consts::OS).lacks().is_none());
}
