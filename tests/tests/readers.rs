//! Readers and writers in several clients and processes, over real servers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use redlock_core::{Redlock, Released};
use redlock_tests::{
    LIMIT, Nodes, Peer,
    history::Hold,
    rivals::{Role, holds_while_nodes_fail},
    wait_until, within,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock-process");

fn client(nodes: &Nodes) -> Redlock {
    nodes.client().ttl(Duration::from_secs(6)).wait(LIMIT).build().unwrap()
}

/// Fails when a writer overlaps with any other hold.
fn assert_exclusive(holds: &[Hold]) {
    let lasting = || holds.iter().filter(|hold| hold.from < hold.until);
    for writer in lasting().filter(|hold| hold.owner == "writer") {
        let beside = lasting().filter(|other| !std::ptr::eq(*other, writer));
        for other in beside {
            let apart = other.until <= writer.from || writer.until <= other.from;
            assert!(apart, "a writer beside another holder:\n{writer}\n{other}");
        }
    }
}

fn overlapping_readers(holds: &[Hold]) -> usize {
    let readers = || holds.iter().filter(|hold| hold.owner == "reader");
    let beside = |hold: &&Hold| {
        let overlaps = |other: &Hold| other.from < hold.until && hold.from < other.until;
        readers().filter(|other| overlaps(other)).count() > 1
    };
    readers().filter(beside).count()
}

#[tokio::test]
async fn writers_exclude_readers_and_each_other_while_a_node_goes_away_and_comes_back() {
    let nodes = Nodes::start(3);
    let reader = || Role { owner: "reader", ask: |it| it.shared() };
    let writer = || Role { owner: "writer", ask: |it| it };
    let roles = [reader(), reader(), reader(), writer(), writer()];
    let holds = holds_while_nodes_fail(&nodes, &roles).await;
    assert_exclusive(&holds);
    assert!(overlapping_readers(&holds) > 5, "readers hold it together");
}

#[tokio::test]
async fn a_flood_of_readers_lets_a_writer_in() {
    let nodes = Nodes::start(3);
    let readers = [client(&nodes), client(&nodes)];
    let stop = Arc::new(AtomicBool::new(false));
    let flood: Vec<_> = (0..6_u64)
        .map(|number| {
            let (client, stop) = (readers[number as usize % 2].clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(100 * number)).await;
                while !stop.load(SeqCst) {
                    let guard = client.lock("job").shared().await.unwrap();
                    tokio::time::sleep(Duration::from_millis(600)).await;
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    let writer = client(&nodes);
    tokio::time::sleep(Duration::from_secs(2)).await;
    for _ in 0..3 {
        // The writer would wait for ever if readers that come later went first.
        let guard = within("the writer", writer.lock("job")).await.unwrap();
        guard.release().await.unwrap();
    }
    stop.store(true, SeqCst);
    for reader in flood {
        within("a reader", reader).await.unwrap();
    }
}

/// Readers before that place do not wait for the writer.
#[tokio::test]
async fn a_writer_that_waits_for_readers_says_at_which_place() {
    let nodes = Nodes::start(3);
    let (one, other) = (client(&nodes), client(&nodes));
    nodes.warm_up(&other).await;
    let reader = one.lock("job").shared().await.unwrap();
    let waiting = tokio::spawn({
        let other = other.clone();
        async move { other.lock("job").await }
    });
    let barrier = || nodes[0].get("redlock:job:{redlock:job}:barrier");
    wait_until("there is a barrier with a place", async || {
        barrier().is_some_and(|it| !it.starts_with("0:"))
    })
    .await;
    reader.release().await.unwrap();
    within("the writer", waiting).await.unwrap().unwrap().release().await.unwrap();
    wait_until("the barrier goes", async || barrier().is_none()).await;
}

/// The keys of a writer go, and readers come: the writer learns of it at its next renewal, and not when its
/// validity ends.
#[tokio::test]
async fn a_writer_whose_lock_readers_have_has_lost_it() {
    let nodes = Nodes::start(3);
    let (writer, other) = (client(&nodes), client(&nodes));
    nodes.warm_up(&other).await;
    let guard = writer.lock("job").ttl(LIMIT).await.unwrap();
    // A node that is connected late would get the key after all keys went.
    wait_until("all nodes have the writer", async || guard.votes() == 3).await;
    nodes.iter().for_each(|node| drop(node.command(&["FLUSHALL"])));
    let reader = other.lock("job").shared().await.unwrap();
    wait_until("all nodes have a reader", async || reader.votes() == 3).await;
    assert!(guard.extend(LIMIT).await.unwrap_err().is_lost());
    assert!(!guard.is_valid());
    drop(guard);
    reader.extend(LIMIT).await.unwrap();
    reader.release().await.unwrap();
}

/// That is no failure of the nodes.
#[tokio::test]
async fn a_writer_whose_lock_readers_have_hears_it_at_its_release() {
    let nodes = Nodes::start(3);
    let (writer, other) = (client(&nodes), client(&nodes));
    nodes.warm_up(&other).await;
    // What is left of a `min_hold` is kept by another script.
    let guard = writer.lock("job").ttl(LIMIT).await.unwrap();
    let kept = writer.lock("kept").ttl(LIMIT).min_hold(LIMIT / 2).await.unwrap();
    wait_until("all nodes have the writer", async || guard.votes() + kept.votes() == 6).await;
    nodes.iter().for_each(|node| drop(node.command(&["FLUSHALL"])));
    let readers =
        [other.lock("job").shared().await.unwrap(), other.lock("kept").shared().await.unwrap()];
    let votes = || readers.iter().map(|it| it.votes()).sum::<usize>();
    wait_until("all nodes have the readers", async || votes() == 6).await;
    for guard in [guard, kept] {
        assert_eq!(within("release", guard.release()).await.unwrap(), Released::AlreadyLost);
    }
}

#[tokio::test]
async fn a_reader_that_is_killed_frees_the_lock_after_its_ttl() {
    let nodes = Nodes::start(3);
    let urls = nodes.urls();
    let words = ["read".to_owned(), "job".to_owned()];
    let mut killed = Peer::start(PROGRAM, words.iter().chain(&urls));
    assert_eq!(killed.line().await, "held");
    let client = client(&nodes);
    let reader = client.lock("job").shared().await.unwrap();
    killed.kill();
    reader.release().await.unwrap();
    assert!(client.try_lock("job").await.unwrap_err().is_held());
    let writer = within("the writer", client.lock("job")).await.unwrap();
    writer.release().await.unwrap();
}
