//! The commands of locks without scripts: native compare commands, and plain commands.
//!
//! Where scripts run, only the release of a single lock uses this: a native delete costs a server a
//! fraction of a script. Locks that are released together share one script call, which costs less than
//! a native delete for each. A lock that was taken in a turn is released by script as well.
//!
//! Where scripts are refused, everything goes through here that can be done without them: locks are
//! taken, renewed, released and looked at. Queues between processes and fencing tokens need scripts.

use std::time::Duration;

use redis::Value;

use super::{
    abilities::{Abilities, Delete, is_unknown},
    reply, server_error,
    words::{Decimal, milliseconds, write},
};
use crate::node::{Action, Claim, Command, Inspection, Reply, Secret, queue_keys};

/// What follows from the answers to native commands.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    Answer(Result<Reply, String>),
    /// The server does not run the native command after all.
    Unknown,
    /// The key is gone, or was not ours. Clients wait for the lock: one gets the turn.
    Wake {
        deleted: bool,
    },
    /// The key is ours, with this much left, and is to live for `ttl`.
    Prolong {
        left: Duration,
        ttl: Duration,
    },
}

/// Whether this can be done without scripts.
pub(super) fn can(action: Action) -> bool {
    matches!(
        action,
        Action::Release { .. }
            | Action::Shorten { .. }
            | Action::Extend { .. }
            | Action::Inspect { .. }
            | Action::Clear { .. }
    )
}

/// Writes the commands for an action that [`can`] be done; returns how many answers will come.
/// `begin` goes in front of each command.
pub(super) fn encode(
    command: &Command,
    abilities: Abilities,
    delete: Delete,
    begin: &[u8],
    out: &mut Vec<u8>,
) -> usize {
    let Claim { key, value, .. } = &*command.claim;
    let (key, value) = (key.as_bytes(), value.as_bytes());
    let mut answers = 0;
    let mut command_of = |words: &[&[u8]]| {
        out.extend_from_slice(begin);
        write(out, words);
        answers += 1;
    };
    let delete: &[&[u8]] = match delete {
        Delete::Delex => &[b"DELEX", key, b"IFEQ", value],
        Delete::Delifeq => &[b"DELIFEQ", key, value],
    };
    match command.action {
        Action::Release { wakes } => {
            command_of(delete);
            if wakes.has(0) && abilities.scripts {
                command_of(&[b"EXISTS", queue_keys::queue(&command.claim.key).as_bytes()]);
            }
        }
        Action::Shorten { rest } if rest.is_zero() => command_of(delete),
        Action::Shorten { rest } => {
            let rest = Decimal::of(milliseconds(rest, 1));
            command_of(&[b"SET", key, value, b"IFEQ", value, b"PX", rest.digits()]);
        }
        Action::Clear { .. } => command_of(&[b"DEL", key]),
        _ => {
            command_of(&[b"GET", key]);
            command_of(&[b"PTTL", key]);
        }
    }
    answers
}

/// Lets a key that is ours live for longer. The `ttl` must be more than what the key has left, because this sets the
/// expiry in any case (rule 7).
pub(super) fn prolong(claim: &Claim, ttl: Duration, begin: &[u8], out: &mut Vec<u8>) {
    let Claim { key, value, .. } = claim;
    let (value, ttl) = (value.as_bytes(), Decimal::of(milliseconds(ttl, 1)));
    out.extend_from_slice(begin);
    write(out, &[b"SET", key.as_bytes(), value, b"IFEQ", value, b"PX", ttl.digits()]);
}

/// Reads the answers to the commands of [`encode`].
pub(super) fn read(command: &Command, answers: &[Value]) -> Next {
    let Claim { value, .. } = &*command.claim;
    let fail = |error| Next::Answer(Err(server_error::explain(error, value)));
    match (command.action, answers) {
        (Action::Release { .. } | Action::Shorten { .. }, [answer, ..]) if is_unknown(answer) => {
            Next::Unknown
        }
        (
            Action::Extend { .. } | Action::Release { .. } | Action::Shorten { .. },
            [Value::ServerError(error), ..],
        ) if server_error::is_of_another_type(error) => Next::Answer(Ok(Reply::Foreign)),
        (_, [Value::ServerError(error), ..]) => fail(error),
        (Action::Release { .. }, [Value::Int(deleted @ 0..=1), rest @ ..]) => {
            let deleted = *deleted == 1;
            match rest {
                [Value::Int(1..), ..] => Next::Wake { deleted },
                // A user without permission to look at queues has no queue.
                _ => Next::Answer(Ok(gone(deleted))),
            }
        }
        (Action::Clear { .. } | Action::Shorten { .. }, [Value::Int(deleted @ 0..=1)]) => {
            Next::Answer(Ok(gone(*deleted == 1)))
        }
        (Action::Shorten { .. }, [Value::Okay]) => Next::Answer(Ok(Reply::Done)),
        (Action::Shorten { .. }, [Value::Nil]) => Next::Answer(Ok(Reply::Missing)),
        (Action::Extend { .. } | Action::Inspect { .. }, [_, Value::ServerError(error)]) => {
            fail(error)
        }
        (Action::Extend { ttl }, [holder, Value::Int(left)]) => {
            extended(bytes(holder), value, *left, ttl)
        }
        (Action::Inspect { .. }, [holder, Value::Int(left)]) => {
            let value = bytes(holder).map(|it| Secret(String::from_utf8_lossy(it).into_owned()));
            // Without scripts, no queue is seen.
            let seen = Inspection {
                value,
                left: reply::left(*left),
                waiting: Vec::new(),
                turn_is_out: false,
            };
            Next::Answer(Ok(Reply::Inspected(seen.into())))
        }
        (_, answers) => {
            let other = answers.first().unwrap_or(&Value::Nil);
            Next::Answer(Err(reply::unexpected(other, "another answer")))
        }
    }
}

/// Reads the answer to [`prolong`], of a key that had this much left before.
pub(super) fn prolonged(
    command: &Command,
    answer: &Value,
    left: Duration,
) -> Result<Reply, String> {
    match answer {
        Value::Okay => Ok(Reply::There { left }),
        // It expired in between, or went to another client.
        Value::Nil => Ok(Reply::Foreign),
        Value::ServerError(error) if server_error::is_of_another_type(error) => Ok(Reply::Foreign),
        Value::ServerError(error) => Err(server_error::explain(error, &command.claim.value)),
        other => Err(reply::unexpected(other, "OK or nil")),
    }
}

fn extended(holder: Option<&[u8]>, value: &str, left: i64, ttl: Duration) -> Next {
    match holder {
        None => Next::Answer(Ok(Reply::Missing)),
        Some(holder) if holder != value.as_bytes() => Next::Answer(Ok(Reply::Foreign)),
        // It expired between the two commands.
        Some(_) if left == -2 => Next::Answer(Ok(Reply::Missing)),
        Some(_) => {
            let left = reply::left(left);
            // Rule 7: an extension never shortens. A key without expiry gets one: no lock is for ever.
            if left >= ttl && left != Duration::MAX {
                Next::Answer(Ok(Reply::There { left }))
            } else {
                Next::Prolong { left, ttl }
            }
        }
    }
}

/// The native delete does not tell a key that is not there from another client's.
pub(super) fn gone(deleted: bool) -> Reply {
    if deleted { Reply::Done } else { Reply::Missing }
}

fn bytes(answer: &Value) -> Option<&[u8]> {
    match answer {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::node::KeySet;

    const TTL: Duration = Duration::from_secs(30);
    const EXTEND: Action = Action::Extend { ttl: TTL };

    fn command(action: Action) -> Command {
        let claim = Arc::new(Claim::new(&"key".into(), "value".to_owned()));
        Command { claim, action }
    }

    fn sent(action: Action, scripts: bool, delete: Delete) -> Vec<String> {
        commands_of(&command(action), scripts, delete)
    }

    fn commands_of(command: &Command, scripts: bool, delete: Delete) -> Vec<String> {
        let mut out = Vec::new();
        let abilities = Abilities { scripts, delete: Some(delete) };
        let answers = encode(command, abilities, delete, b"", &mut out);
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> = text.lines().filter(|it| !it.starts_with('$')).collect();
        let commands: Vec<_> = lines
            .split(|it| it.starts_with('*'))
            .map(|words| words.join(" "))
            .filter(|it| !it.is_empty())
            .collect();
        assert_eq!(commands.len(), answers);
        commands
    }

    #[test]
    fn a_release_is_one_native_command_and_a_look_at_the_queue_that_is_kept_here() {
        let release = |wakes| Action::Release { wakes: KeySet::first(wakes) };
        assert_eq!(sent(release(false), true, Delete::Delex), ["DELEX key IFEQ value"]);
        assert_eq!(sent(release(false), true, Delete::Delifeq), ["DELIFEQ key value"]);
        assert_eq!(
            sent(release(true), true, Delete::Delifeq),
            ["DELIFEQ key value", "EXISTS key:{key}:queue"]
        );
        assert_eq!(sent(release(true), false, Delete::Delex), ["DELEX key IFEQ value"]);
    }

    #[test]
    fn the_rest_of_a_min_hold_is_set_and_nothing_of_it_deletes() {
        let shorten = |rest| Action::Shorten { rest };
        assert_eq!(sent(shorten(TTL), false, Delete::Delex), ["SET key value IFEQ value PX 30000"]);
        assert_eq!(sent(shorten(Duration::ZERO), false, Delete::Delex), ["DELEX key IFEQ value"]);
    }

    #[test]
    fn an_extension_without_scripts_never_shortens() {
        let ours = Value::BulkString(b"value".to_vec());
        let extend =
            |holder: &Value, left| read(&command(EXTEND), &[holder.clone(), Value::Int(left)]);
        let left = Duration::from_millis;
        assert_eq!(extend(&ours, 20_000), Next::Prolong { left: left(20_000), ttl: TTL });
        let without_expiry = Next::Prolong { left: Duration::MAX, ttl: TTL };
        assert_eq!(extend(&ours, -1), without_expiry);
        for longer in [30_000, 60_000] {
            let kept = Reply::There { left: left(longer) };
            assert_eq!(extend(&ours, longer.cast_signed()), Next::Answer(Ok(kept)));
        }
        assert_eq!(extend(&ours, -2), Next::Answer(Ok(Reply::Missing)));
        assert_eq!(extend(&Value::Nil, -2), Next::Answer(Ok(Reply::Missing)));
        let theirs = Value::BulkString(b"other".to_vec());
        assert_eq!(extend(&theirs, 1), Next::Answer(Ok(Reply::Foreign)));
        let mut out = Vec::new();
        prolong(&command(EXTEND).claim, TTL, b"", &mut out);
        assert!(
            String::from_utf8(out)
                .unwrap()
                .ends_with("IFEQ\r\n$5\r\nvalue\r\n$2\r\nPX\r\n$5\r\n30000\r\n")
        );
        assert_eq!(prolonged(&command(EXTEND), &Value::Nil, TTL), Ok(Reply::Foreign));
    }

    #[test]
    fn a_native_delete_answers_as_the_script_does() {
        let release = command(Action::Release { wakes: KeySet::FIRST });
        let int = Value::Int;
        assert_eq!(read(&release, &[int(1), int(0)]), Next::Answer(Ok(Reply::Done)));
        assert_eq!(read(&release, &[int(0)]), Next::Answer(Ok(Reply::Missing)));
        assert_eq!(read(&release, &[int(1), int(1)]), Next::Wake { deleted: true });
        assert_eq!(read(&release, &[int(0), int(1)]), Next::Wake { deleted: false });
        let error = |text: &str| redis::parse_redis_value(text.as_bytes()).unwrap();
        let no_look = [int(1), error("-NOPERM no exists\r\n")];
        assert_eq!(read(&release, &no_look), Next::Answer(Ok(Reply::Done)));
        assert_eq!(read(&release, &[error("-ERR unknown command\r\n")]), Next::Unknown);
        let of_readers = [error("-WRONGTYPE Operation\r\n")];
        assert_eq!(read(&release, &of_readers), Next::Answer(Ok(Reply::Foreign)));
        assert!(matches!(read(&release, &[Value::Okay]), Next::Answer(Err(_))));
    }
}
