//! Members that send commands on, over streams in memory.

mod importing;
mod moved;

use std::{
    future::poll_fn,
    sync::atomic::{AtomicUsize, Ordering},
    task::Poll,
};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::{
    super::{slots::slot_of, topology::Shard},
    found::{Found, Reached},
    *,
};
use crate::{
    clock::SystemClock,
    node::{
        Action, Claim, Command, KeySet, Remaining, Reply, Restarts,
        redis::{
            abilities::{Abilities, Delete},
            exchange::Setup,
            tests::setup,
        },
    },
};

const KEY: &str = "redlock:a";

/// Far more than any step here takes, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(30);

fn place(port: u16) -> MemberAddress {
    MemberAddress { host: "h".to_owned(), port }
}

/// A connection to the member with this port, which tells no run id, and the other end.
fn open(port: u16) -> ((MemberAddress, Result<Reached, Arc<str>>), DuplexStream) {
    let (ours, theirs) = duplex(64 * 1024);
    let exchange = Exchange::new(Setup { is_member: true, ..setup(ours) });
    let reached = Reached { exchange, run_id: None, followed: None, uptime: None };
    ((place(port), Ok(reached)), theirs)
}

/// Two members, and their ends of the connections. The first has the slot of the lock.
fn two() -> (Members, [DuplexStream; 2]) {
    let name: Arc<str> = "n".into();
    let ((first, its), (second, others)) = (open(1), open(2));
    assert!(slot_of(KEY) < SLOTS - 1);
    let found = Found { opened: vec![first, second], ..look(1) };
    let history = Arc::new(Mutex::new(History::new(Restarts::Observed, LIMIT, LIMIT)));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let mut members = Members::new(&name, &clock, &Arc::default(), &history, LIMIT / 2);
    assert_eq!(members.apply(found), 0);
    (members, [its, others])
}

/// What a lock is answered.
async fn lock(members: &mut Members) -> Result<Reply, NodeError> {
    let claim = Arc::new(Claim::new(&KEY.into(), "v".to_owned()));
    let batch = members.send(vec![Command { claim, action: Action::Grant { ttl: LIMIT } }]);
    let answered = poll_fn(|cx| {
        members.drive(cx);
        batch.register(cx.waker());
        batch.poll()
    });
    tokio::time::timeout(LIMIT, answered).await.expect("an answer").remove(0)
}

fn moved_to(port: u16) -> String {
    format!("-MOVED {} h:{port}\r\n", slot_of(KEY))
}

fn ask_at(port: u16) -> String {
    moved_to(port).replace("MOVED", "ASK")
}

/// As after a move of the slot that was cut short.
#[tokio::test(start_paused = true)]
async fn a_slot_that_two_masters_disown_is_an_error() {
    let (mut members, ends) = two();
    let asked = Arc::new(AtomicUsize::new(0));
    for (mut end, other) in ends.into_iter().zip([2, 1]) {
        let asked = Arc::clone(&asked);
        tokio::spawn(async move {
            let mut buffer = vec![0; 64 * 1024];
            while end.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                if asked.fetch_add(1, Ordering::Relaxed) == 100 {
                    return;
                }
                let _ = end.write_all(moved_to(other).as_bytes()).await;
            }
        });
    }
    let error = lock(&mut members).await.unwrap_err();
    assert_eq!(error.kind, NodeErrorKind::Server, "{error}");
    assert!(error.reason.starts_with(&format!("MOVED {} h:", slot_of(KEY))), "{error}");
    assert!(!error.may_have_run);
    assert_eq!(asked.load(Ordering::Relaxed), 6);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_redirects_and_hangs_up_loses_no_command() {
    let (mut members, [mut first, mut second]) = two();
    tokio::spawn(async move {
        let mut buffer = vec![0; 64 * 1024];
        assert!(first.read(&mut buffer).await.unwrap() > 0);
        first.write_all(moved_to(2).as_bytes()).await.unwrap();
        drop(first);
        assert!(second.read(&mut buffer).await.unwrap() > 0);
        second.write_all(b"+OK\r\n").await.unwrap();
    });
    assert_eq!(lock(&mut members).await, Ok(Reply::Done));
    assert!(members.members[0].exchange.is_none());
}

/// The names of the commands that come next on a connection.
async fn heard(end: &mut DuplexStream) -> Vec<&'static str> {
    let mut buffer = vec![0; 64 * 1024];
    let read = tokio::time::timeout(LIMIT, end.read(&mut buffer)).await.expect("commands").unwrap();
    let text = String::from_utf8_lossy(&buffer[..read]).into_owned();
    let lines = text.split("\r\n");
    lines.filter_map(|line| ["SET", "EVAL"].into_iter().find(|name| *name == line)).collect()
}

/// Drives the members until these are answered.
async fn answered(members: &mut Members, batches: &[Arc<Batch>]) -> Vec<Result<Reply, NodeError>> {
    let mut answers = vec![None; batches.len()];
    let answered = poll_fn(|cx| {
        members.drive(cx);
        for (batch, answer) in batches.iter().zip(&mut answers) {
            batch.register(cx.waker());
            if let (None, Poll::Ready(mut all)) = (&answer, batch.poll()) {
                *answer = all.pop();
            }
        }
        if answers.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    });
    tokio::time::timeout(LIMIT, answered).await.expect("answers");
    answers.into_iter().flatten().collect()
}

/// The findings of a look, with the slot of the lock at the member with this port.
fn look(port: u16) -> Found {
    let last = SLOTS - 1;
    let shard = |slots, port| Shard { slots, place: place(port), id: format!("{port}") };
    let shards = vec![shard(0..=last - 1, port), shard(last..=last, 3 - port)];
    Found { shards, opened: Vec::new() }
}

/// The findings of a look, with all slots at the member with this port.
fn look_at_one(port: u16) -> Found {
    let shard = Shard { slots: 0..=SLOTS - 1, place: place(port), id: format!("{port}") };
    Found { shards: vec![shard], opened: Vec::new() }
}

/// Handles what has come.
async fn drive(members: &mut Members) {
    poll_fn(|cx| {
        members.drive(cx);
        Poll::Ready(())
    })
    .await;
}

fn ask(members: &mut Members, claim: &Arc<Claim>, action: Action) -> Arc<Batch> {
    members.send(vec![Command { claim: Arc::clone(claim), action }])
}

/// Asks for a lock. The first member answers with this redirect, and the members have handled it.
async fn redirected(members: &mut Members, first: &mut DuplexStream, redirect: &str) -> Arc<Batch> {
    let claim = Arc::new(Claim::new(&KEY.into(), "v".to_owned()));
    let grant = ask(members, &claim, Action::Grant { ttl: LIMIT });
    assert_eq!(heard(first).await, ["SET"]);
    first.write_all(redirect.as_bytes()).await.unwrap();
    drive(members).await;
    grant
}

/// The key would stay for its ttl: its delete would run before it, and find nothing.
#[tokio::test(start_paused = true)]
async fn no_delete_overtakes_the_set_of_its_lock_while_its_slot_moves() {
    const GRANT: Action = Action::Grant { ttl: LIMIT };
    for by_look in [true, false] {
        let (mut members, [mut first, mut second]) = two();
        let [early, late] = ["e", "l"].map(|value| Arc::new(Claim::new(&KEY.into(), value.into())));
        let grants = [ask(&mut members, &early, GRANT), ask(&mut members, &late, GRANT)];
        assert_eq!(heard(&mut first).await, ["SET", "SET"]);
        // The client learns that the slot has moved while the second `SET` is on its way.
        first.write_all(moved_to(2).as_bytes()).await.unwrap();
        if by_look {
            members.apply(look(2));
        }
        drive(&mut members).await;
        assert_eq!(heard(&mut second).await, ["SET"]);
        let release = ask(&mut members, &late, Action::Release { wakes: KeySet::NONE });
        assert_eq!(heard(&mut first).await, ["EVAL"], "it redirects the `SET` first");

        first.write_all(moved_to(2).repeat(2).as_bytes()).await.unwrap();
        drive(&mut members).await;
        assert_eq!(heard(&mut second).await, ["SET", "EVAL"]);
        second.write_all(b"+OK\r\n+OK\r\n:1\r\n").await.unwrap();
        let [first, second] = grants;
        let answers = answered(&mut members, &[first, second, release]).await;
        assert_eq!(answers, [Ok(Reply::Done), Ok(Reply::Done), Ok(Reply::Done)]);
        assert_eq!(members.owners[usize::from(slot_of(KEY))], 1, "it has nothing left to answer");
    }
}

/// It may be cut off from the others, and would give locks for as long as this client asks it for some.
#[tokio::test(start_paused = true)]
async fn a_master_that_was_replaced_is_left_with_commands_to_answer() {
    let (mut members, [mut first, _second]) = two();
    let claim = Arc::new(Claim::new(&KEY.into(), "v".to_owned()));
    let grant = ask(&mut members, &claim, Action::Grant { ttl: LIMIT });
    assert_eq!(heard(&mut first).await, ["SET"]);
    members.apply(look_at_one(2));
    assert_eq!(members.owners[usize::from(slot_of(KEY))], 0);
    assert_eq!(members.members[0].place, place(2));
    let [Err(error)] = &answered(&mut members, &[grant]).await[..] else { panic!("it is left") };
    assert!(error.may_have_run && error.reason.contains("no master"), "{error}");
}

/// It looks like another process once it has its name, and the slot would sit out.
#[tokio::test(start_paused = true)]
async fn a_slot_that_moves_to_a_member_without_a_name_stays_in_use() {
    let (mut members, [mut first, mut second]) = two();
    members.members[1].process.id = "".into();
    let grant = redirected(&mut members, &mut first, &moved_to(2)).await;
    assert_eq!(heard(&mut second).await, ["SET"]);
    second.write_all(b"+OK\r\n").await.unwrap();
    assert_eq!(answered(&mut members, &[grant]).await, [Ok(Reply::Done)]);
    assert_eq!(members.apply(look(2)), 0, "it gives locks");
}

#[tokio::test]
async fn each_member_is_heard_out_before_the_connections_may_close() {
    let (mut members, _ends) = two();
    members.part();
    assert_eq!(members.carry_last(), Remaining::Nothing, "nothing was asked");

    let (mut members, [mut first, mut second]) = two();
    members.ping().unwrap();
    members.part();
    assert_eq!(members.carry_last(), Remaining::Answers);
    first.write_all(b"+PONG\r\n").await.unwrap();
    assert_eq!(members.carry_last(), Remaining::Answers);
    second.write_all(b"+PONG\r\n").await.unwrap();
    assert_eq!(members.carry_last(), Remaining::Nothing);
}

/// The release of that lock went to the member that redirects, and there may be no answer to it.
#[tokio::test]
async fn no_vote_is_sent_on_to_another_member_after_the_runtime() {
    let (mut members, [mut first, mut second]) = two();
    let claim = Arc::new(Claim::new(&KEY.into(), "v".to_owned()));
    let command = |action| vec![Command { claim: Arc::clone(&claim), action }];
    members.send(command(Action::Grant { ttl: LIMIT }));
    members.send(command(Action::Release { wakes: KeySet::NONE }));
    members.part();
    assert_eq!(heard(&mut first).await, ["SET", "EVAL"]);
    first.write_all(moved_to(2).repeat(2).as_bytes()).await.unwrap();
    assert_eq!(members.carry_last(), Remaining::Answers);
    assert_eq!(heard(&mut second).await, ["EVAL"]);
    second.write_all(b":0\r\n").await.unwrap();
    assert_eq!(members.carry_last(), Remaining::Nothing);
}

/// It was told to be silent.
#[tokio::test]
async fn a_member_that_is_silent_after_the_runtime_is_not_late() {
    let (mut members, [mut first, _second]) = two();
    members.ping().unwrap();
    let claim = Arc::new(Claim::new(&KEY.into(), "v".to_owned()));
    let release =
        || Command { claim: Arc::clone(&claim), action: Action::Release { wakes: KeySet::NONE } };
    members.send(vec![release()]);
    assert!(members.deadline().is_some());
    members.part();
    assert!(members.deadline().is_none());
    members.send(vec![release()]);
    assert!(members.deadline().is_none());
    assert!(!heard(&mut first).await.is_empty());
}
