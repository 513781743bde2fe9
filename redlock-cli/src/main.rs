//! `redlock`: locks for scripts and operators.
//!
//! Unix only. `redlock run` passes signals on to the command and, where no terminal controls it, those that stop
//! it to all that the command started. It tells by its exit code which signal has ended the command. Other
//! systems have neither.

#[cfg(not(unix))]
compile_error!(
    "redlock-cli is for Unix only: it passes signals on to the command that it runs. \
     Use the library redlock-core on this target"
);

#[cfg(unix)]
mod args;
#[cfg(unix)]
mod executable;
#[cfg(unix)]
mod exit;
#[cfg(unix)]
mod files;
#[cfg(unix)]
mod orphans;
#[cfg(unix)]
mod program;
#[cfg(unix)]
mod run;
#[cfg(unix)]
mod show;
#[cfg(unix)]
mod signals;
#[cfg(all(unix, feature = "tls"))]
mod tls;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    program::main()
}

// The error above is then the only one.
#[cfg(not(unix))]
fn main() {}
