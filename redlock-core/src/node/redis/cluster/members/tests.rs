//! Members that send commands on, over streams in memory.

use std::{
    future::poll_fn,
    sync::atomic::{AtomicUsize, Ordering},
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
        Action, Claim, Command, Reply, Restarts,
        redis::{
            abilities::Abilities,
            exchange::Setup,
            transport::{CloseReason, Transport},
        },
    },
};

const KEY: &str = "redlock:a";

/// Far more than any step here takes, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(30);

fn place(port: u16) -> Place {
    Place { host: "h".to_owned(), port }
}

/// Two members, and their ends of the connections. The first has the slot of the lock.
fn two() -> (Members, [DuplexStream; 2]) {
    let name: Arc<str> = "n".into();
    let open = |port| {
        let (ours, theirs) = duplex(4096);
        let close_reason = CloseReason::default();
        let exchange = Exchange::new(Setup {
            node: Arc::clone(&name),
            transport: Transport::new(ours, close_reason.clone()),
            close_reason,
            watchers: None,
            abilities: Abilities { scripts: true, delete: None },
            wait: None,
            is_member: true,
        });
        ((place(port), Ok(Reached { exchange, run_id: None, uptime: None })), theirs)
    };
    let ((first, its), (second, others)) = (open(1), open(2));
    let shard = |slots, port| Shard { slots, place: place(port), id: format!("{port}") };
    let last = SLOTS - 1;
    assert!(slot_of(KEY) < last);
    let found = Found {
        shards: vec![shard(0..=last - 1, 1), shard(last..=last, 2)],
        opened: vec![first, second],
    };
    let history = Arc::new(Mutex::new(History::new(Restarts::Observed, LIMIT)));
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

/// As after a move of the slot that was cut short.
#[tokio::test(start_paused = true)]
async fn a_slot_that_two_masters_disown_is_an_error() {
    let (mut members, ends) = two();
    let asked = Arc::new(AtomicUsize::new(0));
    for (mut end, other) in ends.into_iter().zip([2, 1]) {
        let asked = Arc::clone(&asked);
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
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
        let mut buffer = [0; 4096];
        assert!(first.read(&mut buffer).await.unwrap() > 0);
        first.write_all(moved_to(2).as_bytes()).await.unwrap();
        drop(first);
        assert!(second.read(&mut buffer).await.unwrap() > 0);
        second.write_all(b"+OK\r\n").await.unwrap();
    });
    assert_eq!(lock(&mut members).await, Ok(Reply::Done));
    assert!(members.members[0].exchange.is_none());
}
