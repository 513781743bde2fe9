//! `cargo xtask features`: each feature alone, and none.

use std::fs;

use crate::{
    package::{self, LIBRARIES},
    shell::{self, Failure},
};

pub(crate) const ABOUT: &str =
    "checks that each published crate builds with no feature and with each one alone";

pub(crate) fn run(_: &[String]) -> Result<(), Failure> {
    for name in package::crates() {
        let text = manifest(name)?;
        check(name, None)?;
        for feature in features(&text) {
            check(name, Some(feature))?;
        }
    }
    Ok(())
}

/// Every combination of each crate's features.
pub(crate) fn powerset() -> Result<(), Failure> {
    for name in package::crates() {
        let text = manifest(name)?;
        for set in combinations(&features(&text).collect::<Vec<_>>()) {
            check(name, (!set.is_empty()).then_some(&set))?;
        }
    }
    Ok(())
}

fn manifest(name: &str) -> Result<String, Failure> {
    let path = shell::workspace().join(name).join("Cargo.toml");
    fs::read_to_string(&path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

/// Every subset, its members between commas.
fn combinations(features: &[&str]) -> Vec<String> {
    let mut sets = vec![String::new()];
    for feature in features {
        let with = sets.iter().map(|set| match set.as_str() {
            "" => (*feature).to_owned(),
            set => format!("{set},{feature}"),
        });
        let with: Vec<_> = with.collect();
        sets.extend(with);
    }
    sets
}

fn check(name: &str, feature: Option<&str>) -> Result<(), Failure> {
    // Clippy and not `cargo check`: only this denies warnings without building the dependencies
    // a second time.
    let kind = if LIBRARIES.contains(&name) { "--lib" } else { "--bins" };
    let mut command = shell::cargo(["clippy", kind, "--no-default-features", "--package", name]);
    if let Some(feature) = feature {
        command.args(["--features", feature]);
    }
    command.args(["--", "--deny=warnings"]);
    shell::run(command)
}

/// The names in the `[features]` table of a manifest, without `default`.
fn features(manifest: &str) -> impl Iterator<Item = &str> {
    manifest
        .lines()
        .skip_while(|line| line.trim() != "[features]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.starts_with([' ', '\t', '#', ']']))
        .filter_map(|line| line.split_once('=').map(|(name, _)| name.trim()))
        .filter(|name| *name != "default")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_there_once() {
        let sets = combinations(&["a", "b", "c"]);
        assert_eq!(sets, ["", "a", "b", "a,b", "c", "a,c", "b,c", "a,b,c"]);
    }

    #[test]
    fn features_are_read_from_the_manifest() {
        let manifest = r#"
[package]
name = "x"

[features]
default = ["a"]
## About a.
a = []
b = [
    "dep:c",
    "d = 1",
]

[dependencies]
e = "1"
"#;
        assert_eq!(features(manifest).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(features("[package]\nname = \"x\"\n").count(), 0);
    }
}
