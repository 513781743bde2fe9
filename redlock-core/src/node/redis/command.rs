//! [`Command`]s as Redis commands: arguments only, nothing is ever formatted into a script.

use std::{sync::LazyLock, time::Duration};

use redis::Cmd;

use crate::node::{Action, Command};

static EXTEND: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("extend.lua")));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("release.lua")));
static RETIRE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("retire.lua")));

/// A script and the name under which servers remember it.
struct Script {
    source: &'static str,
    sha1: String,
}

impl Script {
    fn new(source: &'static str) -> Self {
        Self { source, sha1: redis::Script::new(source).get_hash().to_owned() }
    }
}

/// The command as it is sent first: scripts by their hash.
pub(super) fn encode(command: &Command) -> Cmd {
    match script_of(command.action) {
        None => native(command),
        Some(script) => call(command, "EVALSHA", &script.sha1),
    }
}

/// What goes right before a command, if anything: the key that it reads is tracked, until it
/// changes for the first time.
pub(super) fn prelude(action: Action) -> Option<Cmd> {
    (action == Action::Watch).then(|| {
        let mut cmd = Cmd::with_capacity(3, 16);
        cmd.arg("CLIENT").arg("CACHING").arg("YES");
        cmd
    })
}

/// The command for a server that answered `NOSCRIPT`: with the source, which the server then
/// remembers (rule 17). One round trip, where `SCRIPT LOAD` and a second `EVALSHA` take two.
pub(super) fn encode_in_full(command: &Command) -> Cmd {
    match script_of(command.action) {
        None => native(command),
        Some(script) => call(command, "EVAL", script.source),
    }
}

fn script_of(action: Action) -> Option<&'static Script> {
    match action {
        Action::Grant { .. } | Action::Heal { .. } | Action::Watch => None,
        Action::Extend { .. } => Some(&EXTEND),
        Action::Release => Some(&RELEASE),
        Action::Retire { .. } => Some(&RETIRE),
    }
}

/// `SET key value NX PX ttl`, or `PTTL key`.
fn native(command: &Command) -> Cmd {
    let claim = &*command.claim;
    let mut cmd = Cmd::with_capacity(6, claim.key.len() + claim.value.len() + 32);
    if command.action == Action::Watch {
        cmd.arg("PTTL").arg(&*claim.key);
        return cmd;
    }
    cmd.arg("SET").arg(&*claim.key).arg(&claim.value);
    cmd.arg("NX").arg("PX").arg(milliseconds(command));
    cmd
}

/// `how script 1 key value milliseconds`; a script that needs no time ignores it.
fn call(command: &Command, how: &str, script: &str) -> Cmd {
    let claim = &*command.claim;
    let text = script.len() + claim.key.len() + claim.value.len() + 32;
    let mut cmd = Cmd::with_capacity(6, text);
    cmd.arg(how).arg(script).arg(1).arg(&*claim.key).arg(&claim.value);
    if command.action != Action::Release {
        cmd.arg(milliseconds(command));
    }
    cmd
}

/// Redis counts in whole milliseconds, and the validity that the client computes from the same
/// duration is exact (rule 2): so round up, since a key that expires before the validity does is
/// two holders, and one that outlives it by part of a millisecond is none. Redis refuses `PX 0`;
/// only the rest of a `min_hold` may be nothing.
fn milliseconds(command: &Command) -> u64 {
    let (duration, least) = match command.action {
        Action::Grant { ttl } | Action::Heal { ttl } | Action::Extend { ttl } => (ttl, 1),
        Action::Retire { rest } => (rest, 0),
        Action::Release | Action::Watch => (Duration::ZERO, 0),
    };
    let rounded_up = duration.as_nanos().div_ceil(1_000_000);
    u64::try_from(rounded_up).unwrap_or(u64::MAX).max(least)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::node::Claim;

    fn command(action: Action) -> Command {
        let claim = Arc::new(Claim { key: "key".into(), value: "value".to_owned() });
        Command { claim, action }
    }

    fn words(cmd: &Cmd) -> Vec<String> {
        cmd.args_iter()
            .map(|arg| match arg {
                redis::Arg::Simple(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn grants_and_heals_are_one_native_set() {
        let ttl = Duration::from_secs(30);
        for action in [Action::Grant { ttl }, Action::Heal { ttl }] {
            let cmd = encode(&command(action));
            assert_eq!(words(&cmd), ["SET", "key", "value", "NX", "PX", "30000"]);
        }
    }

    #[test]
    fn scripts_go_by_hash_and_on_demand_in_full() {
        let ttl = Duration::from_secs(30);
        for (action, source, time) in [
            (Action::Extend { ttl }, EXTEND.source, Some("30000")),
            (Action::Release, RELEASE.source, None),
            (Action::Retire { rest: ttl }, RETIRE.source, Some("30000")),
        ] {
            let command = command(action);
            let hash = redis::Script::new(source).get_hash().to_owned();
            let mut expected = vec!["EVALSHA", &hash, "1", "key", "value"];
            expected.extend(time);
            assert_eq!(words(&encode(&command)), expected);
            expected[0] = "EVAL";
            expected[1] = source;
            assert_eq!(words(&encode_in_full(&command)), expected);
        }
    }

    #[test]
    fn durations_are_rounded_up_to_whole_milliseconds() {
        let grant = |ttl| milliseconds(&command(Action::Grant { ttl }));
        assert_eq!(grant(Duration::from_millis(150)), 150);
        assert_eq!(grant(Duration::from_nanos(150_000_001)), 151);
        assert_eq!(grant(Duration::from_nanos(1)), 1);
        assert_eq!(grant(Duration::ZERO), 1, "Redis refuses PX 0");
        assert_eq!(grant(Duration::MAX), u64::MAX);

        let retire = |rest| milliseconds(&command(Action::Retire { rest }));
        assert_eq!(retire(Duration::from_nanos(1)), 1);
        assert_eq!(retire(Duration::ZERO), 0, "nothing is left: the script deletes");
    }
}
