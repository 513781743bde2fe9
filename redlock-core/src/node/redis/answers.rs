//! The answers to commands that went out as one call.

use redis::Value;

use super::{reply, server_error, set, shared};
use crate::node::{Command, Reply};

/// Reads the answer to one command: its own, its entry in a list, or one for a whole call.
pub(super) fn decode(command: &Command, answer: &Value) -> Result<Reply, String> {
    let Command { claim, action } = command;
    if claim.shared {
        shared::decode(*action, answer, &claim.value)
    } else if claim.is_set() {
        set::decode(*action, answer, &claim.value)
    } else {
        reply::decode(*action, answer, &claim.value)
    }
}

/// Reads the answer to several commands that went out as one call. It is a list with one entry for each
/// lock, unless one number is for all of them, or the call failed as a whole.
pub(super) fn decode_all(
    commands: &[Command],
    answer: &Value,
) -> impl Iterator<Item = Result<Reply, String>> {
    let mut rest = match answer {
        Value::Array(answers) => Some(answers.as_slice()),
        _ => None,
    };
    let locks: usize = commands.iter().map(|it| it.claim.len()).sum();
    let fits = rest.is_none_or(|answers| answers.len() == locks);
    commands.iter().map(move |command| {
        let claim = &command.claim;
        if !fits {
            return Err(reply::unexpected(answer, "one answer for each lock"));
        }
        let Some(answers) = &mut rest else {
            return match answer {
                // That of one lock may say that other clients have it. No single lock is meant here.
                Value::ServerError(error) => Err(server_error::explain(error, &claim.value)),
                _ => decode(command, answer),
            };
        };
        let (mine, others) = answers.split_at(claim.len());
        *answers = others;
        match mine {
            [answer] if !claim.is_set() => decode(command, answer),
            answers => set::released(answers, &claim.value),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::node::{Action, Claim, KeySet};

    const RELEASE: Action = Action::Release { wakes: KeySet::NONE };

    fn lock(action: Action) -> Command {
        Command { claim: Arc::new(Claim::new(&"a".into(), "v".to_owned())), action }
    }

    fn set(action: Action) -> Command {
        let rest = ["c".into()].into();
        let claim = Claim { rest, ..Claim::new(&"b".into(), "v".to_owned()) };
        Command { claim: Arc::new(claim), action }
    }

    #[test]
    fn one_number_stands_for_all_locks_of_a_release_and_of_no_other_command() {
        let left = Duration::from_millis(1);
        let extend = Action::Extend { ttl: Duration::from_secs(1) };
        for (action, reply) in [(RELEASE, Reply::Done), (extend, Reply::There { left })] {
            assert_eq!(decode(&set(action), &Value::Int(1)), Ok(reply));
        }
    }

    #[test]
    fn releases_that_share_a_call_are_read_one_by_one_or_not_at_all() {
        let commands = [lock(RELEASE), set(RELEASE), lock(RELEASE)];
        let read = |answer: &Value| decode_all(&commands, answer).collect::<Vec<_>>();
        let list =
            |numbers: &[i64]| Value::Array(numbers.iter().map(|it| Value::Int(*it)).collect());

        assert_eq!(read(&Value::Int(1)), [Reply::Done, Reply::Done, Reply::Done].map(Ok));
        let one_by_one = [Reply::Missing, Reply::Foreign, Reply::Done].map(Ok);
        assert_eq!(read(&list(&[0, 1, -1, 1])), one_by_one);
        let error = |text: &str| redis::parse_redis_value(text.as_bytes()).unwrap();
        let errors = [error("-OOM no room\r\n"), error("-WRONGTYPE Operation\r\n")];
        for wrong in [list(&[1, 1, 1]), list(&[1, 1, 1, 1, 1]), list(&[])].into_iter().chain(errors)
        {
            let read = read(&wrong);
            assert!(read.len() == 3 && read.iter().all(Result::is_err), "{wrong:?}: {read:?}");
        }
    }
}
