//! [`Command`]s as the bytes of Redis commands: arguments only, nothing is ever formatted into a
//! script. Straight into what is to be written: two allocations a command less than redis-rs's.

use std::{sync::LazyLock, time::Duration};

use crate::node::{Action, Claim, Command};

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
pub(super) fn encode(command: &Command, out: &mut Vec<u8>) {
    match script_of(command.action) {
        None => native(command, out),
        Some(script) => call(command, b"EVALSHA", &script.sha1, out),
    }
}

/// The command for a server that answered `NOSCRIPT`: with the source, which the server then
/// remembers (rule 17). One round trip, where `SCRIPT LOAD` and a second `EVALSHA` take two.
pub(super) fn encode_in_full(command: &Command, out: &mut Vec<u8>) {
    match script_of(command.action) {
        None => native(command, out),
        Some(script) => call(command, b"EVAL", script.source, out),
    }
}

/// The key of the next command is tracked, if it is one that reads, until it changes for the first
/// time.
pub(super) fn track(out: &mut Vec<u8>) {
    write(out, &[b"CLIENT", b"CACHING", b"YES"]);
}

pub(super) fn ping(out: &mut Vec<u8>) {
    write(out, &[b"PING"]);
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
fn native(command: &Command, out: &mut Vec<u8>) {
    let claim = &*command.claim;
    if command.action == Action::Watch {
        return write(out, &[b"PTTL", key(claim)]);
    }
    let ttl = Decimal::of(milliseconds(command));
    write(out, &[b"SET", key(claim), value(claim), b"NX", b"PX", ttl.digits()]);
}

/// `how script 1 key value milliseconds`; a script that needs no time has none.
fn call(command: &Command, how: &[u8], script: &str, out: &mut Vec<u8>) {
    let claim = &*command.claim;
    if command.action == Action::Release {
        return write(out, &[how, script.as_bytes(), b"1", key(claim), value(claim)]);
    }
    let time = Decimal::of(milliseconds(command));
    write(out, &[how, script.as_bytes(), b"1", key(claim), value(claim), time.digits()]);
}

fn key(claim: &Claim) -> &[u8] {
    claim.key.as_bytes()
}

fn value(claim: &Claim) -> &[u8] {
    claim.value.as_bytes()
}

/// An array of strings, as servers read commands.
fn write(out: &mut Vec<u8>, words: &[&[u8]]) {
    head(out, b'*', words.len());
    for word in words {
        head(out, b'$', word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

fn head(out: &mut Vec<u8>, kind: u8, count: usize) {
    out.push(kind);
    out.extend_from_slice(Decimal::of(count as u64).digits());
    out.extend_from_slice(b"\r\n");
}

/// A number in digits, without an allocation: there are seven of them in every command.
struct Decimal {
    digits: [u8; Self::MOST],
    first: usize,
}

impl Decimal {
    /// Of [`u64::MAX`].
    const MOST: usize = 20;

    fn of(mut number: u64) -> Self {
        let (mut digits, mut first) = ([b'0'; Self::MOST], Self::MOST - 1);
        digits[first] += (number % 10) as u8;
        while number >= 10 {
            number /= 10;
            first -= 1;
            digits[first] += (number % 10) as u8;
        }
        Self { digits, first }
    }

    fn digits(&self) -> &[u8] {
        &self.digits[self.first..]
    }
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

    fn command(action: Action) -> Command {
        let claim = Arc::new(Claim { key: "key".into(), value: "value".to_owned() });
        Command { claim, action }
    }

    /// What a server reads.
    fn words(encode: fn(&Command, &mut Vec<u8>), command: &Command) -> Vec<String> {
        let mut bytes = Vec::new();
        encode(command, &mut bytes);
        redis::from_redis_value(redis::parse_redis_value(&bytes).unwrap()).unwrap()
    }

    #[test]
    fn grants_and_heals_are_one_native_set() {
        let ttl = Duration::from_secs(30);
        for action in [Action::Grant { ttl }, Action::Heal { ttl }] {
            let words = words(encode, &command(action));
            assert_eq!(words, ["SET", "key", "value", "NX", "PX", "30000"]);
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
            assert_eq!(words(encode, &command), expected);
            expected[0] = "EVAL";
            expected[1] = source;
            assert_eq!(words(encode_in_full, &command), expected);
        }
    }

    #[test]
    fn a_key_is_counted_in_bytes_and_may_hold_any() {
        let mut command = command(Action::Release);
        command.claim = Arc::new(Claim { key: "Stra\u{df}e\r\n$1".into(), value: "v".into() });
        assert_eq!(words(encode, &command)[3], *command.claim.key);
    }

    #[test]
    fn numbers_are_written_in_digits() {
        for number in [0, 7, 10, 30_000, u64::MAX] {
            assert_eq!(Decimal::of(number).digits(), number.to_string().as_bytes());
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
