//! The answer of a server: granted, refused, or failed and why, strictly apart (rule 17).

use std::{sync::Arc, time::Duration};

use redis::Value;

use super::server_error::{explain, is_of_another_type};
use crate::node::{Action, Inspection, Reply, Secret, Told};

/// Reads the answer to one action. An error is the failure of that node in words, never a refusal.
pub(super) fn decode(action: Action, answer: &Value, secret: &str) -> Result<Reply, String> {
    match (action, answer) {
        // Readers have taken the lock meanwhile, or another program its key. Where numbers are drawn, the key of the
        // wrong type may be that of the counter.
        (
            Action::Extend { .. }
            | Action::Release { .. }
            | Action::Shorten { .. }
            | Action::Adopt { .. },
            Value::ServerError(error),
        ) if is_of_another_type(error) => Ok(Reply::Foreign),
        (_, Value::ServerError(error)) => Err(explain(error, secret)),
        (Action::Grant { .. } | Action::Heal { .. }, Value::Okay) => Ok(Reply::Done),
        (Action::Grant { .. } | Action::Heal { .. }, Value::Nil) => Ok(Reply::Foreign),
        (Action::Grant { .. } | Action::Heal { .. }, other) => Err(unexpected(other, "OK or nil")),
        (Action::GrantFenced { .. } | Action::Redraw { .. }, Value::Int(first @ 1..)) => {
            Ok(Reply::Numbered { first: first.unsigned_abs() })
        }
        (Action::GrantFenced { .. }, Value::Int(-1)) => Ok(Reply::Foreign),
        (Action::GrantFenced { .. }, other) => Err(unexpected(other, "a token or -1")),
        (Action::Extend { .. } | Action::Watch, Value::Int(-2)) => Ok(Reply::Missing),
        (Action::Extend { .. }, Value::Int(-3)) => Ok(Reply::Foreign),
        (Action::Extend { .. } | Action::Watch, Value::Int(left @ -1..)) => {
            Ok(Reply::There { left: self::left(*left) })
        }
        (Action::Extend { .. } | Action::Watch, other) => {
            Err(unexpected(other, "-3, -2 or what is left"))
        }
        (Action::FindPermits { .. }, Value::Array(answers)) => {
            permits(answers).ok_or_else(|| unexpected(answer, "numbers of permits"))
        }
        (Action::FindPermits { .. }, other) => Err(unexpected(other, "numbers of permits")),
        (Action::Join { .. }, Value::Int(-1)) => Ok(Reply::Full),
        (Action::Join { .. }, Value::Array(answers)) => {
            queued(answers).ok_or_else(|| unexpected(answer, "a place in a queue"))
        }
        (Action::Join { .. }, other) => Err(unexpected(other, "a place in a queue")),
        (Action::TakeAway, Value::Okay) => Ok(Reply::Done),
        (Action::TakeAway, Value::Nil) => Ok(Reply::Missing),
        (Action::TakeAway, other) => Err(unexpected(other, "OK or nil")),
        (Action::Inspect { .. }, Value::Array(answers)) => {
            seen(answers).ok_or_else(|| unexpected(answer, "the state of a lock"))
        }
        (Action::Inspect { .. }, other) => Err(unexpected(other, "the state of a lock")),
        (
            Action::Release { .. } | Action::Clear { .. } | Action::Leave { .. },
            Value::Array(answers),
        ) => told(answers).ok_or_else(|| unexpected(answer, "a number and what waiters are told")),
        (Action::Leave { .. }, Value::Int(answer @ 4..=5)) => {
            Ok(Reply::Unwoken { deleted: *answer == 5, told: Told::default() })
        }
        (_, Value::Int(1)) => Ok(Reply::Done),
        (_, Value::Int(0)) => Ok(Reply::Missing),
        (_, Value::Int(-1)) => Ok(Reply::Foreign),
        (_, other) => Err(unexpected(other, "1, 0 or -1")),
    }
}

/// Reads the answer of a script that sets keys if they are free, as `SET NX` does.
pub(super) fn of_grant(answer: &Value, secret: &str) -> Result<Reply, String> {
    match answer {
        Value::Int(1) => Ok(Reply::Done),
        Value::Int(-1) => Ok(Reply::Foreign),
        Value::ServerError(error) => Err(explain(error, secret)),
        other => Err(unexpected(other, "1 or -1")),
    }
}

/// What `PTTL` tells of the remaining time of a key.
pub(super) fn left(pttl: i64) -> Duration {
    match pttl {
        // There is no such key.
        -2 => Duration::ZERO,
        // A key without an expiry never runs out.
        left => u64::try_from(left).map_or(Duration::MAX, Duration::from_millis),
    }
}

/// Reads a number, in front of what the waiters are told.
fn told(answers: &[Value]) -> Option<Reply> {
    let [Value::Int(number), words @ ..] = answers else { return None };
    let told = words_of(words)?;
    match number {
        2..=3 => Some(Reply::Woke { deleted: *number == 3, told }),
        4..=5 => Some(Reply::Unwoken { deleted: *number == 5, told }),
        _ => None,
    }
}

fn words_of(answers: &[Value]) -> Option<Told> {
    let words = answers.iter().map(|it| redis::from_redis_value_ref(it).ok().map(secret));
    words.collect::<Option<Vec<_>>>().map(Told::of)
}

/// What another client has written: any bytes.
fn secret(bytes: Vec<u8>) -> Secret {
    Secret(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads the numbers of permits, in front of what the waiters are told.
fn permits(answers: &[Value]) -> Option<Reply> {
    let count = answers.iter().take_while(|it| matches!(it, Value::Int(_))).count();
    let (numbers, words) = answers.split_at(count);
    let free: Option<_> = numbers.iter().map(|it| redis::from_redis_value_ref(it).ok()).collect();
    Some(Reply::Permits { free: free?, told: words_of(words)? })
}

/// Reads `place, how many stand before it, PTTL`, and what else there is to know: 0, 1 if a turn is out, or 2 if a reader
/// may share the lock.
fn queued(answers: &[Value]) -> Option<Reply> {
    let [place, ahead, left, rest] = answers else { return None };
    let place = redis::from_redis_value_ref(place).ok()?;
    let ahead = redis::from_redis_value_ref(ahead).ok()?;
    let left = match redis::from_redis_value_ref::<i64>(left).ok()? {
        -2 => None,
        left => Some(self::left(left)),
    };
    let rest: u8 = redis::from_redis_value_ref(rest).ok()?;
    Some(Reply::Queued { place, ahead, left, turn_is_out: rest != 0, may_share: rest == 2 })
}

/// Reads `value, PTTL, waiters, whether a turn is out`.
fn seen(answers: &[Value]) -> Option<Reply> {
    let [value, left, waiting, turn_is_out] = answers else { return None };
    let value: Option<Vec<u8>> = redis::from_redis_value_ref(value).ok()?;
    let pttl = redis::from_redis_value_ref::<i64>(left).ok()?;
    let waiting: Vec<Vec<u8>> = redis::from_redis_value_ref(waiting).ok()?;
    Some(Reply::Inspected(Arc::new(Inspection {
        value: value.map(secret),
        left: self::left(pttl),
        waiting: waiting.into_iter().map(secret).collect(),
        turn_is_out: redis::from_redis_value_ref(turn_is_out).ok()?,
    })))
}

/// Says that an answer is of the wrong kind, without its content, which may be anything.
pub(super) fn unexpected(answer: &Value, expected: &str) -> String {
    let kind = match answer {
        Value::Nil => "nil",
        Value::Okay => "OK",
        Value::Int(_) => "another number",
        Value::SimpleString(_) | Value::BulkString(_) | Value::VerbatimString { .. } => "a string",
        Value::Array(_) => "an array",
        Value::ServerError(_) => "an error",
        _ => "something else",
    };
    format!("answered {kind} where {expected} was expected: is this a Redis server?")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{node::KeySet, token::Token};

    const GRANT: Action = Action::Grant { ttl: Duration::from_secs(1) };
    const EXTEND: Action = Action::Extend { ttl: Duration::from_secs(1) };
    const RELEASE: Action = Action::Release { wakes: KeySet::FIRST };
    const SHORTEN: Action = Action::Shorten { rest: Duration::from_secs(1) };

    #[test]
    fn an_answer_of_the_wrong_kind_is_told_without_its_content() {
        for (answer, kind) in [
            (":5\r\n", "another number"),
            ("+secret\r\n", "a string"),
            ("$6\r\nsecret\r\n", "a string"),
            ("*1\r\n+secret\r\n", "an array"),
            ("#t\r\n", "something else"),
        ] {
            let told = decode(GRANT, &parse(answer), "").unwrap_err();
            assert!(told.starts_with(&format!("answered {kind} where OK or nil")), "{told}");
        }
        for (answer, kind) in [("_\r\n", "nil"), ("+OK\r\n", "OK")] {
            let told = decode(EXTEND, &parse(answer), "").unwrap_err();
            assert!(told.starts_with(&format!("answered {kind} where")), "{told}");
        }
        assert!(unexpected(&parse("-ERR no\r\n"), "PONG").starts_with("answered an error"));
    }

    fn parse(bytes: &str) -> Value {
        redis::parse_redis_value(bytes.as_bytes()).unwrap()
    }

    fn read(action: Action, bytes: &str) -> Result<Reply, String> {
        decode(action, &parse(bytes), "s3cret")
    }

    #[test]
    fn a_grant_is_ok_or_nil() {
        assert_eq!(read(GRANT, "+OK\r\n"), Ok(Reply::Done));
        assert_eq!(read(GRANT, "$-1\r\n"), Ok(Reply::Foreign), "RESP2");
        assert_eq!(read(GRANT, "_\r\n"), Ok(Reply::Foreign), "RESP3");
    }

    #[test]
    fn a_script_answers_one_of_three_numbers() {
        for action in [RELEASE, SHORTEN] {
            assert_eq!(read(action, ":1\r\n"), Ok(Reply::Done));
            assert_eq!(read(action, ":0\r\n"), Ok(Reply::Missing));
            assert_eq!(read(action, ":-1\r\n"), Ok(Reply::Foreign));
        }
    }

    #[test]
    fn an_extension_answers_what_was_left() {
        let extended = |left| Ok(Reply::There { left });
        assert_eq!(read(EXTEND, ":1500\r\n"), extended(Duration::from_millis(1500)));
        assert_eq!(read(EXTEND, ":0\r\n"), extended(Duration::ZERO));
        assert_eq!(read(EXTEND, ":-1\r\n"), extended(Duration::MAX), "for ever");
        assert_eq!(read(EXTEND, ":-2\r\n"), Ok(Reply::Missing));
        assert_eq!(read(EXTEND, ":-3\r\n"), Ok(Reply::Foreign));
        let reason = read(EXTEND, ":-4\r\n").unwrap_err();
        assert!(reason.contains("what is left was expected"), "{reason}");
    }

    #[test]
    fn a_key_that_is_no_lock_is_not_ours() {
        let adopt = Action::Adopt {
            ttl: Duration::from_secs(1),
            from: Token::parse(&"0a".repeat(20)).unwrap(),
        };
        for words in [
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "ERR Error running script (call to f_0): @user_script:5: WRONGTYPE Operation against",
        ] {
            for action in [EXTEND, RELEASE, SHORTEN, adopt] {
                assert_eq!(read(action, &format!("-{words}\r\n")), Ok(Reply::Foreign), "{words}");
            }
            // A grant takes any key for taken, and says no such thing.
            assert!(read(GRANT, &format!("-{words}\r\n")).is_err(), "{words}");
        }
        assert!(read(EXTEND, "-ERR no WRONGTYPE\r\n").is_err());
    }

    #[test]
    fn any_other_answer_is_a_failure_and_never_a_refusal() {
        for answer in [":1\r\n", ":0\r\n", "+QUEUED\r\n", "$2\r\nOK\r\n", "*0\r\n", "#t\r\n"] {
            let reason = read(GRANT, answer).unwrap_err();
            assert!(reason.contains("OK or nil was expected"), "{reason}");
        }
        for action in [EXTEND, RELEASE, SHORTEN] {
            for answer in ["+OK\r\n", "$-1\r\n", "$1\r\n1\r\n", "#t\r\n", "*0\r\n"] {
                let reason = read(action, answer).unwrap_err();
                assert!(reason.contains("was expected"), "{reason}");
            }
        }
        let reason = read(RELEASE, ":4\r\n").unwrap_err();
        assert!(reason.contains("1, 0 or -1 was expected"), "{reason}");
        let reason = read(GRANT, "$6\r\ns3cret\r\n").unwrap_err();
        assert!(!reason.contains("s3cret"), "{reason}");
    }

    #[test]
    fn a_server_error_keeps_its_own_words() {
        for text in [
            "LOADING Redis is loading the dataset in memory",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "MISCONF Redis is configured to save RDB snapshots",
            "BUSY Redis is busy running a script.",
            "NOREPLICAS Not enough good replicas to write.",
            "ERR max number of clients reached",
        ] {
            for action in [GRANT, EXTEND, RELEASE, SHORTEN] {
                assert_eq!(read(action, &format!("-{text}\r\n")), Err(text.to_owned()));
            }
        }
    }
}
