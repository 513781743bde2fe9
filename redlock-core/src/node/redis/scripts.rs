//! Which script does a command on one lock, and which scripts a server has.

use std::sync::LazyLock;

use super::{
    script::{How, Script},
    set, shared,
};
use crate::node::{Action, Command};

static EXTEND: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("extend.lua")));
static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("release_one.lua"),
        include_str!("wake.lua"),
        include_str!("release.lua")
    ))
});
static SHORTEN: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("shorten.lua")));
static GRANT_FENCED: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!(include_str!("draw.lua"), include_str!("grant.lua"))));
static REDRAW: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!(include_str!("draw.lua"), include_str!("redraw.lua"))));
static CONFIRM: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("confirm.lua")));
static ADOPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("adopt.lua")));
static INSPECT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("inspect.lua")));
static CLEAR: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!(include_str!("wake.lua"), include_str!("clear.lua"))));
static FIND_PERMITS: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(include_str!("wake.lua"), include_str!("find_permits.lua")))
});
static JOIN: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("join.lua")));
static LEAVE: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!(include_str!("wake.lua"), include_str!("leave.lua"))));

/// The script that does this command. `None` for a command that every server has itself.
pub(super) fn script(command: &Command) -> Option<&'static Script> {
    let Command { claim, action } = command;
    if let Some(script) = shared::script(command) {
        return Some(script);
    }
    if claim.is_set()
        && let Some(script) = set::script(*action)
    {
        return Some(script);
    }
    Some(match action {
        Action::Grant { .. } | Action::Heal { .. } | Action::Watch | Action::TakeAway => {
            return None;
        }
        // Locks that are released together share one call, those of a set too.
        Action::Release { .. } => &RELEASE,
        Action::Extend { .. } => &EXTEND,
        Action::Shorten { .. } => &SHORTEN,
        Action::GrantFenced { .. } => &GRANT_FENCED,
        Action::Redraw { .. } => &REDRAW,
        Action::Confirm(_) => &CONFIRM,
        Action::Adopt { .. } => &ADOPT,
        Action::Join { .. } => &JOIN,
        Action::Leave { .. } => &LEAVE,
        Action::FindPermits { .. } => &FIND_PERMITS,
        Action::Inspect { .. } => &INSPECT,
        Action::Clear { .. } => &CLEAR,
        // Writers have these for the sake of readers.
        Action::RaiseBarrier { .. } | Action::LowerBarrier => return None,
    })
}

/// The scripts that a server has had in full on this connection.
///
/// The first call of each is made with its source: a release that is the last act of `main` gets no
/// answer that could say `NOSCRIPT`.
#[derive(Default)]
pub(super) struct Known(Vec<&'static Script>);

impl Known {
    /// How to call the script of this command, if it has one.
    pub(super) fn how(&mut self, command: &Command) -> How {
        let Some(script) = script(command) else { return How::ByHash };
        if self.0.iter().any(|known| std::ptr::eq(*known, script)) {
            return How::ByHash;
        }
        self.0.push(script);
        How::InFull
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::node::{Claim, KeySet};

    #[test]
    fn a_connection_sends_each_script_in_full_once() {
        let claim = Arc::new(Claim::new(&"key".into(), "value".to_owned()));
        let mut known = Known::default();
        let mut how = |action| known.how(&Command { claim: Arc::clone(&claim), action });
        let ttl = Duration::from_secs(1);
        assert_eq!(how(Action::Extend { ttl }), How::InFull);
        assert_eq!(how(Action::Release { wakes: KeySet::NONE }), How::InFull);
        assert_eq!(how(Action::Release { wakes: KeySet::FIRST }), How::ByHash);
        assert_eq!(how(Action::Extend { ttl }), How::ByHash);
    }
}
