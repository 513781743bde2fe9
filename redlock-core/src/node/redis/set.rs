//! Commands for sets of locks: each is done on all keys or on none, in one script.

use std::sync::LazyLock;

use redis::Value;

use super::{reply, script::Script};
use crate::node::{Action, KeySet, Reply, set_reply::SetReply};

static GRANT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("grant_all.lua")));
static HEAL: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(include_str!("holders.lua"), include_str!("heal_all.lua")))
});
static EXTEND: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(include_str!("holders.lua"), include_str!("extend_all.lua")))
});
static SHORTEN: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(include_str!("holders.lua"), include_str!("shorten_all.lua")))
});
static ADOPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("adopt_all.lua")));
static GRANT_FENCED: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("draw.lua"),
        include_str!("draw_all.lua"),
        include_str!("grant_all_fenced.lua")
    ))
});
static REDRAW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("holders.lua"),
        include_str!("draw.lua"),
        include_str!("draw_all.lua"),
        include_str!("redraw_all.lua")
    ))
});
static CONFIRM: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(include_str!("holders.lua"), include_str!("confirm_all.lua")))
});

/// The script that does this on all keys of a set, or on none. `None` for what is done on each key
/// by itself.
pub(super) fn script(action: Action) -> Option<&'static Script> {
    match action {
        Action::Grant { .. } => Some(&GRANT),
        Action::Heal { .. } => Some(&HEAL),
        Action::Extend { .. } => Some(&EXTEND),
        Action::Shorten { .. } => Some(&SHORTEN),
        Action::GrantFenced { .. } => Some(&GRANT_FENCED),
        Action::Redraw { .. } => Some(&REDRAW),
        Action::Confirm(_) => Some(&CONFIRM),
        Action::Adopt { .. } => Some(&ADOPT),
        Action::Release { .. }
        | Action::Watch
        | Action::Join { .. }
        | Action::Leave { .. }
        | Action::RaiseBarrier { .. }
        | Action::LowerBarrier
        | Action::FindPermits { .. }
        | Action::Inspect { .. }
        | Action::TakeAway
        | Action::Clear { .. } => None,
    }
}

/// Reads the answer to an action on a set.
pub(super) fn decode(action: Action, answer: &Value, secret: &str) -> Result<Reply, String> {
    match (action, answer) {
        // All locks of the call were deleted, and no client waited for any.
        (Action::Release { .. }, Value::Int(1)) => Ok(Reply::Done),
        (Action::Release { .. }, Value::Array(answers)) => released(answers, secret),
        (Action::Release { .. }, other) if !matches!(other, Value::ServerError(_)) => {
            Err(reply::unexpected(other, "1, or one answer for each lock"))
        }
        (_, Value::ServerError(error)) if error.code() == "CROSSSLOT" => Err(format!(
            "{} (this node is a cluster, and the resources of the set are in different slots: put \
             the same hash tag into each of them, such as \"{{bank}}:account:1\")",
            error.code()
        )),
        (Action::Grant { .. } | Action::Heal { .. }, answer) => reply::of_grant(answer, secret),
        (action, answer) => reply::decode(action, answer, secret),
    }
}

/// Reads the answer for each lock that was released.
pub(super) fn released(answers: &[Value], secret: &str) -> Result<Reply, String> {
    let wakes = KeySet::FIRST;
    let mut whole = SetReply::default();
    for (place, answer) in answers.iter().enumerate() {
        whole.add(place, &reply::decode(Action::Release { wakes }, answer, secret)?);
    }
    Ok(whole.reply())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::node::Told;

    const TTL: Duration = Duration::from_secs(30);
    const RELEASE: Action = Action::Release { wakes: KeySet::FIRST };

    #[test]
    fn a_set_is_released_when_all_its_locks_were_ours() {
        let woke = |deleted, waiters: &[(usize, &str)]| Reply::Woke {
            deleted,
            told: Told::named(waiters),
        };
        for (answers, reply) in [
            ([1, 1], Reply::Done),
            ([1, 0], Reply::Missing),
            ([0, -1], Reply::Foreign),
            ([-1, 1], Reply::Foreign),
            ([1, 3], woke(true, &[(1, "b")])),
            ([3, 3], woke(true, &[(0, "a"), (1, "b")])),
            ([3, 0], woke(false, &[(0, "a")])),
            ([2, 1], woke(false, &[(0, "a")])),
            ([3, -1], woke(false, &[(0, "a")])),
        ] {
            let each = answers.into_iter().zip([b"a", b"b"]).map(|(number, waiter)| match number {
                2.. => Value::Array(vec![Value::Int(number), Value::BulkString(waiter.to_vec())]),
                _ => Value::Int(number),
            });
            let answer = Value::Array(each.collect());
            assert_eq!(decode(RELEASE, &answer, "v"), Ok(reply), "{answers:?}");
        }
        assert!(decode(RELEASE, &Value::Int(0), "v").is_err(), "one number for two locks");
    }

    #[test]
    fn different_slots_are_an_error_that_says_what_to_do() {
        let error = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n";
        let error = redis::parse_redis_value(error).unwrap();
        let reason = decode(Action::Grant { ttl: TTL }, &error, "v").unwrap_err();
        assert!(reason.contains("CROSSSLOT") && reason.contains("the same hash tag"), "{reason}");
    }
}
