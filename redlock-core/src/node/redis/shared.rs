//! Commands of readers: several clients hold one key, each with an expiry of its own.

use std::sync::LazyLock;

use redis::Value;

use super::{
    reply,
    script::{How, Script, call},
    words::{Decimal, words},
};
use crate::node::{Action, Claim, Command, KeySet, Reply, queue_keys};

static SHARE: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!(include_str!("readers.lua"), include_str!("share.lua"))));
static EXTEND: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(include_str!("readers.lua"), include_str!("share_extend.lua")))
});
static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("readers.lua"),
        include_str!("wake.lua"),
        include_str!("share_release.lua")
    ))
});
static RAISE_BARRIER: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("raise_barrier.lua")));
static LOWER_BARRIER: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("lower_barrier.lua")));

/// Whether this command is one of readers, or of a writer that waits for them.
pub(super) fn is_ours(command: &Command) -> bool {
    script(command).is_some()
}

/// The script that does this for readers. `None` for what readers do like writers.
pub(super) fn script(command: &Command) -> Option<&'static Script> {
    match command.action {
        Action::RaiseBarrier { .. } => Some(&RAISE_BARRIER),
        Action::LowerBarrier => Some(&LOWER_BARRIER),
        _ if !command.claim.shared => None,
        Action::Grant { .. } | Action::Heal { .. } => Some(&SHARE),
        Action::Extend { .. } => Some(&EXTEND),
        Action::Shorten { .. } | Action::Release { .. } => Some(&RELEASE),
        _ => None,
    }
}

/// Writes such a command, which this script does.
pub(super) fn encode(
    command: &Command,
    script: &Script,
    how: How,
    time: &Decimal,
    out: &mut Vec<u8>,
) {
    let Claim { key, value, .. } = &*command.claim;
    let (key, value) = (key.as_bytes(), value.as_bytes());
    let barrier = queue_keys::barrier(&command.claim.key);
    let place = Decimal::of(command.claim.place);
    match command.action {
        Action::Grant { .. } => {
            call(script, how, 2, 3, out);
            words(out, &[key, barrier.as_bytes(), value, time.digits(), place.digits()]);
        }
        // A reader that is there already waits for no writer.
        Action::Heal { .. } => {
            call(script, how, 2, 2, out);
            words(out, &[key, key, value, time.digits()]);
        }
        Action::Extend { .. } => {
            call(script, how, 1, 2, out);
            words(out, &[key, value, time.digits()]);
        }
        Action::RaiseBarrier { insists, .. } => {
            call(script, how, 2, 4, out);
            let insists: &[u8] = if insists { b"1" } else { b"0" };
            let place = place.digits();
            words(out, &[key, barrier.as_bytes(), value, time.digits(), place, insists]);
        }
        Action::LowerBarrier => {
            call(script, how, 2, 1, out);
            words(out, &[key, barrier.as_bytes(), value]);
        }
        action => {
            let wakes = matches!(action, Action::Release { wakes: KeySet::FIRST });
            let prefix = if wakes { queue_keys::prefix(&command.claim.key) } else { String::new() };
            let turn: &[u8] = if command.claim.has_turn { b"1" } else { b"0" };
            call(script, how, 1, 4, out);
            words(out, &[key, value, time.digits(), prefix.as_bytes(), turn]);
        }
    }
}

/// Reads the answer to such a command.
pub(super) fn decode(action: Action, answer: &Value, secret: &str) -> Result<Reply, String> {
    match action {
        Action::Grant { .. } | Action::Heal { .. } => reply::of_grant(answer, secret),
        Action::Release { .. } | Action::Shorten { .. }
            if let Value::Int(number @ 4..=5) = answer =>
        {
            Ok(Reply::HasReaders { deleted: *number == 5 })
        }
        action => reply::decode(action, answer, secret),
    }
}
