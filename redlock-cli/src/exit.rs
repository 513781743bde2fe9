//! How the program ends: with a message and an exit code of sysexits.

use std::{
    fmt,
    os::unix::process::ExitStatusExt,
    process::{ExitCode, ExitStatus},
};

use redlock_core::LockError;

/// The command line cannot work (`EX_USAGE`).
pub(crate) const USAGE: u8 = 64;
/// Too few nodes answer (`EX_UNAVAILABLE`).
pub(crate) const NO_QUORUM: u8 = 69;
/// Anything else (`EX_SOFTWARE`).
pub(crate) const INTERNAL: u8 = 70;
/// The lock was lost, or `--max-hold` was over, and the command was stopped in the middle of its work
/// (`EX_IOERR`).
pub(crate) const LOST: u8 = 74;
/// Another client holds the lock, and nothing was done: try again later (`EX_TEMPFAIL`).
pub(crate) const HELD: u8 = 75;
/// The command is there and cannot be run, as shells say it.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// There is no such command, as shells say it.
pub(crate) const NOT_FOUND: u8 = 127;

/// Why the program ends without having done what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// With another exit code for a lock that is held.
    pub(crate) fn with_held(mut self, code: u8) -> Self {
        if self.code == HELD {
            self.code = code;
        }
        self
    }

    /// Whether the caller has asked for it to count as a success.
    pub(crate) fn is_success(&self) -> bool {
        self.code == 0
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        self.code.into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        let code = match &error {
            LockError::Held { .. } => HELD,
            LockError::Lost { .. } => LOST,
            LockError::NoQuorum { .. } => NO_QUORUM,
            LockError::Config { .. } | LockError::InvalidResource { .. } => USAGE,
            _ => INTERNAL,
        };
        Self::new(code, error.to_string())
    }
}

/// The exit code of a command, as shells tell it.
pub(crate) fn of(status: ExitStatus) -> ExitCode {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(INTERNAL).into(),
        (None, Some(signal)) => by_signal(signal),
        (None, None) => INTERNAL.into(),
    }
}

/// The exit code of a command that this signal has ended.
pub(crate) fn by_signal(signal: i32) -> ExitCode {
    u8::try_from(128 + signal).unwrap_or(INTERNAL).into()
}
