//! The step `semver` of `cargo xtask ci`: the public interface, compared with an earlier one.

use std::process::Command;

use crate::{
    package::LIBRARIES,
    shell::{self, Failure},
};

/// Names a release on the registry.
pub(crate) const RELEASE: &str = "REDLOCK_BASELINE";
/// Names a commit of this repository. The workflow sets it to where a change begins.
pub(crate) const REVISION: &str = "REDLOCK_BASELINE_REV";

pub(crate) fn run() -> Result<(), Failure> {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let (option, value, reason) = baseline(&variable(RELEASE), &variable(REVISION), git)?;
    println!("the baseline is {value}: {reason}");
    // With the features that a user has without asking, too: an item that moves behind a feature is
    // gone for most users.
    for features in ["--all-features", "--default-features"] {
        let mut command = shell::cargo(["semver-checks", features, option, &value]);
        // A crate of macros has no interface that the tool could read.
        for name in LIBRARIES.iter().filter(|name| **name != "redlock-macros") {
            command.args(["--package", name]);
        }
        shell::run(command)?;
    }
    Ok(())
}

/// What to compare with: the option of the tool, its value, and the reason. `git` answers one line, or
/// nothing if it fails.
fn baseline(
    release: &str,
    revision: &str,
    git: impl Fn(&[&str]) -> Option<String>,
) -> Result<(&'static str, String, &'static str), Failure> {
    if !release.is_empty() {
        let version = release.trim_start_matches('v').to_owned();
        return Ok(("--baseline-version", version, "the release that REDLOCK_BASELINE names"));
    }
    let commit =
        |name: &str| git(&["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")]);
    // A push that makes a branch has nothing but zeros as the commit before it.
    if revision.bytes().any(|digit| digit != b'0') {
        let found = commit(revision).ok_or_else(|| {
            Failure::new(format!("{REVISION} names {revision}, and this clone has no such commit"))
        })?;
        return Ok(("--baseline-rev", found, "the commit that REDLOCK_BASELINE_REV names"));
    }
    // Never HEAD: a comparison with itself would pass whatever it says.
    let head = commit("HEAD");
    let tag = || commit(&git(&["describe", "--tags", "--abbrev=0", "--match=v[0-9]*", "HEAD^"])?);
    let fork =
        || git(&["merge-base", "HEAD", "@{upstream}"]).filter(|it| Some(it) != head.as_ref());
    let (found, reason) = tag()
        .map(|found| (found, "the newest tag of a release before HEAD"))
        .or_else(|| Some((fork()?, "where the branch left its upstream")))
        .or_else(|| Some((commit("HEAD^")?, "the commit before HEAD")))
        .ok_or_else(|| {
            Failure::new(format!(
                "this clone has no commit before HEAD to compare with: fetch its history (`git fetch \
                 --unshallow`), or name a release in {RELEASE}"
            ))
        })?;
    Ok(("--baseline-rev", found, reason))
}

fn git(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    let output = command.current_dir(shell::workspace()).args(arguments).output().ok()?;
    let line = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository that knows these names, where `describe` and `merge-base` answer by their own.
    fn knows(names: &[(&'static str, &'static str)]) -> impl Fn(&[&str]) -> Option<String> {
        move |arguments| {
            let name = match arguments[0] {
                "rev-parse" => arguments[3].strip_suffix("^{commit}").unwrap(),
                command => command,
            };
            names.iter().find(|(known, _)| *known == name).map(|(_, answer)| (*answer).to_owned())
        }
    }

    const ALL: [(&str, &str); 6] = [
        ("HEAD", "c9"),
        ("HEAD^", "c8"),
        ("merge-base", "c5"),
        ("describe", "v0.2.0"),
        ("v0.2.0", "c3"),
        ("main", "c1"),
    ];

    fn taken(release: &str, revision: &str, names: &[(&'static str, &'static str)]) -> String {
        let (option, value, _) = baseline(release, revision, knows(names)).unwrap();
        format!("{option} {value}")
    }

    #[test]
    fn a_release_that_is_named_comes_first_then_a_commit_that_is_named() {
        assert_eq!(taken("0.2.0", "main", &ALL), "--baseline-version 0.2.0");
        assert_eq!(taken("v0.2.0", "", &ALL), "--baseline-version 0.2.0");
        assert_eq!(taken("", "main", &ALL), "--baseline-rev c1");
    }

    #[test]
    fn else_the_newest_tag_then_the_fork_then_the_commit_before() {
        assert_eq!(taken("", "", &ALL), "--baseline-rev c3");
        assert_eq!(taken("", "", &ALL[..3]), "--baseline-rev c5");
        assert_eq!(taken("", "", &ALL[..2]), "--baseline-rev c8");
        // The first push of a branch.
        assert_eq!(taken("", &"0".repeat(40), &ALL[..2]), "--baseline-rev c8");
    }

    #[test]
    fn nothing_is_compared_with_itself() {
        let pushed = [("HEAD", "c9"), ("HEAD^", "c8"), ("merge-base", "c9")];
        assert_eq!(taken("", "", &pushed), "--baseline-rev c8");
    }

    #[test]
    fn a_clone_without_the_commit_or_without_history_says_so() {
        let failure = |revision, names| baseline("", revision, knows(names)).unwrap_err();
        let missing = failure("c0ffee", &ALL).to_string();
        assert!(missing.contains("REDLOCK_BASELINE_REV names c0ffee"), "{missing}");
        let shallow = failure("", &ALL[..1]).to_string();
        assert!(shallow.contains("git fetch --unshallow"), "{shallow}");
    }
}
