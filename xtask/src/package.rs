//! `cargo xtask package`: the published crates as archives, built and tested outside the workspace.

use std::{fs, path::Path, process::Command};

use crate::shell::{self, Failure};

pub(crate) const ABOUT: &str =
    "packs the published crates, and builds and tests them from their archives";

/// The published libraries, in the order in which they are published.
pub(crate) const LIBRARIES: &[&str] = &["redlock-macros", "redlock-core", "redlock-tower"];

/// The published program, which is for Unix only. It is published last.
pub(crate) const PROGRAM: &str = "redlock-cli";

/// Everything that is published.
pub(crate) fn crates() -> impl Iterator<Item = &'static str> {
    LIBRARIES.iter().copied().chain([PROGRAM])
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What every archive must have.
const FILES: &[&str] = &["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE"];

pub(crate) fn run(_: &[String]) -> Result<(), Failure> {
    outside(test)
}

/// Checks the archives with the oldest dependencies that their manifests allow.
pub(crate) fn minimal_versions() -> Result<(), Failure> {
    outside(|outside| {
        // Those of the tests do not concern a user, nor what the dependencies depend on in turn.
        for name in crates() {
            let manifest = outside.join(format!("{name}-{VERSION}")).join("Cargo.toml");
            fs::read_to_string(&manifest)
                .and_then(|text| fs::write(&manifest, without_tests(&text)))
                .map_err(|error| Failure::new(format!("{}: {error}", manifest.display())))?;
        }
        let mut resolve =
            shell::cargo_of("nightly", ["generate-lockfile", "-Z", "direct-minimal-versions"]);
        resolve.current_dir(outside);
        shell::run(resolve)?;
        let mut command = shell::cargo(["check", "--workspace", "--all-features"]);
        command.current_dir(outside).env("CARGO_TARGET_DIR", shell::target().join("minimal"));
        shell::run(command)
    })
}

/// Unpacks the archives in a place that is no part of the workspace, for `check` to look at.
fn outside(check: impl FnOnce(&Path) -> Result<(), Failure>) -> Result<(), Failure> {
    same_licences()?;
    // What is built is the archives, outside. Cargo's own check takes the other crates from where it
    // unpacked them under this version before, however they have changed.
    let mut pack = shell::cargo(["package", "--allow-dirty", "--no-verify"]);
    pack.args(crates().flat_map(|name| ["--package", name]));
    shell::run(pack)?;

    // Outside, so that nothing above the archives helps them: no workspace, no configuration.
    let outside = std::env::temp_dir().join(format!("redlock-packages-{}", std::process::id()));
    let tested = unpack(&outside).and_then(|()| check(&outside));
    let removed = fs::remove_dir_all(&outside);
    tested?;
    removed.map_err(|error| Failure::new(format!("{}: {error}", outside.display())))
}

fn unpack(outside: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::new(format!("{}: {error}", outside.display()));
    fs::create_dir_all(outside).map_err(failed)?;
    let mut names = Vec::new();
    for name in crates() {
        let folder = format!("{name}-{VERSION}");
        let archive = shell::target().join("package").join(format!("{folder}.crate"));
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(archive).arg("-C").arg(outside);
        shell::run(tar)?;
        let root = if name == PROGRAM { "src/main.rs" } else { "src/lib.rs" };
        for file in FILES.iter().chain([&root]) {
            if !outside.join(&folder).join(file).is_file() {
                return Err(Failure::new(format!("{file} is not in the archive of {name}")));
            }
        }
        names.push(folder);
    }
    fs::write(outside.join("Cargo.toml"), manifest(&names)).map_err(failed)
}

/// A manifest less the tables of its tests and of what they depend on.
fn without_tests(manifest: &str) -> String {
    let mut kept = true;
    let lines = manifest.lines().filter(|line| {
        if line.starts_with('[') {
            kept = !line.contains("dev-dependencies") && *line != "[[test]]";
        }
        kept
    });
    lines.map(|line| format!("{line}\n")).collect()
}

/// Puts the archives in the place of the published crates.
fn manifest(folders: &[String]) -> String {
    let members: Vec<_> = folders.iter().map(|it| format!("{it:?}")).collect();
    let patches =
        crates().zip(folders).map(|(name, folder)| format!("{name} = {{ path = {folder:?} }}\n"));
    format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{}]\n\n[patch.crates-io]\n{}",
        members.join(", "),
        patches.collect::<String>()
    )
}

fn test(outside: &Path) -> Result<(), Failure> {
    // The versions that the workspace is tested with.
    let lock = shell::workspace().join("Cargo.lock");
    fs::copy(&lock, outside.join("Cargo.lock"))
        .map_err(|error| Failure::new(format!("{}: {error}", lock.display())))?;
    let mut command = shell::cargo(["test", "--workspace", "--all-features", "--no-fail-fast"]);
    command.current_dir(outside);
    // Kept between runs; it is no place that a package is found by.
    command.env("CARGO_TARGET_DIR", shell::target().join("packages"));
    shell::run(command)
}

/// A package has licences of its own: a link to those of the workspace would be lost on Windows.
fn same_licences() -> Result<(), Failure> {
    let read = |path: &Path| {
        fs::read(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
    };
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let text = read(&shell::workspace().join(licence))?;
        for name in crates() {
            let copy = shell::workspace().join(name).join(licence);
            if read(&copy)? != text {
                return Err(Failure::new(format!(
                    "{name}/{licence} is not the {licence} of the workspace: copy it there"
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_archive_takes_the_place_of_its_crate() {
        let folders: Vec<_> = crates().map(|name| format!("{name}-9")).collect();
        let manifest = manifest(&folders);
        for name in crates() {
            assert!(
                manifest.contains(&format!("{name} = {{ path = \"{name}-9\" }}")),
                "{manifest}"
            );
        }
        assert!(manifest.contains("members = [\"redlock-macros-9\", "), "{manifest}");
    }

    #[test]
    fn tests_and_their_dependencies_are_left_out() {
        let manifest = "[dependencies.a]\nversion = \"1\"\n[dev-dependencies.b]\nversion = \"1\"\n\
                        [[test]]\nname = \"c\"\n[target.x.dev-dependencies.d]\nversion = \"1\"\n[lints.rust]\n";
        assert_eq!(without_tests(manifest), "[dependencies.a]\nversion = \"1\"\n[lints.rust]\n");
    }

    #[test]
    fn the_licences_are_the_same() {
        same_licences().unwrap();
    }
}
