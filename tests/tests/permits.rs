//! Permits in several clients and processes, over real servers.

use std::time::Duration;

use redlock_core::Redlock;
use redlock_tests::{
    LIMIT, Nodes, Peer,
    history::Hold,
    rivals::{Role, holds_while_nodes_fail},
    within,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock-process");
const PERMITS: u32 = 3;

fn client(nodes: &Nodes) -> Redlock {
    nodes.client().ttl(Duration::from_secs(6)).wait(LIMIT).build().unwrap()
}

/// The most holds that lasted at one moment.
fn most_at_once(holds: &[Hold]) -> usize {
    let lasting = || holds.iter().filter(|hold| hold.from < hold.until);
    let at = |hold: &Hold| {
        lasting().filter(|other| other.from <= hold.from && hold.from < other.until).count()
    };
    lasting().map(at).max().unwrap_or_default()
}

#[tokio::test]
async fn no_more_than_the_permits_are_held_while_a_node_goes_away_and_comes_back() {
    let nodes = Nodes::start(3);
    let roles = [(); 8].map(|()| Role { owner: "holder", ask: |it| it.permits(PERMITS) });
    let holds = holds_while_nodes_fail(&nodes, &roles).await;
    assert_eq!(most_at_once(&holds), PERMITS as usize);
}

#[tokio::test]
async fn the_permit_of_a_holder_that_is_killed_is_free_after_its_ttl() {
    let nodes = Nodes::start(3);
    let urls = nodes.urls();
    let words = ["permit".to_owned(), "2".to_owned(), "job".to_owned()];
    let mut killed = Peer::start(PROGRAM, words.iter().chain(&urls));
    assert_eq!(killed.line().await, "held");
    let client = client(&nodes);
    let other = client.lock("job").permits(2).await.unwrap();
    assert!(client.try_lock("job").permits(2).await.unwrap_err().is_held());
    killed.kill();
    let next = within("the next", client.lock("job").permits(2)).await.unwrap();
    assert!(next.is_valid() && other.is_valid());
}
