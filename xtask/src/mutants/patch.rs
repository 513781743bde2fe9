//! One patch: what it breaks, which suite must notice, and the change itself.
//!
//! ```text
//! Breaks: a quorum is half of the nodes
//! Caught-by: sim --seeds 50000
//! Passes: sim --seeds 5000 --only-order
//!
//! --- a/redlock-core/src/quorum/votes.rs
//! ```
//!
//! `Breaks` and `Caught-by` are there once. `Passes` is there for each suite in which the bug makes no
//! difference.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::suite::Suite;
use crate::shell::Failure;

#[derive(Debug)]
pub(super) struct Patch {
    pub(super) name: String,
    pub(super) caught_by: Suite,
    pub(super) passes: Vec<Suite>,
    path: PathBuf,
}

impl Patch {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        Self::parse(path, &text)
            .map_err(|problem| Failure::new(format!("{}: {problem}", path.display())))
    }

    fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let (Some(name), Some("patch")) = (
            path.file_stem().and_then(|it| it.to_str()),
            path.extension().and_then(|it| it.to_str()),
        ) else {
            return Err("only files NAME.patch belong here".to_owned());
        };
        let mut breaks = None;
        let mut caught_by = None;
        let mut passes = Vec::new();
        for line in text.lines().take_while(|line| !line.is_empty()) {
            let (key, value) = line.split_once(": ").unwrap_or((line, ""));
            let is_new = match key {
                "Breaks" => breaks.replace(value).is_none(),
                "Caught-by" => caught_by.replace(value.parse()?).is_none(),
                "Passes" => {
                    passes.push(value.parse()?);
                    true
                }
                _ => return Err(format!("its head has a line {line:?}")),
            };
            if !is_new {
                return Err(format!("its head says {key} twice"));
            }
        }
        if breaks.is_none_or(str::is_empty) {
            return Err("its head does not say what it `Breaks: `".to_owned());
        }
        let caught_by = caught_by.ok_or("its head does not say what it is `Caught-by: `")?;
        Ok(Self { name: name.to_owned(), caught_by, passes, path: path.to_owned() })
    }

    /// Whether the patch applies to the files in this directory, as they are there.
    pub(super) fn check(&self, directory: &Path) -> Result<(), Failure> {
        self.git_apply(directory, &["--check"])
    }

    /// Changes the files in this directory.
    pub(super) fn apply(&self, directory: &Path) -> Result<(), Failure> {
        self.git_apply(directory, &[])
    }

    fn git_apply(&self, directory: &Path, options: &[&str]) -> Result<(), Failure> {
        let failed = |why: &str| {
            let path = self.path.display();
            Failure::new(format!(
                "{path} does not apply, so change it with the code that it breaks: {why}"
            ))
        };
        let path = self.path.canonicalize().map_err(|error| failed(&error.to_string()))?;
        let directory = directory.canonicalize().map_err(|error| failed(&error.to_string()))?;
        let mut command = Command::new("git");
        command.args(["apply", "--whitespace=nowarn"]).args(options).arg(path);
        // In a directory of a larger repository, git would look for the files at its top.
        command.env("GIT_CEILING_DIRECTORIES", directory.parent().unwrap_or(&directory));
        command.current_dir(&directory).stdin(Stdio::null());
        let output = command.output().map_err(|error| failed(&error.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        Err(failed(String::from_utf8_lossy(&output.stderr).trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "Breaks: it\nCaught-by: lib some_test\n\n";
    const CHANGE: &str = "--- a/one\n+++ b/one\n@@ -1,2 +1,2 @@\n first\n-second\n+third\n";

    fn parse(text: &str) -> Result<Patch, String> {
        Patch::parse(Path::new("name-of-it.patch"), text)
    }

    #[test]
    fn a_head_says_what_is_broken_and_what_notices() {
        let patch = parse(&format!("{HEAD}{CHANGE}")).unwrap();
        assert_eq!(patch.name, "name-of-it");
        assert_eq!(patch.caught_by.to_string(), "lib some_test");
        assert!(patch.passes.is_empty());
        let passes = "Breaks: it\nCaught-by: lib a\nPasses: sim --seeds 1\nPasses: lib b\n";
        assert_eq!(parse(passes).unwrap().passes.len(), 2);
    }

    #[test]
    fn a_head_that_lacks_something_is_refused() {
        for (head, problem) in [
            ("", "does not say what it `Breaks"),
            ("Breaks: \nCaught-by: lib a\n", "does not say what it `Breaks"),
            ("Breaks: it\n", "does not say what it is `Caught-by"),
            ("Breaks: it\nCaught-by: nothing\n", "there is no suite \"nothing\""),
            ("Breaks: it\nBreaks: it\n", "says Breaks twice"),
            ("Author: me\n", "has a line \"Author: me\""),
        ] {
            let found = parse(head).unwrap_err();
            assert!(found.contains(problem), "{found}");
        }
        let readme = Patch::parse(Path::new("README.md"), HEAD).unwrap_err();
        assert!(readme.contains("NAME.patch"), "{readme}");
    }

    #[test]
    fn a_patch_applies_to_what_it_was_made_for_and_to_nothing_else() {
        let directory = std::env::temp_dir().join(format!("redlock-patch-{}", std::process::id()));
        let files = directory.join("files");
        fs::create_dir_all(&files).unwrap();
        let path = directory.join("it.patch");
        fs::write(&path, format!("{HEAD}{CHANGE}")).unwrap();
        let patch = Patch::read(&path).unwrap();

        fs::write(files.join("one"), "first\nsecond\n").unwrap();
        patch.check(&files).unwrap();
        assert_eq!(fs::read_to_string(files.join("one")).unwrap(), "first\nsecond\n");
        patch.apply(&files).unwrap();
        assert_eq!(fs::read_to_string(files.join("one")).unwrap(), "first\nthird\n");

        let failure = patch.check(&files).unwrap_err().to_string();
        assert!(failure.contains("it.patch does not apply"), "{failure}");
        fs::remove_file(files.join("one")).unwrap();
        assert!(patch.check(&files).is_err(), "there is nothing to change");
        fs::remove_dir_all(&directory).unwrap();
    }
}
