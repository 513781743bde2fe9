//! The commands that a server runs for this client, found out by trying them on each connection and
//! never by its version: Valkey calls itself Redis 7.2 (rule 17).

use redis::{Pipeline, ServerError, Value};

/// The commands that a server runs for this client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Abilities {
    /// `EVAL` and `EVALSHA`.
    pub(super) scripts: bool,
    /// The native command that deletes a key if it has a value.
    pub(super) delete: Option<Delete>,
}

/// A native command that deletes a key if it has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delete {
    /// `DELEX key IFEQ value`: Redis 8.4, Valkey 9.2.
    Delex,
    /// `DELIFEQ key value`: Valkey 9.0.
    Delifeq,
}

/// The hash of no script.
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

/// A key that the questions name, and a value that no lock has: a lock may have this very key.
const NO_KEY: &str = "redlock:probe";
const NO_VALUE: &str = "-";

impl Abilities {
    /// Adds what [`read`](Self::read) needs. Nothing is changed by it.
    pub(super) fn ask(questions: &mut Pipeline, native: bool) {
        questions.cmd("EVALSHA").arg(NO_SCRIPT).arg(0);
        questions.cmd("EVAL").arg("return 0").arg(0);
        if native {
            questions.cmd("DELEX").arg(NO_KEY).arg("IFEQ").arg(NO_VALUE);
            questions.cmd("DELIFEQ").arg(NO_KEY).arg(NO_VALUE);
        }
    }

    /// How many questions these are.
    pub(super) fn questions(native: bool) -> usize {
        if native { 4 } else { 2 }
    }

    /// Reads the answers. The error is the server's own, when no lock could be released.
    pub(super) fn read(answers: &[Value]) -> Result<Self, &ServerError> {
        let delete = match answers {
            [_, _, delex, ..] if runs(delex) => Some(Delete::Delex),
            [_, _, _, delifeq] if runs(delifeq) => Some(Delete::Delifeq),
            _ => None,
        };
        match (answers.iter().take(2).find_map(refuses_scripts), delete) {
            (Some(error), None) => Err(error),
            (refused, delete) => Ok(Self { scripts: refused.is_none(), delete }),
        }
    }
}

/// Why the server runs no scripts, by its answer to a script, or to a call for one that it does not have. Only
/// `ERR` and `NOPERM` count. Any other answer, such as that the server is busy, says nothing.
fn refuses_scripts(answer: &Value) -> Option<&ServerError> {
    match answer {
        Value::ServerError(error) if matches!(error.code(), "ERR" | "NOPERM") => Some(error),
        _ => None,
    }
}

/// Whether a server has answered a native command as one that runs it. It may refuse the key of the
/// question, to which this client need not have access.
fn runs(answer: &Value) -> bool {
    match answer {
        Value::Int(_) => true,
        Value::ServerError(error) => match error.code() {
            "MOVED" | "ASK" | "READONLY" | "LOADING" | "CLUSTERDOWN" | "WRONGTYPE" => true,
            "NOPERM" => error.details().is_some_and(|text| text.contains(" key")),
            _ => false,
        },
        _ => false,
    }
}

/// Whether a server has answered a native command as one that does not run it after all.
pub(super) fn is_unknown(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if matches!(error.code(), "ERR" | "NOPERM"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer to `EVALSHA`, which is that to `EVAL`, too, unless that runs; and those to native commands.
    fn read([by_hash, delex, delifeq]: [&str; 3]) -> Result<Abilities, String> {
        let in_full = if by_hash == NOSCRIPT { ":0\r\n" } else { by_hash };
        read_all([by_hash, in_full, delex, delifeq])
    }

    fn read_all(answers: [&str; 4]) -> Result<Abilities, String> {
        let answers = answers.map(|it| redis::parse_redis_value(it.as_bytes()).unwrap());
        Abilities::read(&answers).map_err(|error| format!("{} {:?}", error.code(), error.details()))
    }

    const NOSCRIPT: &str = "-NOSCRIPT No matching script.\r\n";
    const UNKNOWN: &str = "-ERR unknown command\r\n";
    const FORBIDDEN: &str = "-NOPERM this user has no permissions to run the 'x' command\r\n";

    #[test]
    fn native_commands_are_used_where_the_server_runs_them() {
        for (answers, delete) in [
            ([NOSCRIPT, UNKNOWN, UNKNOWN], None),
            ([NOSCRIPT, ":0\r\n", UNKNOWN], Some(Delete::Delex)),
            ([NOSCRIPT, UNKNOWN, ":0\r\n"], Some(Delete::Delifeq)),
            ([NOSCRIPT, FORBIDDEN, ":0\r\n"], Some(Delete::Delifeq)),
            ([NOSCRIPT, FORBIDDEN, FORBIDDEN], None),
            (
                [NOSCRIPT, "-NOPERM No permissions to access a key\r\n", UNKNOWN],
                Some(Delete::Delex),
            ),
            ([NOSCRIPT, "-MOVED 1 h:1\r\n", UNKNOWN], Some(Delete::Delex)),
            // Readers have a lock of this name.
            ([NOSCRIPT, UNKNOWN, "-WRONGTYPE wrong kind\r\n"], Some(Delete::Delifeq)),
            (["-BUSY Redis is busy\r\n", UNKNOWN, UNKNOWN], None),
        ] {
            assert_eq!(read(answers), Ok(Abilities { scripts: true, delete }), "{answers:?}");
        }
    }

    #[test]
    fn a_server_without_scripts_needs_a_native_command() {
        let native = Abilities { scripts: false, delete: Some(Delete::Delifeq) };
        assert_eq!(read([FORBIDDEN, UNKNOWN, ":0\r\n"]), Ok(native));
        assert!(read([FORBIDDEN, UNKNOWN, UNKNOWN]).unwrap_err().contains("NOPERM"));
        assert!(read([UNKNOWN, UNKNOWN, FORBIDDEN]).unwrap_err().contains("unknown"));
        // `+evalsha` alone is not enough: the server does not have the scripts.
        assert_eq!(read_all([NOSCRIPT, FORBIDDEN, UNKNOWN, ":0\r\n"]), Ok(native));
        assert!(read_all([NOSCRIPT, FORBIDDEN, UNKNOWN, UNKNOWN]).unwrap_err().contains("NOPERM"));
    }
}
