//! Tasks that take one lock again and again while nodes fail, and the holds that come of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use redlock_core::{LockError, LockRequest};

use crate::{
    LIMIT, Nodes,
    history::{History, Hold},
    wait_until, within,
};

/// How a task asks for the lock.
#[derive(Debug)]
pub struct Role {
    /// The owner of its holds in the history.
    pub owner: &'static str,
    /// Its settings.
    pub ask: fn(LockRequest) -> LockRequest,
}

/// Puts the nodes into another state.
type Begin = fn(&Nodes);

/// How often each task gets the lock at least, in each state of the nodes that has a quorum.
const TIMES: usize = 3;

/// Lets each of these tasks, with a client of its own, take the lock `job` again and again, while a node
/// is killed and comes back and another stands still. Returns the holds, once each task has had the lock
/// several times in each of these states.
pub async fn holds_while_nodes_fail(nodes: &Nodes, roles: &[Role]) -> Vec<Hold> {
    let (history, stop) = (History::new(), Arc::new(AtomicBool::new(false)));
    let mut tasks = Vec::new();
    for Role { owner, ask } in roles {
        let client = nodes.client().ttl(Duration::from_secs(6)).wait(LIMIT).build().unwrap();
        let (history, stop) = (history.clone(), Arc::clone(&stop));
        let times = Arc::new(AtomicUsize::new(0));
        let (owner, ask, counted) = (*owner, *ask, Arc::clone(&times));
        let task = tokio::spawn(async move {
            while !stop.load(SeqCst) {
                let guard = match ask(client.lock("job")).await {
                    Ok(guard) => guard,
                    Err(LockError::NoQuorum { .. } | LockError::Held { .. }) => continue,
                    Err(error) => panic!("{error}"),
                };
                let mut held = history.begin("job", owner);
                for _ in 0..3 {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    held.confirm(|| guard.is_valid());
                }
                drop(held);
                counted.fetch_add(1, SeqCst);
                // A node may fail meanwhile.
                let _ = guard.release().await;
            }
        });
        tasks.push((times, task));
    }
    // A node that restarted sits out, so that there is no quorum while another stands still.
    let states: [(Begin, bool); 5] = [
        (|_| {}, true),
        (|nodes| nodes[1].kill(), true),
        (|nodes| nodes[1].start_again(), true),
        (|nodes| nodes[2].pause(), false),
        (|nodes| nodes[2].resume(), true),
    ];
    for (begin, has_quorum) in states {
        begin(nodes);
        let before: Vec<_> = tasks.iter().map(|(times, _)| times.load(SeqCst)).collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        wait_until("each task has had the lock several times", async || {
            let mut all = tasks.iter().zip(&before);
            !has_quorum || all.all(|((times, _), before)| times.load(SeqCst) >= before + TIMES)
        })
        .await;
    }
    stop.store(true, SeqCst);
    for (_, task) in tasks {
        within("a task", task).await.unwrap();
    }
    history.holds()
}
