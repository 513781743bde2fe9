//! Permits in several clients and processes, over real servers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use redlock_core::{LockError, Redlock};
use redlock_tests::{
    LIMIT, Nodes, Peer,
    history::{History, Hold},
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
    let (history, stop) = (History::new(), Arc::new(AtomicBool::new(false)));
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let (client, history, stop) = (client(&nodes), history.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut times = 0;
                while !stop.load(SeqCst) {
                    let guard = match client.lock("job").permits(PERMITS).await {
                        Ok(guard) => guard,
                        Err(LockError::NoQuorum { .. } | LockError::Held { .. }) => continue,
                        Err(error) => panic!("{error}"),
                    };
                    let mut held = history.begin("job", "holder");
                    for _ in 0..3 {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        held.confirm(|| guard.is_valid());
                    }
                    drop(held);
                    times += 1;
                    let _ = guard.release().await;
                }
                times
            })
        })
        .collect();
    for step in 0..4 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        match step {
            0 => nodes[1].kill(),
            1 => nodes[1].start_again(),
            2 => nodes[2].pause(),
            _ => nodes[2].resume(),
        }
    }
    stop.store(true, SeqCst);
    for worker in workers {
        let times: u32 = within("a worker", worker).await.unwrap();
        assert!(times > 5, "{times}");
    }
    assert_eq!(most_at_once(&history.holds()), PERMITS as usize);
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
