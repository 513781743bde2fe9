//! The step `deny` of `cargo xtask ci`: what the dependencies may be.

use crate::shell::{self, Failure};

/// Each is a workspace, and has a lock file of its own.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "fuzz/Cargo.toml"];

/// First what the registry alone can answer, then the advisories, which are kept elsewhere: a machine
/// that cannot reach them still learns the rest.
const CHECKS: [&[&str]; 2] = [&["bans", "licenses", "sources"], &["advisories"]];

pub(crate) fn run() -> Result<(), Failure> {
    for checks in CHECKS {
        for manifest in MANIFESTS {
            // Locked: a lock file that is behind its manifest is an error, too.
            let mut command = shell::cargo(["deny", "--locked", "--all-features"]);
            command.args(["--manifest-path", manifest, "--config", "deny.toml", "check"]);
            shell::run(command.args(checks))?;
        }
    }
    Ok(())
}
