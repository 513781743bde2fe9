//! Locks that pass from process to process, over real servers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use redlock_core::{LockError, Redlock};
use redlock_tests::{Nodes, Peer, history::History, wait_until, wait_until_renewed, within};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock-process");

/// Another process that adopts this lease, and what it says.
async fn adopts(lease: &str, urls: &[String]) -> (Peer, String) {
    let words = ["adopt".to_owned(), lease.to_owned()];
    let mut peer = Peer::start(PROGRAM, words.iter().chain(urls));
    let line = peer.line().await;
    (peer, line)
}

#[tokio::test]
async fn a_lock_that_was_adopted_and_whose_new_holder_is_killed_is_free_after_its_ttl() {
    let nodes = Nodes::start(3);
    let urls = nodes.urls();
    // Long enough for a busy machine to start a process, short enough to be waited for.
    let client = nodes.client().ttl(Duration::from_secs(12)).build().unwrap();
    nodes.warm_up(&client).await;
    let guard = client.lock("job").fenced().await.unwrap();
    let token = guard.fencing_token().unwrap();
    let lease = serde_json::to_string(&guard.into_lease()).unwrap();

    let (first, line) = adopts(&lease, &urls).await;
    assert_eq!(line, format!("adopted {token}"));
    let (second, line) = adopts(&lease, &urls).await;
    assert_eq!(line, "refused");
    assert!(second.end().await);
    for _ in 0..2 {
        wait_until_renewed(&nodes[0], "redlock:job").await;
    }
    assert!(client.try_lock("job").await.unwrap_err().is_held());
    first.kill();
    let next = within("the next", client.lock("job").fenced().wait(redlock_tests::LIMIT)).await;
    assert!(next.unwrap().fencing_token().unwrap() > token);
}

/// Clients that hand their locks to each other, and clients that do not, while a node goes away and
/// comes back.
#[tokio::test]
async fn locks_that_are_handed_over_exclude_all_others() {
    let nodes = Nodes::start(3);
    let history = History::new();
    let client = || nodes.client().wait(Duration::from_secs(60)).build().unwrap();
    let (stop, all_adopted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let worker = |number: usize, giver: Redlock, taker: Option<Redlock>| {
        let (history, stop) = (history.clone(), Arc::clone(&stop));
        let adopted = Arc::clone(&all_adopted);
        tokio::spawn(async move {
            while !stop.load(SeqCst) {
                let mut guard = match giver.lock("job").fenced().await {
                    Ok(guard) => guard,
                    Err(LockError::Held { .. } | LockError::NoQuorum { .. }) => continue,
                    Err(error) => panic!("{error}"),
                };
                let token = guard.fencing_token();
                let mut held = history.begin("job", &format!("giver {number}"));
                tokio::time::sleep(Duration::from_millis(1)).await;
                held.confirm(|| guard.is_valid());
                drop(held);
                if let Some(taker) = &taker {
                    guard = match taker.adopt(guard.into_lease()).await {
                        Ok(guard) => guard,
                        Err(LockError::NoQuorum { .. } | LockError::Lost { .. }) => continue,
                        Err(error) => panic!("{error}"),
                    };
                    adopted.fetch_add(1, SeqCst);
                    assert_eq!(guard.fencing_token(), token);
                    let mut held = history.begin("job", &format!("taker {number}"));
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    held.confirm(|| guard.is_valid());
                    drop(held);
                }
                let _ = guard.release().await;
            }
        })
    };
    let workers = [
        worker(0, client(), Some(client())),
        worker(1, client(), Some(client())),
        worker(2, client(), None),
    ];
    for step in 0..3 {
        match step {
            0 => {}
            1 => nodes[1].kill(),
            _ => nodes[1].start_again(),
        }
        let before = all_adopted.load(SeqCst);
        tokio::time::sleep(Duration::from_secs(1)).await;
        wait_until("locks are handed over", async || all_adopted.load(SeqCst) >= before + 5).await;
    }
    stop.store(true, SeqCst);
    for worker in workers {
        within("a worker", worker).await.unwrap();
    }
    history.assert_exclusive();
}
