//! Calls and their answers, without a socket.

use redis::Value;

use super::{
    super::{
        abilities::{Abilities, Delete},
        acknowledged::Wait,
        batch::Batch,
        calls::Calls,
    },
    *,
};

const SCRIPTS: Abilities = Abilities { scripts: true, delete: None };
const NATIVE: Abilities = Abilities { scripts: true, delete: Some(Delete::Delex) };
const PLAIN: Abilities = Abilities { scripts: false, delete: Some(Delete::Delifeq) };

/// The calls of one connection, and what was written since it was last looked at.
struct Line {
    calls: Calls,
    out: Vec<u8>,
}

impl Line {
    fn new(abilities: Abilities, replicas: usize) -> Self {
        let wait = (replicas > 0).then(|| Wait { replicas, within: Duration::from_millis(20) });
        Self { calls: Calls::new("n".into(), abilities, false, wait, false), out: Vec::new() }
    }

    fn ask(&mut self, actions: &[Action]) -> Arc<Batch> {
        let claim = claim("redlock:a", CANARY);
        let commands = actions.iter().map(|action| command(&(&claim, *action))).collect();
        let batch = Batch::new(commands);
        self.calls.ask(&batch, &mut self.out);
        batch
    }

    /// The names of the commands that were written.
    fn sent(&mut self) -> Vec<String> {
        let text = String::from_utf8(std::mem::take(&mut self.out)).unwrap();
        let mut lines = text.split("\r\n");
        let mut names = Vec::new();
        while let Some(line) = lines.next() {
            if line.starts_with('*') {
                names.push(lines.nth(1).unwrap().to_owned());
            }
        }
        names
    }

    fn answer(&mut self, bytes: &str) {
        let value = redis::parse_redis_value(bytes.as_bytes()).unwrap();
        assert!(self.calls.answer(value, &mut self.out).is_ok());
    }
}

fn answers(batch: &Batch) -> Option<Vec<Result<Reply, NodeError>>> {
    match batch.poll() {
        std::task::Poll::Ready(answers) => Some(answers),
        std::task::Poll::Pending => None,
    }
}

/// A server runs no later command of the connection while it waits for replicas.
#[test]
fn no_delete_behind_the_end_of_a_runtime_waits_for_replicas() {
    let mut line = Line::new(SCRIPTS, 1);
    line.ask(&[GRANT]);
    line.ask(&[GRANT]);
    assert_eq!(line.sent(), ["SET", "WAIT", "SET"]);
    line.calls.wait_no_more();
    for answer in ["+OK\r\n", ":1\r\n", "+OK\r\n"] {
        line.answer(answer);
    }
    assert!(line.sent().is_empty() && line.calls.is_answered());
}

#[test]
fn a_vote_waits_for_replicas_and_a_script_that_runs_later_waits_again() {
    let mut line = Line::new(SCRIPTS, 1);
    let extend = Action::Extend { ttl: TTL };
    let warm = line.ask(&[extend]);
    assert_eq!(line.sent(), ["EVAL", "WAIT"]);
    line.answer(":5\r\n");
    assert!(answers(&warm).is_none(), "the replicas have not answered");
    line.answer(":1\r\n");
    assert!(answers(&warm).unwrap()[0].is_ok());

    let batch = line.ask(&[extend]);
    assert_eq!(line.sent(), ["EVALSHA", "WAIT"]);
    line.answer("-NOSCRIPT No matching script.\r\n");
    assert_eq!(line.sent(), ["EVAL"]);
    // This one was answered before the script ran.
    line.answer(":1\r\n");
    assert_eq!(line.sent(), ["WAIT"]);
    line.answer(":5\r\n");
    assert!(answers(&batch).is_none(), "it counted the replicas of an earlier command");
    line.answer(":0\r\n");
    let error = answers(&batch).unwrap().remove(0).unwrap_err();
    assert!(error.may_have_run && error.reason.starts_with("0 of the 1 replicas"), "{error}");
}

#[test]
fn votes_that_wait_for_replicas_end_with_the_connection() {
    let mut line = Line::new(SCRIPTS, 1);
    let batch = line.ask(&[GRANT, RELEASE]);
    line.answer("+OK\r\n");
    line.answer(":1\r\n");
    let end = NodeError::new(&"n".into(), NodeErrorKind::Disconnected, "gone");
    line.calls.end(&end);
    let answers = answers(&batch).unwrap();
    assert_eq!(answers, [Err(end), Ok(Reply::Done)]);
}

/// Rule 7: each of them has read what the key has left before the other one runs. None counts on another one, which may
/// fail.
#[test]
fn extensions_without_scripts_that_are_on_their_way_together_do_not_shorten_the_key() {
    for (first, second, is_same, sets) in
        [(2, 1, true, 2), (1, 1, true, 1), (1, 2, true, 2), (2, 1, false, 1)]
    {
        let mut line = Line::new(PLAIN, 0);
        let one = claim("redlock:a", CANARY);
        let other = if is_same { Arc::clone(&one) } else { claim("redlock:b", CANARY) };
        let asked = [(first, one), (second, other)].map(|(times, claim)| {
            let extend = Action::Extend { ttl: times * TTL };
            let batch = Batch::new(vec![command(&(&claim, extend))]);
            line.calls.ask(&batch, &mut line.out);
            batch
        });
        assert_eq!(line.sent().len(), 4);
        for times in [first, sets] {
            line.answer(&format!("${}\r\n{CANARY}\r\n", CANARY.len()));
            line.answer(":5\r\n");
            let sent = String::from_utf8_lossy(&line.out).into_owned();
            let ttl = format!("\r\n{}\r\n", (times * TTL).as_millis());
            assert!(sent.ends_with(&ttl), "{first} {second}: {sent}");
            assert_eq!(line.sent(), ["SET"]);
        }
        line.answer("-OOM command not allowed\r\n");
        line.answer("+OK\r\n");
        let [failed, done] = asked.map(|it| answers(&it).unwrap().remove(0));
        assert!(failed.is_err() && matches!(done, Ok(Reply::There { .. })), "{failed:?} {done:?}");
    }
}

/// Readers would be kept out with no writer there.
#[test]
fn a_barrier_that_needs_its_script_again_does_not_follow_its_lowering() {
    let raise = Action::RaiseBarrier { life: TTL, insists: false };
    let mut line = Line::new(SCRIPTS, 0);
    line.ask(&[raise]);
    line.answer(":1\r\n");
    line.sent();
    for is_lowered in [false, true] {
        let claim = claim("redlock:a", CANARY);
        let mut ask = |action: Action| {
            let batch = Batch::new(vec![command(&(&claim, action))]);
            line.calls.ask(&batch, &mut line.out);
        };
        ask(raise);
        if is_lowered {
            ask(Action::LowerBarrier);
        }
        line.sent();
        line.answer("-NOSCRIPT No matching script.\r\n");
        assert_eq!(line.sent().is_empty(), is_lowered);
        line.answer(":1\r\n");
    }
}

/// It would undo what the release leaves of the key for the rest of a `min_hold`.
#[test]
fn a_renewal_without_scripts_does_not_follow_the_release_of_its_lock() {
    let mut line = Line::new(PLAIN, 0);
    let claim = claim("redlock:a", CANARY);
    let ask = |line: &mut Line, action: Action| {
        let batch = Batch::new(vec![command(&(&claim, action))]);
        line.calls.ask(&batch, &mut line.out);
        batch
    };
    for is_released in [false, true] {
        let renewal = ask(&mut line, Action::Extend { ttl: TTL });
        assert_eq!(line.sent(), ["GET", "PTTL"]);
        if is_released {
            ask(&mut line, Action::Shorten { rest: TTL / 2 });
            assert_eq!(line.sent(), ["SET"]);
        }
        line.answer(&format!("${}\r\n{CANARY}\r\n", CANARY.len()));
        line.answer(":5\r\n");
        if is_released {
            assert!(line.sent().is_empty());
            assert_eq!(answers(&renewal).unwrap(), [Ok(Reply::Missing)]);
        } else {
            assert_eq!(line.sent(), ["SET"]);
            line.answer("+OK\r\n");
        }
    }
}

#[test]
fn a_native_delete_that_finds_a_queue_wakes_by_script() {
    let mut line = Line::new(NATIVE, 0);
    let wakes = Action::Release { wakes: crate::node::KeySet::FIRST };
    let batch = line.ask(&[wakes]);
    assert_eq!(line.sent(), ["DELEX", "EXISTS"]);
    line.answer(":1\r\n");
    line.answer(":1\r\n");
    assert_eq!(line.sent(), ["EVAL"]);
    // For the script the key is gone already.
    line.answer("*2\r\n:2\r\n$11\r\nturn:waiter\r\n");
    let told = crate::node::Told::named(&[(0, "turn:waiter")]);
    let woke = Reply::Woke { deleted: true, told };
    assert_eq!(answers(&batch).unwrap(), [Ok(woke)]);

    let batch = line.ask(&[wakes]);
    line.sent();
    line.answer("-ERR unknown command 'DELEX'\r\n");
    line.answer(":0\r\n");
    assert_eq!(line.sent(), ["EVALSHA"]);
    line.answer(":1\r\n");
    assert_eq!(answers(&batch).unwrap(), [Ok(Reply::Done)]);
    line.ask(&[wakes]);
    assert_eq!(line.sent(), ["EVALSHA"], "it is not tried again");
}

/// The native delete would learn from its answer that others wait, and the next turn would come a round trip later.
#[test]
fn a_lock_that_was_taken_in_a_turn_is_released_by_script() {
    let mut line = Line::new(NATIVE, 0);
    let wakes = Action::Release { wakes: crate::node::KeySet::FIRST };
    for (has_turn, sent) in [(true, ["EVAL"].as_slice()), (false, &["DELEX", "EXISTS"])] {
        let claim = Claim { has_turn, ..Claim::new(&"redlock:a".into(), CANARY.to_owned()) };
        let batch = Batch::new(vec![command(&(&Arc::new(claim), wakes))]);
        line.calls.ask(&batch, &mut line.out);
        assert_eq!(line.sent(), sent);
    }
}

/// The client has taken the lock again, behind the native delete. It would never hear that others wait.
#[test]
fn clients_that_wait_and_are_not_woken_after_a_native_delete_are_not_forgotten() {
    let mut line = Line::new(NATIVE, 0);
    let unwoken = |deleted| Reply::Unwoken { deleted, told: crate::node::Told::default() };
    for (deleted, script, reply) in [
        (1, ":-1", unwoken(true)),
        (0, ":-1", unwoken(false)),
        (1, "-BUSY a script runs", unwoken(true)),
        // They have left.
        (1, ":0", Reply::Done),
        (0, ":0", Reply::Missing),
    ] {
        let batch = line.ask(&[Action::Release { wakes: crate::node::KeySet::FIRST }, GRANT]);
        line.answer(&format!(":{deleted}\r\n"));
        line.answer(":1\r\n");
        line.answer("+OK\r\n");
        line.answer(&format!("{script}\r\n"));
        assert_eq!(answers(&batch).unwrap(), [Ok(reply), Ok(Reply::Done)], "{script}");
    }
}

#[test]
fn without_scripts_nothing_of_a_queue_is_sent() {
    let mut line = Line::new(PLAIN, 0);
    let join = Action::Join { place: 0, life: TTL, listens: Listens::Turn, reads: false };
    let batch = line.ask(&[RELEASE, RELEASE, join, Action::Leave { again: false }]);
    assert_eq!(line.sent(), ["DELIFEQ", "DELIFEQ"]);
    line.answer(":1\r\n");
    line.answer(":0\r\n");
    let answers = answers(&batch).unwrap();
    assert_eq!(answers[..2], [Ok(Reply::Done), Ok(Reply::Missing)]);
    let error = answers[2].as_ref().unwrap_err();
    assert!(error.reason.contains("needs scripts") && !error.may_have_run, "{error}");
    assert_eq!(answers[3], Ok(Reply::Missing));
    assert!(line.calls.answer(Value::Okay, &mut line.out).is_err(), "there was no question");
}
