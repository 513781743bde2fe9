//! Commands for sets of locks: each is done on all keys or on none, in one script.

use std::sync::LazyLock;

use redis::Value;

use super::{
    reply,
    script::{How, Script, call},
    words::{Decimal, milliseconds, word, words},
};
use crate::node::{
    Action, Claim, Command, Draw, Places, Raise, Reply, counter, set_reply::SetReply,
};

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

/// Whether this is done on a set in a way of its own.
pub(super) fn is_ours(action: Action) -> bool {
    script(action).is_some()
}

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
        | Action::Leave
        | Action::Bar { .. }
        | Action::Unbar
        | Action::FindPermit { .. }
        | Action::Inspect
        | Action::TakeAway
        | Action::Clear { .. } => None,
    }
}

/// Writes the command of a set, which this script does.
pub(super) fn encode(
    command: &Command,
    script: &Script,
    how: How,
    time: &Decimal,
    out: &mut Vec<u8>,
) {
    let claim = &*command.claim;
    match command.action {
        Action::Adopt { from, .. } => {
            call(script, how, claim.len(), 3, out);
            claim.keys().for_each(|key| word(out, key.as_bytes()));
            let from = from.text() + ".";
            words(out, &[from.as_bytes(), claim.value.as_bytes(), time.digits()]);
        }
        Action::GrantFenced { draw, .. } | Action::Redraw { draw, .. } => {
            drawing(script, how, claim, time, draw, out);
        }
        Action::Confirm(Raise { from, to, life }) => {
            numbered(script, how, claim, 4, out);
            let life = Decimal::of(milliseconds(life, 1));
            words(out, &[Decimal::of(from).digits(), Decimal::of(to).digits(), life.digits()]);
        }
        _ => timed(script, how, claim, time, out),
    }
}

/// Writes a call with the locks, our value and a time.
fn timed(script: &Script, how: How, claim: &Claim, time: &Decimal, out: &mut Vec<u8>) {
    call(script, how, claim.len(), 2, out);
    claim.keys().for_each(|key| word(out, key.as_bytes()));
    words(out, &[claim.value.as_bytes(), time.digits()]);
}

/// Writes a call with the locks, their counters and our value, and room for the other arguments.
fn numbered(script: &Script, how: How, claim: &Claim, arguments: usize, out: &mut Vec<u8>) {
    call(script, how, 2 * claim.len(), arguments, out);
    claim.keys().for_each(|key| word(out, key.as_bytes()));
    claim.keys().for_each(|key| word(out, counter::key(key).as_bytes()));
    word(out, claim.value.as_bytes());
}

fn drawing(
    script: &Script,
    how: How,
    claim: &Claim,
    time: &Decimal,
    draw: Draw,
    out: &mut Vec<u8>,
) {
    numbered(script, how, claim, 5, out);
    let Draw { floor, count, life } = draw;
    let life = Decimal::of(milliseconds(life, 1));
    word(out, time.digits());
    words(out, &[Decimal::of(floor).digits(), Decimal::of(count.into()).digits(), life.digits()]);
}

/// Reads the answer to an action on a set.
pub(super) fn decode(action: Action, answer: &Value, secret: &str) -> Result<Reply, String> {
    match (action, answer) {
        (Action::Release { .. }, Value::Array(answers)) => released(answers, secret),
        (Action::Release { .. }, other) if !is_error(other) => {
            Err(reply::unexpected(other, "one number for each lock"))
        }
        (Action::Grant { .. } | Action::Heal { .. }, Value::Int(1)) => Ok(Reply::Done),
        (Action::Grant { .. } | Action::Heal { .. }, Value::Int(-1)) => Ok(Reply::Foreign),
        (Action::Grant { .. } | Action::Heal { .. }, other) if !is_error(other) => {
            Err(reply::unexpected(other, "1 or -1"))
        }
        (_, Value::ServerError(error)) if error.code() == "CROSSSLOT" => Err(format!(
            "{} (this node is a cluster, and the resources of the set are in different slots: put \
             the same hash tag into each of them, such as \"{{bank}}:account:1\")",
            error.code()
        )),
        (action, answer) => reply::decode(action, answer, secret),
    }
}

fn is_error(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(_))
}

/// Reads one number for each lock that was released.
pub(super) fn released(answers: &[Value], secret: &str) -> Result<Reply, String> {
    let wakes = Places::FIRST;
    let mut whole = SetReply::default();
    for (place, answer) in answers.iter().enumerate() {
        whole.add(place, &reply::decode(Action::Release { wakes }, answer, secret)?);
    }
    Ok(whole.reply())
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;

    const TTL: Duration = Duration::from_secs(30);
    const RELEASE: Action = Action::Release { wakes: Places::FIRST };

    /// The words that a server reads of the command of a set of two.
    fn written(action: Action) -> Vec<String> {
        let rest = [Arc::from("b")].into();
        let claim = Claim { rest, ..Claim::new(&"a".into(), "v".to_owned()) };
        let command = Command { claim: Arc::new(claim), action };
        let mut bytes = Vec::new();
        let script = script(action).unwrap();
        encode(&command, script, How::InFull, &Decimal::of(30_000), &mut bytes);
        let words = redis::parse_redis_value(&bytes).unwrap();
        let words: Vec<String> = redis::from_redis_value(words).unwrap();
        words[2..].to_vec()
    }

    #[test]
    fn a_call_names_all_locks_of_a_set_and_for_numbers_their_counters_too() {
        for action in
            [Action::Grant { ttl: TTL }, Action::Heal { ttl: TTL }, Action::Extend { ttl: TTL }]
        {
            assert_eq!(written(action), ["2", "a", "b", "v", "30000"]);
        }
        let draw = Draw { floor: 7, count: 2, life: TTL };
        for action in [Action::GrantFenced { ttl: TTL, draw }, Action::Redraw { ttl: TTL, draw }] {
            let drawn =
                ["4", "a", "b", "a:{a}:fence", "b:{b}:fence", "v", "30000", "7", "2", "30000"];
            assert_eq!(written(action), drawn);
        }
        let raise = Raise { from: 7, to: 9, life: TTL };
        let confirmed = ["4", "a", "b", "a:{a}:fence", "b:{b}:fence", "v", "7", "9", "30000"];
        assert_eq!(written(Action::Confirm(raise)), confirmed);
    }

    #[test]
    fn a_set_is_released_when_all_its_locks_were_ours() {
        let woke = |deleted, places: &[usize]| {
            let mut woken = Places::NONE;
            places.iter().for_each(|place| woken.add(*place));
            Reply::Woke { deleted, woken }
        };
        for (answers, reply) in [
            ([1, 1], Reply::Done),
            ([1, 0], Reply::Missing),
            ([0, -1], Reply::Foreign),
            ([-1, 1], Reply::Foreign),
            ([1, 3], woke(true, &[1])),
            ([3, 3], woke(true, &[0, 1])),
            ([3, 0], woke(false, &[0])),
            ([2, 1], woke(false, &[0])),
            ([3, -1], woke(false, &[0])),
        ] {
            let answer = Value::Array(answers.map(Value::Int).to_vec());
            assert_eq!(decode(RELEASE, &answer, "v"), Ok(reply), "{answers:?}");
        }
        assert!(decode(RELEASE, &Value::Int(1), "v").is_err(), "one number for two locks");
    }

    #[test]
    fn different_slots_are_an_error_that_says_what_to_do() {
        let error = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n";
        let error = redis::parse_redis_value(error).unwrap();
        let reason = decode(Action::Grant { ttl: TTL }, &error, "v").unwrap_err();
        assert!(reason.contains("CROSSSLOT") && reason.contains("the same hash tag"), "{reason}");
    }
}
