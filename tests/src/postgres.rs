//! One PostgreSQL server.

use std::{
    fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use rustix::process::{Signal, getuid};
use tempfile::TempDir;

use crate::{
    port,
    process::Process,
    wait::{LIMIT, wait_blocking},
};

/// How often another port is tried.
const PORTS: usize = 20;

/// Where packages put the programs of PostgreSQL that are not on the PATH: below a directory for
/// each version.
const PLACES: [&str; 4] =
    ["/usr/lib/postgresql", "/usr/libexec", "/opt/homebrew/opt", "/usr/local/opt"];

/// The user that the server runs as when the tests run as root, which PostgreSQL refuses.
const USER: &str = "nobody";

/// The server that tests of this process share for as long as one of them uses it.
static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());

/// A running PostgreSQL on a port of 127.0.0.1, with its data in a temporary directory. It is
/// stopped when this value is dropped, and killed when the test's process ends in any way.
#[derive(Debug)]
pub struct Postgres {
    // Before the directory: the server goes before its data.
    process: Process,
    port: u16,
    _directory: TempDir,
}

impl Postgres {
    /// The server that all tests of this process share; an error in words where PostgreSQL is
    /// missing or cannot be run.
    pub fn shared() -> Result<Arc<Self>, String> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return Ok(running);
        }
        let started = Arc::new(Self::start()?);
        *shared = Arc::downgrade(&started);
        Ok(started)
    }

    /// Starts a server; an error in words where PostgreSQL is missing or cannot be run.
    pub fn start() -> Result<Self, String> {
        let programs = programs().ok_or("PostgreSQL is not installed (initdb, postgres)")?;
        let directory = tempfile::Builder::new().prefix("redlock-postgres-").tempdir().unwrap();
        let unprivileged = unprivileged(directory.path())?;
        let data = directory.path().join("data");
        initialise(&unprivileged, &programs, &data)?;
        for _ in 0..PORTS {
            let port = port::free();
            let log = directory.path().join(format!("log-{port}"));
            let process = spawn(&unprivileged, &programs, &data, port, &log);
            if let Some(process) = process {
                return Ok(Self { process, port, _directory: directory });
            }
        }
        panic!("every one of {PORTS} ports was taken by another program in the meantime");
    }

    /// How to connect as a superuser: for `tokio_postgres::connect`.
    pub fn settings(&self, database: &str) -> String {
        format!("host=127.0.0.1 port={} user=postgres dbname={database}", self.port)
    }
}

impl Drop for Postgres {
    /// An immediate shutdown: unlike a kill, it removes the server's shared memory.
    fn drop(&mut self) {
        self.process.end(Signal::QUIT);
    }
}

/// The directory of `initdb` and `postgres`: of the newest version that is found.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let below = PLACES.iter().flat_map(|place| fs::read_dir(place).into_iter().flatten());
    let mut versions: Vec<PathBuf> = below.flatten().map(|version| version.path()).collect();
    versions.sort();
    let versions = versions.into_iter().rev().flat_map(|version| [version.join("bin"), version]);
    let whole = |directory: &PathBuf| {
        ["initdb", "postgres"].iter().all(|program| directory.join(program).is_file())
    };
    std::env::split_paths(&path).chain(versions).find(whole)
}

/// The words before a program that must not run as root. The user that it runs as owns the directory.
fn unprivileged(directory: &Path) -> Result<Vec<String>, String> {
    if !getuid().is_root() {
        return Ok(Vec::new());
    }
    let id = |flag| -> Option<u32> {
        let output = Command::new("id").args([flag, USER]).output().ok()?;
        String::from_utf8_lossy(&output.stdout).trim().parse().ok()
    };
    let (Some(user), Some(group)) = (id("-u"), id("-g")) else {
        return Err(format!("PostgreSQL does not run as root, and there is no user {USER}"));
    };
    let way =
        ["setpriv", &format!("--reuid={user}"), &format!("--regid={group}"), "--clear-groups"];
    let way = way.map(str::to_owned).to_vec();
    if !run(&way, Path::new("true"), &[]).is_ok_and(|output| output.status.success()) {
        return Err(
            "PostgreSQL does not run as root, and setpriv cannot change the user".to_owned()
        );
    }
    chown(directory, Some(user), Some(group)).unwrap();
    Ok(way)
}

fn run(before: &[String], program: &Path, arguments: &[&str]) -> std::io::Result<Output> {
    let mut words = before.iter().map(String::as_str).chain([program.to_str().unwrap_or_default()]);
    Command::new(words.next().unwrap_or_default())
        .args(words)
        .args(arguments)
        // The server's user may not be allowed to enter the directory of the test.
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
}

fn initialise(before: &[String], programs: &Path, data: &Path) -> Result<(), String> {
    let data = data.display().to_string();
    let arguments = [
        "--pgdata",
        &data,
        "--username=postgres",
        "--auth=trust",
        "--encoding=UTF8",
        "--locale=C",
        "--no-sync",
    ];
    let output = run(before, &programs.join("initdb"), &arguments)
        .map_err(|error| format!("initdb cannot be run: {error}"))?;
    let words = String::from_utf8_lossy(&output.stderr);
    // A PostgreSQL that is installed and does not work is no reason to skip a test.
    assert!(output.status.success(), "initdb failed:\n{words}");
    Ok(())
}

/// A server that serves on this port, or `None` when the port is taken.
fn spawn(
    before: &[String],
    programs: &Path,
    data: &Path,
    port: u16,
    log: &Path,
) -> Option<Process> {
    let mut words = before.to_vec();
    words.push(programs.join("postgres").display().to_string());
    words.extend(["-D".to_owned(), data.display().to_string(), "-p".to_owned(), port.to_string()]);
    let settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"];
    words.extend(settings.iter().flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]));
    let process = Process::start(&words[0], &words[1..], log);
    let (mut serves, mut taken) = (false, false);
    wait_blocking(|| {
        let words = fs::read_to_string(log).unwrap_or_default();
        serves = words.contains("database system is ready to accept connections");
        taken = words.contains("could not bind");
        serves || taken
    });
    let words = fs::read_to_string(log).unwrap_or_default();
    assert!(serves || taken, "PostgreSQL did not serve within {LIMIT:?}; it said:\n{words}");
    (!taken).then_some(process)
}
