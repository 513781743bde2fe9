//! The answers to commands that went out as one call.

use redis::Value;

use super::{reply, set, shared};
use crate::node::{Action, Command, Reply};

/// Reads the answer to commands that went out as one call. It is a list with one entry for each lock,
/// unless there is only one lock, the number 1 is for all of them, or the call failed as a whole.
pub(super) fn decode_all(
    commands: &[Command],
    answer: &Value,
) -> impl Iterator<Item = Result<Reply, String>> {
    let is_list = matches!(commands, [_, _, ..]) && matches!(answer, Value::Array(_));
    let mut rest = match answer {
        Value::Array(answers) if is_list => answers.as_slice(),
        _ => &[],
    };
    let locks: usize = commands.iter().map(|it| it.claim.len()).sum();
    let is_release = commands.iter().all(|it| matches!(it.action, Action::Release { .. }));
    let are_released = is_release && locks > 1 && *answer == Value::Int(1);
    let expected = if is_list { locks } else { 0 };
    let fits = rest.len() == expected;
    commands.iter().map(move |Command { claim, action }| {
        if are_released {
            return Ok(Reply::Done);
        }
        if !fits {
            return Err(reply::unexpected(answer, "one number for each lock"));
        }
        let secret = &claim.value;
        match (is_list, claim.is_set()) {
            (false, _) if claim.shared => shared::decode(*action, answer, secret),
            (false, false) => reply::decode(*action, answer, secret),
            (false, true) => set::decode(*action, answer, secret),
            (true, is_set) => {
                let (mine, others) = rest.split_at(claim.len());
                rest = others;
                match mine {
                    [answer] if !is_set => reply::decode(*action, answer, secret),
                    answers => set::released(answers, secret),
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::node::{Claim, Places};

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
            let mut replies = decode_all(std::slice::from_ref(&command), &Value::Int(1));
            assert_eq!(replies.next(), Some(Ok(reply)));
        }
    }
}
