//! Permits in several clients and processes, over real servers.

use std::{future::IntoFuture, time::Duration};

use redlock_core::Redlock;
use redlock_tests::{
    LIMIT, Nodes, Peer,
    history::Hold,
    rivals::{Role, holds_while_nodes_fail},
    wait_until, within,
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

/// As docs/manual/waiting.md says.
#[tokio::test]
async fn an_operator_sees_permits_under_their_own_names_and_takes_one_away() {
    let nodes = Nodes::start(3);
    // With the usual ttl, so that a busy machine loses no permit.
    let client = || nodes.client().wait(4 * LIMIT).build().unwrap();
    let (holder, other) = (client(), client());
    let holding = [
        holder.lock("job").permits(2).await.unwrap(),
        holder.lock("job").permits(2).await.unwrap(),
    ];
    let waiting = tokio::spawn(other.lock("job").permits(2).into_future());
    let operator = client();
    for number in 0..2 {
        let name = format!("job:{{redlock:job}}:permit:{number}");
        wait_until("the permit is held, and one client waits", async || {
            let status = operator.inspect(&*name).await.unwrap();
            status.holder() == Some(holder.client_name()) && status.waiting().len() == 1
        })
        .await;
    }
    let waits = other.waiting();
    assert_eq!((waits.len(), waits[0].resource()), (1, "job"));
    operator.force_release_now("job:{redlock:job}:permit:1").await.unwrap();
    let next = within("the next", waiting).await.unwrap().unwrap();
    assert!(next.is_valid());
    drop(holding);
}
