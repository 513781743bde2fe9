//! The step `fuzz` of `cargo xtask ci`: each fuzz target for a while, with coverage. `cargo xtask test`
//! runs the same functions over the same corpora on stable.

use std::fs;

use crate::shell::{self, Failure};

/// How long each target runs, in seconds.
const SECONDS: u32 = 60;

/// The targets, and the folder whose corpus each one begins with.
const TARGETS: [(&str, &str); 4] = [
    ("frames", "redlock-core"),
    ("urls", "redlock-core"),
    ("outbox", "redlock-core"),
    ("templates", "redlock-macros"),
];

pub(crate) fn run() -> Result<(), Failure> {
    for (target, folder) in TARGETS {
        // What it finds goes into the first folder.
        let found = format!("fuzz/corpus/{target}");
        fs::create_dir_all(shell::workspace().join(&found))
            .map_err(|error| Failure::new(format!("{found}: {error}")))?;
        let mut command = shell::cargo_of("nightly", ["fuzz", "run", target, &found]);
        command.arg(format!("{folder}/corpus/{target}"));
        command.args(["--", &format!("-max_total_time={SECONDS}")]);
        shell::run(command)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_run_and_has_a_corpus() {
        let manifest = fs::read_to_string(shell::workspace().join("fuzz/Cargo.toml")).unwrap();
        let paths = manifest.lines().filter(|line| line.starts_with("path = "));
        assert_eq!(paths.count(), TARGETS.len());
        for (target, folder) in TARGETS {
            assert!(manifest.contains(&format!("fuzz_targets/{target}.rs")), "{target}");
            let corpus = shell::workspace().join(folder).join("corpus").join(target);
            assert!(fs::read_dir(&corpus).unwrap().count() >= 5, "{}", corpus.display());
        }
    }
}
