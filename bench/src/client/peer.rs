//! Locks of other languages. Each is a small program in `bench/peers`, built into a folder of its own with
//! the tools of its language.

use std::{collections::BTreeMap, env, fs, io, path::Path, sync::Mutex};

use super::program::Program;

/// The variable with the class path of a Redisson that was built elsewhere. Maven is not asked then.
const REDISSON_CLASSPATH: &str = "REDLOCK_BENCH_REDISSON_CLASSPATH";

/// A lock of another language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Node.js.
    NodeRedlock,
    /// Go.
    Redsync,
    /// The RedLock of Redisson. Java.
    Redisson,
}

impl Peer {
    /// The name in tables, files and arguments, and of its folder.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NodeRedlock => "node-redlock",
            Self::Redsync => "redsync",
            Self::Redisson => "redisson",
        }
    }

    /// The program. It is built once. `None`, and a line that says what is missing, where it cannot be.
    pub(crate) fn program(self) -> Option<Program> {
        static BUILT: Mutex<BTreeMap<&str, Result<Program, String>>> = Mutex::new(BTreeMap::new());
        let mut built = BUILT.lock().expect("no build panics");
        match built.entry(self.name()).or_insert_with(|| self.build()) {
            Ok(program) => Some(program.clone()),
            Err(missing) => {
                eprintln!("SKIPPED {}: {missing}", self.name());
                None
            }
        }
    }

    /// Builds the program, unless it is there already: its folder under `target/peers` is deleted to
    /// build it anew. `Err` says what is missing on this machine.
    fn build(self) -> Result<Program, String> {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let source = root.join("bench/peers").join(self.name());
        let built = root.join("target/peers").join(self.name());
        copy(&source, &built).map_err(|error| format!("{}: {error}", built.display()))?;
        let program = |words: &[&str]| Program::new(words, &built);
        let is_there = |path: &str| built.join(path).exists();
        match self {
            Self::NodeRedlock => {
                if !is_there("node_modules") {
                    program(&["npm", "install", "--no-audit", "--no-fund", "--silent"]).run()?;
                }
                Ok(program(&["node", "main.mjs"]))
            }
            Self::Redsync => {
                if !is_there("peer") {
                    program(&["go", "mod", "tidy"]).run()?;
                    program(&["go", "build", "-o", "peer", "."]).run()?;
                }
                Ok(program(&["./peer"]))
            }
            Self::Redisson => {
                if let Ok(path) = env::var(REDISSON_CLASSPATH) {
                    let (source, classes) = ("src/main/java/Main.java", "target/classes");
                    program(&["javac", "-cp", &path, "-d", classes, source]).run()?;
                    return Ok(program(&["java", "-cp", &format!("{classes}:{path}"), "Main"]));
                }
                if !is_there("target/dependency") {
                    let jars = "dependency:copy-dependencies";
                    program(&["mvn", "--quiet", "--batch-mode", "compile", jars]).run()?;
                }
                Ok(program(&["java", "-cp", "target/classes:target/dependency/*", "Main"]))
            }
        }
    }
}

/// Copies a folder of sources. What was built beside them before stays.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&from, &to)?;
        } else {
            fs::copy(from, to)?;
        }
    }
    Ok(())
}
