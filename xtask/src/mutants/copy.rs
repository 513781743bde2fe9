//! The copy of the workspace in which bugs are planted.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use super::patch::Patch;
use crate::shell::{self, Failure};

pub(super) struct Copy {
    /// The place of the copy, of what is built from it, and of what suites print.
    folder: PathBuf,
}

impl Copy {
    /// A copy in this folder. It takes over what an earlier one has built.
    pub(super) fn new(folder: PathBuf) -> Result<Self, Failure> {
        fs::create_dir_all(folder.join("logs")).map_err(|error| failed(&folder, &error))?;
        Ok(Self { folder })
    }

    fn workspace(&self) -> PathBuf {
        self.folder.join("workspace")
    }

    /// Makes the copy what the workspace is, but for this one bug.
    pub(super) fn plant(&self, patch: &Patch) -> Result<(), Failure> {
        self.restore()?;
        patch.apply(&self.workspace())
    }

    /// Makes the copy what the workspace is.
    pub(super) fn restore(&self) -> Result<(), Failure> {
        let (from, to) = (shell::workspace(), self.workspace());
        mirror(&from, &to).map_err(|error| failed(&to, &error))
    }

    /// The file for what the suites print about a bug, empty.
    pub(super) fn log(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.folder.join("logs").join(name).with_extension("log");
        fs::write(&path, "").map_err(|error| failed(&path, &error))?;
        Ok(path)
    }

    /// `cargo` in the copy.
    pub(super) fn cargo(&self, target: &str, arguments: &[&str]) -> Command {
        let mut command = shell::cargo(arguments);
        command.current_dir(self.workspace());
        command.env("CARGO_TARGET_DIR", self.folder.join(target));
        // Most of the time goes into building: one patch changes little, and most bugs are found soon.
        command.env("CARGO_INCREMENTAL", "1").env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
        command
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

/// Makes `to` what `from` is. A file that is the same already keeps its time, so that cargo builds
/// only what has changed.
fn mirror(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let mut kept = BTreeSet::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == "target" || name == ".git" {
            continue;
        }
        let (from, to) = (entry.path(), to.join(&name));
        if entry.file_type()?.is_dir() {
            mirror(&from, &to)?;
        } else {
            let wanted = fs::read(&from)?;
            if fs::read(&to).ok().as_ref() != Some(&wanted) {
                fs::write(&to, wanted)?;
            }
        }
        kept.insert(name);
    }
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if kept.contains(&entry.file_name()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_follows_and_touches_nothing_that_is_the_same() {
        let folder = std::env::temp_dir().join(format!("redlock-mirror-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("to"));
        fs::create_dir_all(from.join("inner")).unwrap();
        fs::create_dir_all(from.join("target")).unwrap();
        fs::write(from.join("inner/same"), "same").unwrap();
        fs::write(from.join("changed"), "before").unwrap();
        mirror(&from, &to).unwrap();
        assert!(!to.join("target").exists());

        let time = || fs::metadata(to.join("inner/same")).unwrap().modified().unwrap();
        let before = time();
        fs::write(from.join("changed"), "after").unwrap();
        fs::write(to.join("stray"), "").unwrap();
        mirror(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("changed")).unwrap(), "after");
        assert!(!to.join("stray").exists());
        assert_eq!(time(), before);
        fs::remove_dir_all(&folder).unwrap();
    }
}
