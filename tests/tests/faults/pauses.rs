//! Rows 5 to 8, 34 and 41: nodes and holders that stop for a while and then go on.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use redlock_core::{LockError, LockHandle, LostReason, NodeErrorKind, Released};
use redlock_tests::{LIMIT, Nodes, Peer, Server, history, wait_until, within};

use crate::support::{
    BRIEF, JOB, LONG, SECOND, assert_all_failed, brief, health, wait_until_empty,
};

/// What makes a node hang, and what ends that.
type Hang = (fn(&Server), fn(&Server));

const STOPPED: Hang = (Server::pause, Server::resume);

/// Every write waits, reads are answered.
const WRITES_PAUSED: Hang = (
    |node| drop(node.command(&["CLIENT", "PAUSE", "60000", "WRITE"])),
    |node| drop(node.command(&["CLIENT", "UNPAUSE"])),
);

/// Hanging nodes among five do not delay a lock while the other nodes are a quorum.
async fn a_hung_minority_adds_no_wait((hang, go_on): Hang) {
    let nodes = Nodes::start(5);
    // Far longer than all of the work below: one wait for a hung node would show.
    let timeout = 15 * SECOND;
    let client = nodes.client().node_timeout(timeout).ttl(LONG).build().unwrap();
    nodes.warm_up(&client).await;
    nodes[..2].iter().for_each(hang);
    let start = Instant::now();
    for _ in 0..10 {
        let guard = client.lock("job").await.unwrap();
        guard.extend(LONG).await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Ours);
    }
    assert!(start.elapsed() < timeout, "somebody waited for a hung node");
    nodes[..2].iter().for_each(go_on);
    wait_until_empty(&nodes).await;
}

/// Without a quorum that answers, nothing is locked, whatever the other nodes run when they go on.
async fn a_hung_majority_is_no_quorum_and_keeps_no_key((hang, go_on): Hang) {
    let nodes = Nodes::start(3);
    let client = nodes.client().ttl(LONG).build().unwrap();
    nodes.warm_up(&client).await;
    nodes[..2].iter().for_each(hang);
    let error = within("try_lock", client.try_lock("job")).await.unwrap_err();
    assert_all_failed(&error, NodeErrorKind::Timeout, "no answer within 2s");
    // They now run the SETs that were sent to them, long after every client gave up.
    nodes[..2].iter().for_each(go_on);
    wait_until_empty(&nodes).await;
    let guard = client.lock("job").wait(LIMIT).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
}

#[tokio::test]
async fn row_05_a_hung_minority_adds_no_wait() {
    a_hung_minority_adds_no_wait(STOPPED).await;
}

#[tokio::test]
async fn row_06_a_hung_majority_is_no_quorum_and_keeps_no_key_when_it_goes_on() {
    a_hung_majority_is_no_quorum_and_keeps_no_key(STOPPED).await;
}

#[tokio::test]
async fn row_06_a_holder_under_a_hung_majority_is_told_when_its_validity_ends() {
    let nodes = Nodes::start(5);
    let client = nodes.client().node_timeout(SECOND).ttl(BRIEF).build().unwrap();
    nodes.warm_up(&client).await;
    let guard = client.lock("job").wait(LIMIT).await.unwrap();
    nodes[..3].iter().for_each(|node| node.pause());
    // New keys do not stay either, although their ttl is long.
    let error = within("try_lock", client.try_lock("ghost").ttl(LONG)).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    within("lost()", guard.lost()).await;
    assert!(!guard.is_valid());
    let error = guard.extend(BRIEF).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::Expired, .. }), "{error:?}");
    nodes[..3].iter().for_each(|node| node.resume());
    drop(guard);
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_07_a_set_that_runs_after_its_connection_was_given_up_is_cleaned_up() {
    let nodes = Nodes::start(1);
    let node = &nodes[0];
    let client = nodes.client().node_timeout(SECOND / 5).ttl(LONG).build().unwrap();
    nodes.warm_up(&client).await;
    node.command(&["CONFIG", "RESETSTAT"]);
    node.pause();
    // Silence makes the client drop the connection; the SET is in the socket all the same.
    wait_until("the connection was given up", async || {
        let error = client.try_lock("job").await.unwrap_err();
        let LockError::NoQuorum { nodes, .. } = &error else { panic!("{error:?}") };
        nodes[0].kind == NodeErrorKind::Down
    })
    .await;
    node.resume();
    wait_until("the ghost was there", async || node.calls("set") > 0).await;
    wait_until_empty(&nodes).await;
    // Clean-up was repeated on the new connection; nothing is owed any more.
    wait_until("clean-up has ended", async || {
        health(&client, &node.address()).await.pending_cleanups == 0
    })
    .await;
    assert!(nodes.are_empty());
}

#[tokio::test]
async fn row_08_a_holder_that_was_stopped_for_longer_than_its_ttl_does_no_more_work() {
    let nodes = Nodes::start(3);
    let program = env!("CARGO_BIN_EXE_redlock-process");
    let arguments = ["work".to_owned(), "job".to_owned()].into_iter().chain(nodes.urls());
    let mut holder = Peer::start(program, arguments);
    assert_eq!(holder.line().await, "working");
    holder.pause();
    let stopped = history::now();
    let client = nodes.client().build().unwrap();
    let guard = client.lock("job").wait(LIMIT).await.unwrap();

    holder.resume();
    let line = holder.line().await;
    let polled = line.strip_prefix("lost ").unwrap_or_else(|| panic!("it said {line:?}"));
    let polled = Duration::from_nanos(polled.parse().unwrap());
    assert!(polled <= stopped, "it worked on after somebody else had the lock");
    assert!(holder.end().await);
    // It has not taken away the key of another client either.
    guard.extend(LONG).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_34_a_minority_that_answers_reads_alone_adds_no_wait() {
    a_hung_minority_adds_no_wait(WRITES_PAUSED).await;
}

#[tokio::test]
async fn row_34_a_majority_that_answers_reads_alone_is_no_quorum_and_keeps_no_key() {
    a_hung_majority_is_no_quorum_and_keeps_no_key(WRITES_PAUSED).await;
}

#[tokio::test]
async fn row_34_a_server_that_sleeps_delays_no_caller_and_keeps_no_key() {
    let nodes = Nodes::start(3);
    let client = nodes.client().node_timeout(SECOND).ttl(LONG).build().unwrap();
    nodes.warm_up(&client).await;
    for node in &nodes[..2] {
        let server = redis::Client::open(node.url()).unwrap();
        // It answers when it has slept.
        std::thread::spawn(move || {
            redis::cmd("DEBUG").arg("SLEEP").arg("5").exec(&mut server.get_connection()?)
        });
    }
    wait_until("they sleep", async || {
        let locked = within("try_lock", client.try_lock("job")).await;
        locked.is_err_and(|error| error.is_unavailable())
    })
    .await;
    let guard = client.lock("job").wait(LIMIT).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_41_a_runtime_that_is_blocked_for_longer_than_the_validity_has_lost_the_lock() {
    let nodes = Nodes::start(3);
    let client = brief(&nodes);
    nodes.warm_up(&client).await;
    let guard = client.lock("job").wait(LIMIT).await.unwrap();
    let valid = guard.validity();
    // Nothing of this runtime can run meanwhile: no renewal, no timer.
    std::thread::sleep(valid);
    assert!(!guard.is_valid(), "before anything else has run");
    let mut lost = pin!(guard.lost());
    tokio::select! {
        biased;
        () = &mut lost => {}
        () = std::future::ready(()) => panic!("lost() has to wait for something"),
    }
    drop(guard);

    // A body that is blocked finds out at its next await.
    let body = async |lock: &LockHandle| {
        std::thread::sleep(lock.validity());
        tokio::task::yield_now().await;
        panic!("polled without a valid lock");
    };
    let error = client.lock("body").wait(LIMIT).run::<(), _>(body).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::Expired, .. }), "{error:?}");
    wait_until("no key of the body is left", async || nodes.holding(JOB) == 0).await;
    wait_until_empty(&nodes).await;
}
