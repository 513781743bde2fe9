//! Commands of readers: several clients hold one key, each with an expiry of its own.

use std::sync::LazyLock;

use redis::Value;

use super::{
    reply,
    script::{How, Script, call},
    words::{Decimal, words},
};
use crate::node::{Action, Claim, Command, Places, Reply, queue_keys};

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
static BAR: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("bar.lua")));
static UNBAR: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("unbar.lua")));

/// Whether this command is one of readers, or of a writer that waits for them.
pub(super) fn is_ours(command: &Command) -> bool {
    let of_writer = matches!(command.action, Action::Bar { .. } | Action::Unbar);
    of_writer || command.claim.shared && has_form(command.action)
}

/// Whether readers do this in a way of their own.
fn has_form(action: Action) -> bool {
    matches!(
        action,
        Action::Grant { .. }
            | Action::Heal { .. }
            | Action::Extend { .. }
            | Action::Shorten { .. }
            | Action::Release { .. }
    )
}

/// The bit by which a connection remembers that it has sent the script of this action.
pub(super) fn bit(action: Action) -> u32 {
    match action {
        Action::Grant { .. } | Action::Heal { .. } => 1 << 24,
        Action::Extend { .. } => 1 << 25,
        Action::Bar { .. } => 1 << 26,
        Action::Unbar => 1 << 27,
        _ => 1 << 28,
    }
}

/// Writes such a command.
pub(super) fn encode(command: &Command, how: How, time: &Decimal, out: &mut Vec<u8>) {
    let Claim { key, value, .. } = &*command.claim;
    let (key, value) = (key.as_bytes(), value.as_bytes());
    let sign = queue_keys::writer(&command.claim.key);
    match command.action {
        Action::Grant { .. } => {
            call(&SHARE, how, 2, 2, out);
            words(out, &[key, sign.as_bytes(), value, time.digits()]);
        }
        // A reader that is there already waits for no writer.
        Action::Heal { .. } => {
            call(&SHARE, how, 2, 2, out);
            words(out, &[key, key, value, time.digits()]);
        }
        Action::Extend { .. } => {
            call(&EXTEND, how, 1, 2, out);
            words(out, &[key, value, time.digits()]);
        }
        Action::Bar { .. } => {
            call(&BAR, how, 2, 2, out);
            words(out, &[key, sign.as_bytes(), value, time.digits()]);
        }
        Action::Unbar => {
            call(&UNBAR, how, 2, 1, out);
            words(out, &[key, sign.as_bytes(), value]);
        }
        action => {
            let wakes = matches!(action, Action::Release { wakes: Places::FIRST });
            let prefix = if wakes { queue_keys::prefix(&command.claim.key) } else { String::new() };
            call(&RELEASE, how, 1, 3, out);
            words(out, &[key, value, time.digits(), prefix.as_bytes()]);
        }
    }
}

/// Reads the answer to such a command.
pub(super) fn decode(action: Action, answer: &Value, secret: &str) -> Result<Reply, String> {
    match (action, answer) {
        (Action::Grant { .. } | Action::Heal { .. }, Value::Int(1)) => Ok(Reply::Done),
        (Action::Grant { .. } | Action::Heal { .. }, Value::Int(-1)) => Ok(Reply::Foreign),
        (Action::Grant { .. } | Action::Heal { .. }, other)
            if !matches!(other, Value::ServerError(_)) =>
        {
            Err(reply::unexpected(other, "1 or -1"))
        }
        (action, answer) => reply::decode(action, answer, secret),
    }
}
