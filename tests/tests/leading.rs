//! Leaders in processes of their own, over real servers: killed, stopped and resigned.

use redlock_tests::{Nodes, Peer};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock-process");

/// A replica that campaigns.
async fn replica(urls: &[String]) -> Peer {
    let words = ["lead".to_owned(), "scheduler".to_owned()];
    let mut replica = Peer::start(PROGRAM, words.iter().chain(urls));
    assert_eq!(replica.line().await, "campaigns");
    replica
}

/// The token of the term that the replica begins next.
async fn leads(replica: &mut Peer) -> u64 {
    let line = replica.line().await;
    let token = line.strip_prefix("leads ").unwrap_or_else(|| panic!("{line:?}"));
    token.parse().unwrap()
}

#[tokio::test]
async fn another_replica_leads_after_a_crash_a_pause_and_a_resignation() {
    let nodes = Nodes::start(3);
    let urls = nodes.urls();
    let mut first = replica(&urls).await;
    let mut tokens = vec![leads(&mut first).await];

    let mut second = replica(&urls).await;
    first.kill();
    tokens.push(leads(&mut second).await);

    let mut third = replica(&urls).await;
    second.pause();
    tokens.push(leads(&mut third).await);
    second.resume();
    assert_eq!(second.line().await, "lost", "it led for too long");

    third.close();
    assert_eq!(third.line().await, "lost", "its body is dropped before it resigns");
    tokens.push(leads(&mut second).await);
    assert!(third.end().await && second.end().await);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}
