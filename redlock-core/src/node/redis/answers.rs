//! The answers to commands that went out as one call.

use redis::Value;

use super::{reply, set, shared};
use crate::node::{Command, Reply};

/// Reads the answer to a command that went out by itself, or the answer to a whole call that is not a list.
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
            return Err(reply::unexpected(answer, "one number for each lock"));
        }
        let Some(answers) = &mut rest else { return decode(command, answer) };
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
    use crate::node::{Action, Claim, Places};

    #[test]
    fn one_number_stands_for_all_locks_of_a_release_and_of_no_other_command() {
        let rest = ["b".into()].into();
        let set = Arc::new(Claim { rest, ..Claim::new(&"a".into(), "v".to_owned()) });
        let left = Duration::from_millis(1);
        let extend = Action::Extend { ttl: Duration::from_secs(1) };
        for (action, reply) in [
            (Action::Release { wakes: Places::NONE }, Reply::Done),
            (extend, Reply::There { left }),
        ] {
            let command = Command { claim: Arc::clone(&set), action };
            assert_eq!(decode(&command, &Value::Int(1)), Ok(reply));
        }
    }
}
