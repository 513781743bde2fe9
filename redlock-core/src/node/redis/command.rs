//! [`Command`]s as the bytes of Redis commands. They are arguments only: nothing is ever formatted
//! into a script.

use super::{
    acknowledged::Wait,
    script::{How, Script, call},
    scripts::script,
    shared,
    woken_queues::{WokenQueue, woken_queues},
    words::{Decimal, joined, milliseconds, word, words, write},
};
use crate::node::{Action, Claim, Command, Draw, Raise, counter, queue_keys};

/// The most keys that go out as one call. Scripts can pass on some thousands of values at once.
const MAX_KEYS: usize = 1024;

/// How many of the first commands go out as one call. Locks that are released together share one: a
/// call costs a server more than the work in it.
pub(super) fn together(commands: &[Command]) -> usize {
    let mut keys = 0;
    let fits = |it: &&Command| {
        keys += it.claim.len();
        matches!(it.action, Action::Release { .. }) && !it.claim.shared && keys <= MAX_KEYS
    };
    commands.iter().take_while(fits).count().max(1)
}

/// Writes commands that go out as one call, which [`together`] has counted.
pub(super) fn encode(commands: &[Command], how: How, out: &mut Vec<u8>) {
    let Some(command) = commands.first() else { return };
    let time = Decimal::of(time_of(command));
    match script(command) {
        None => plain(command, &time, out),
        Some(script) if shared::is_ours(command) => {
            shared::encode(command, script, how, &time, out);
        }
        Some(script) => scripted(commands, command, script, how, &time, out),
    }
}

/// Writes a command that every server has itself.
fn plain(command: &Command, time: &Decimal, out: &mut Vec<u8>) {
    let claim = &*command.claim;
    match command.action {
        Action::Watch => write(out, &[b"PTTL", key(claim)]),
        Action::TakeAway => {
            write(out, &[b"SET", key(claim), value(claim), b"XX", b"KEEPTTL"]);
        }
        action => {
            debug_assert!(matches!(action, Action::Grant { .. } | Action::Heal { .. }));
            // The words that all grants share are written in two pieces: a word by itself takes as long as a
            // piece.
            out.extend_from_slice(b"*6\r\n$3\r\nSET\r\n");
            words(out, &[key(claim), value(claim)]);
            out.extend_from_slice(b"$2\r\nNX\r\n$2\r\nPX\r\n");
            word(out, time.digits());
        }
    }
}

/// Writes the call of a script: for one lock, for all locks of a set, or for locks that are released
/// together.
fn scripted(
    commands: &[Command],
    command: &Command,
    script: &Script,
    how: How,
    time: &Decimal,
    out: &mut Vec<u8>,
) {
    let claim = &*command.claim;
    match command.action {
        Action::Inspect { most } => {
            call(script, how, 1, 2, out);
            words(out, &[key(claim), queue_keys::prefix(&claim.key).as_bytes()]);
            word(out, Decimal::of(most).digits());
        }
        Action::Clear { wakes } => {
            call(script, how, 1, 1, out);
            let prefix = if wakes { queue_keys::prefix(&claim.key) } else { String::new() };
            words(out, &[key(claim), prefix.as_bytes()]);
        }
        // Grants and heals of sets: those of one lock are a `SET`.
        Action::Grant { .. }
        | Action::Heal { .. }
        | Action::Extend { .. }
        | Action::Shorten { .. } => {
            call(script, how, claim.len(), 2, out);
            keys(claim, out);
            words(out, &[value(claim), time.digits()]);
        }
        Action::Adopt { from, .. } => {
            call(script, how, claim.len(), 3, out);
            keys(claim, out);
            let from = from.text() + ".";
            words(out, &[from.as_bytes(), value(claim), time.digits()]);
        }
        Action::GrantFenced { draw, .. } | Action::Redraw { draw, .. } => {
            let Draw { floor, count, life } = draw;
            numbered(script, how, claim, 5, out);
            word(out, time.digits());
            words(out, &[Decimal::of(floor).digits(), Decimal::of(count.into()).digits()]);
            word(out, Decimal::of(milliseconds(life, 1)).digits());
        }
        Action::Confirm(Raise { from, to, life }) => {
            numbered(script, how, claim, 4, out);
            words(out, &[Decimal::of(from).digits(), Decimal::of(to).digits()]);
            word(out, Decimal::of(milliseconds(life, 1)).digits());
        }
        Action::Release { .. } => {
            let (count, kept) =
                (commands.iter().map(|it| it.claim.len()).sum(), woken_queues(commands));
            call(script, how, count, count + 2 * kept.len(), out);
            commands.iter().for_each(|command| keys(&command.claim, out));
            for Command { claim, .. } in commands {
                claim.keys().for_each(|_| word(out, value(claim)));
            }
            for WokenQueue { key, .. } in &kept {
                joined(out, queue_keys::queue_parts(key).map(str::as_bytes));
            }
            for WokenQueue { number, has_turn, .. } in &kept {
                let sign: &[u8] = if *has_turn { b"-" } else { b"" };
                joined(out, [sign, Decimal::of(*number as u64).digits()]);
            }
        }
        Action::Join { place, reads, .. } => {
            call(script, how, 1, 5 + usize::from(reads), out);
            let (prefix, place) = (queue_keys::prefix(&claim.key), Decimal::of(place));
            let most = Decimal::of(queue_keys::MAX_WAITERS);
            let life = time.digits();
            words(out, &[key(claim), prefix.as_bytes(), value(claim), place.digits()]);
            words(out, &[life, most.digits()]);
            if reads {
                word(out, b"1");
            }
        }
        Action::FindPermits { count, from, most, asker, keeps } => {
            call(script, how, 1, 7, out);
            let keys = format!("{}:", queue_keys::queue_name(&claim.key));
            let (count, from) = (Decimal::of(count.into()), Decimal::of(from.into()));
            words(out, &[key(claim), keys.as_bytes(), count.digits(), from.digits()]);
            words(out, &[value(claim), Decimal::of(most.into()).digits()]);
            let keeps = Decimal::of(u64::try_from(keeps.as_micros()).unwrap_or(u64::MAX));
            words(out, &[Decimal::of(asker).digits(), keeps.digits()]);
        }
        Action::Leave { again } => {
            call(script, how, 1, 3, out);
            words(out, &[key(claim), queue_keys::prefix(&claim.key).as_bytes(), value(claim)]);
            word(out, if again { b"1" } else { b"0" });
        }
        // Written by `plain` and by `shared`.
        Action::Watch | Action::TakeAway | Action::RaiseBarrier { .. } | Action::LowerBarrier => {}
    }
}

/// Writes a call with the locks, their counters and our value, and room for the other arguments.
fn numbered(script: &Script, how: How, claim: &Claim, arguments: usize, out: &mut Vec<u8>) {
    call(script, how, 2 * claim.len(), arguments, out);
    keys(claim, out);
    claim.keys().for_each(|key| word(out, counter::key(key).as_bytes()));
    word(out, value(claim));
}

/// Writes a read of the keys that are pushed to the waiter of an [`Action::Join`], and of the key of the lock
/// if that is pushed to it, too. Behind [`track`], the server tracks them.
pub(super) fn listen(claim: &Claim, with_lock: bool, out: &mut Vec<u8>) {
    let [turn, next, near] = queue_keys::wake_keys(claim);
    let words: [&[u8]; 5] =
        [b"MGET", turn.as_bytes(), next.as_bytes(), near.as_bytes(), claim.key.as_bytes()];
    write(out, if with_lock { &words } else { &words[..4] });
}

/// Has the server track the key of the next command, if that command reads, until the key changes
/// for the first time.
pub(super) fn track(out: &mut Vec<u8>) {
    write(out, &[b"CLIENT", b"CACHING", b"YES"]);
}

/// Has the server push no changes from here on.
pub(super) fn track_no_more(out: &mut Vec<u8>) {
    write(out, &[b"CLIENT", b"TRACKING", b"OFF"]);
}

/// Has the server answer nothing from here on.
pub(super) fn mute(out: &mut Vec<u8>) {
    write(out, &[b"CLIENT", b"REPLY", b"OFF"]);
}

pub(super) fn ping(out: &mut Vec<u8>) {
    write(out, &[b"PING"]);
}

/// Writes a question that is answered once this many replicas have all earlier writes, or their time is over.
pub(super) fn wait(wait: Wait, out: &mut Vec<u8>) {
    let replicas = Decimal::of(u64::try_from(wait.replicas).unwrap_or(u64::MAX));
    let within = Decimal::of(milliseconds(wait.within, 1));
    write(out, &[b"WAIT", replicas.digits(), within.digits()]);
}

/// Goes in front of a command that another member of the cluster has sent here (`ASK`).
pub(super) const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";

fn key(claim: &Claim) -> &[u8] {
    claim.key.as_bytes()
}

/// Writes all keys of a claim.
fn keys(claim: &Claim, out: &mut Vec<u8>) {
    claim.keys().for_each(|key| word(out, key.as_bytes()));
}

fn value(claim: &Claim) -> &[u8] {
    claim.value.as_bytes()
}

/// The expiry that a command sets, of its key or of another. Redis refuses `PX 0`; only the rest of a
/// `min_hold` may be nothing.
fn time_of(command: &Command) -> u64 {
    match command.action {
        Action::Shorten { rest } => milliseconds(rest, 0),
        Action::Join { life, .. } | Action::RaiseBarrier { life, .. } => milliseconds(life, 1),
        action => action.ttl().map_or(0, |ttl| milliseconds(ttl, 1)),
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::node::{KeySet, Listens};

    fn command(action: Action) -> Command {
        let claim = Arc::new(Claim::new(&"key".into(), "value".to_owned()));
        Command { claim, action }
    }

    /// The words that a server reads.
    fn read(commands: &[Command], how: How) -> Vec<String> {
        let mut bytes = Vec::new();
        encode(commands, how, &mut bytes);
        redis::from_redis_value(redis::parse_redis_value(&bytes).unwrap()).unwrap()
    }

    #[test]
    fn grants_and_heals_are_one_native_set() {
        let ttl = Duration::from_secs(30);
        for action in [Action::Grant { ttl }, Action::Heal { ttl }] {
            let words = read(&[command(action)], How::ByHash);
            assert_eq!(words, ["SET", "key", "value", "NX", "PX", "30000"]);
        }
    }

    #[test]
    fn scripts_go_by_hash_and_on_demand_in_full() {
        let ttl = Duration::from_secs(30);
        for (action, words) in [
            (Action::Extend { ttl }, &["30000"][..]),
            (Action::Release { wakes: KeySet::NONE }, &[]),
            (Action::Release { wakes: KeySet::FIRST }, &["key:{key}:queue", "1"]),
            (Action::Shorten { rest: ttl }, &["30000"]),
        ] {
            let command = command(action);
            let source = script(&command).unwrap().source;
            let hash = redis::Script::new(source).get_hash().to_owned();
            let mut expected = ["EVALSHA", &hash, "1", "key", "value"].to_vec();
            expected.extend(words);
            assert_eq!(read(std::slice::from_ref(&command), How::ByHash), expected);
            expected[0] = "EVAL";
            expected[1] = source;
            assert_eq!(read(&[command], How::InFull), expected);
        }
    }

    #[test]
    fn numbers_are_drawn_from_a_counter_beside_the_lock() {
        let (ttl, life) = (Duration::from_secs(30), Duration::from_secs(86_400));
        let draw = Draw { floor: 1_795_000_000_123_457, count: 16, life };
        let drawn =
            ["2", "key", "key:{key}:fence", "value", "30000", "1795000000123457", "16", "86400000"];
        for action in [Action::GrantFenced { ttl, draw }, Action::Redraw { ttl, draw }] {
            assert_eq!(read(&[command(action)], How::InFull)[2..], drawn, "{action:?}");
        }
        let raise = Raise { from: 7, to: 1_795_000_000_123_457, life };
        let confirmed =
            ["2", "key", "key:{key}:fence", "value", "7", "1795000000123457", "86400000"];
        assert_eq!(read(&[command(Action::Confirm(raise))], How::InFull)[2..], confirmed);
    }

    /// The words that a server reads of the command of a set of two.
    fn of_set(action: Action) -> Vec<String> {
        let rest = [Arc::from("b")].into();
        let claim = Claim { rest, ..Claim::new(&"a".into(), "v".to_owned()) };
        let command = Command { claim: Arc::new(claim), action };
        read(&[command], How::InFull)[2..].to_vec()
    }

    #[test]
    fn a_call_names_all_locks_of_a_set_and_for_numbers_their_counters_too() {
        let ttl = Duration::from_secs(30);
        for action in [Action::Grant { ttl }, Action::Heal { ttl }, Action::Extend { ttl }] {
            assert_eq!(of_set(action), ["2", "a", "b", "v", "30000"]);
        }
        let mut wakes = KeySet::NONE;
        wakes.add(1);
        let released = ["2", "a", "b", "v", "v", "b:{b}:queue", "2"];
        assert_eq!(of_set(Action::Release { wakes }), released);
        let draw = Draw { floor: 7, count: 2, life: ttl };
        for action in [Action::GrantFenced { ttl, draw }, Action::Redraw { ttl, draw }] {
            let drawn =
                ["4", "a", "b", "a:{a}:fence", "b:{b}:fence", "v", "30000", "7", "2", "30000"];
            assert_eq!(of_set(action), drawn);
        }
        let raise = Raise { from: 7, to: 9, life: ttl };
        let confirmed = ["4", "a", "b", "a:{a}:fence", "b:{b}:fence", "v", "7", "9", "30000"];
        assert_eq!(of_set(Action::Confirm(raise)), confirmed);
    }

    #[test]
    fn locks_that_are_released_together_share_one_call() {
        let release = |wakes| command(Action::Release { wakes: KeySet::first(wakes) });
        let commands = [release(false), release(true), command(Action::Watch), release(false)];
        assert_eq!(together(&commands), 2);
        assert_eq!(together(&commands[2..]), 1);
        let read = read(&commands[..2], How::ByHash);
        assert_eq!(read[2..], ["2", "key", "key", "value", "value", "key:{key}:queue", "2"]);
    }

    /// A queue is told by the number of its lock, and a set has several.
    #[test]
    fn the_locks_of_a_call_are_numbered_one_by_one() {
        let claim = Claim { rest: ["b".into()].into(), ..Claim::new(&"a".into(), "v".to_owned()) };
        let set =
            Command { claim: Arc::new(claim), action: Action::Release { wakes: KeySet::NONE } };
        let kept = command(Action::Release { wakes: KeySet::FIRST });
        let words = read(&[set.clone(), kept.clone(), set, kept], How::ByHash);
        assert_eq!(words[2..9], ["6", "a", "b", "key", "a", "b", "key"]);
        assert_eq!(words[15..], ["key:{key}:queue", "key:{key}:queue", "3", "6"]);
    }

    /// Scripts cannot pass on more values at once.
    #[test]
    fn a_call_has_a_limited_number_of_keys_also_when_sets_are_released() {
        let rest: Box<[Arc<str>]> = (1..64).map(|key| key.to_string().into()).collect();
        let set = || {
            let claim = Claim { rest: rest.clone(), ..Claim::new(&"0".into(), "v".to_owned()) };
            let action = Action::Release { wakes: KeySet::NONE };
            Command { claim: Arc::new(claim), action }
        };
        let sets: Vec<Command> = (0..20).map(|_| set()).collect();
        assert_eq!(together(&sets) * 64, MAX_KEYS);
    }

    #[test]
    fn a_waiter_joins_a_queue_beside_the_lock_and_listens_to_keys_of_its_own() {
        let life = Duration::from_secs(5);
        let join = |reads| Action::Join { place: 7, life, listens: Listens::Turn, reads };
        let reader = read(&[command(join(true))], How::ByHash);
        assert_eq!(reader[2..], ["1", "key", "key:{key}", "value", "7", "5000", "10000", "1"]);
        let command = command(join(false));
        let joined = read(std::slice::from_ref(&command), How::ByHash);
        assert_eq!(joined[2..], reader[2..9]);
        let [turn, next, near] =
            ["turn", "next", "near"].map(|what| format!("key:{{key}}:{what}:value"));
        for (with_lock, lock) in [(false, &[][..]), (true, &["key"])] {
            let mut bytes = Vec::new();
            listen(&command.claim, with_lock, &mut bytes);
            let listens: Vec<String> =
                redis::from_redis_value(redis::parse_redis_value(&bytes).unwrap()).unwrap();
            assert_eq!(listens, [&["MGET", &turn, &next, &near], lock].concat());
        }
    }

    #[test]
    fn a_key_is_counted_in_bytes_and_may_hold_any() {
        let mut command = command(Action::Release { wakes: KeySet::NONE });
        command.claim = Arc::new(Claim::new(&"Stra\u{df}e\r\n$1".into(), "v".into()));
        assert_eq!(read(std::slice::from_ref(&command), How::ByHash)[3], *command.claim.key);
    }

    #[test]
    fn durations_are_rounded_up_to_whole_milliseconds() {
        let grant = |ttl| time_of(&command(Action::Grant { ttl }));
        assert_eq!(grant(Duration::from_millis(150)), 150);
        assert_eq!(grant(Duration::from_nanos(150_000_001)), 151);
        assert_eq!(grant(Duration::from_nanos(1)), 1);
        assert_eq!(grant(Duration::ZERO), 1, "Redis refuses PX 0");
        assert_eq!(grant(Duration::MAX), u64::MAX);

        let shorten = |rest| time_of(&command(Action::Shorten { rest }));
        assert_eq!(shorten(Duration::from_nanos(1)), 1);
        assert_eq!(shorten(Duration::ZERO), 0, "nothing is left: the script deletes");
    }
}
