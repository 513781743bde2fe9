//! Nobody ever holds what somebody else holds: tasks, clients and processes contend for one lock
//! while its nodes are disturbed, and a checker reads what they did.

use std::{
    io::Read,
    process::{Child, Command, Stdio},
    time::Duration,
};

use redlock_core::{LockError, Redlock};
use redlock_tests::{
    LIMIT, Nodes, Server,
    history::{History, Hold},
    wait_until,
};

const RESOURCE: &str = "contended";

/// A process that takes and releases the lock, and prints its holds at the end.
fn contender(owner: &str, rounds: usize, nodes: &Nodes) -> Child {
    Command::new(env!("CARGO_BIN_EXE_redlock-process"))
        .args(["contend", owner, RESOURCE, &rounds.to_string()])
        .args(nodes.urls())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for the process and adds what it printed.
async fn collect(mut process: Child, history: &History) {
    wait_until("a contender has ended", async || process.try_wait().unwrap().is_some()).await;
    assert!(process.wait().unwrap().success());
    let mut lines = String::new();
    process.stdout.take().unwrap().read_to_string(&mut lines).unwrap();
    for line in lines.lines() {
        history.add(line.parse::<Hold>().unwrap());
    }
}

/// A client that asks often, and whose keys do not outlast the test.
fn eager(nodes: &Nodes) -> Redlock {
    nodes
        .client()
        .node_timeout(Duration::from_millis(500))
        .ttl(Duration::from_secs(2))
        .retry_delay(Duration::from_millis(5))
        .retry_jitter(Duration::from_millis(20))
        .build()
        .unwrap()
}

/// Takes and releases the lock this often, and says how often it got it.
async fn contend(client: Redlock, owner: String, rounds: usize, history: History) -> usize {
    let mut held = 0;
    for round in 0..rounds {
        match client.lock(RESOURCE).await {
            Ok(guard) => {
                held += 1;
                let mut recording = history.begin(RESOURCE, &owner);
                tokio::time::sleep(Duration::from_millis(1)).await;
                recording.confirm(|| guard.is_valid());
                drop(recording);
                // Both ways of ending a hold.
                if round % 2 == 0 {
                    let _ = guard.release().await;
                }
            }
            Err(LockError::Held { .. } | LockError::NoQuorum { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    held
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_holds_what_somebody_else_holds() {
    // Nodes that keep what they promised: one that forgets may let two in, which no client can
    // help before it knows that the node restarted.
    let nodes = Nodes::start_as(5, &Server::builder().append_only());
    let history = History::new();
    let processes: Vec<_> =
        (0..2).map(|i| contender(&format!("process-{i}"), 25, &nodes)).collect();
    let mut tasks = Vec::new();
    for client in 0..2 {
        let redlock = eager(&nodes);
        for task in 0..2 {
            let owner = format!("client-{client}-task-{task}");
            tasks.push(tokio::spawn(contend(redlock.clone(), owner, 25, history.clone())));
        }
    }

    // One node dies and comes back, another hangs and goes on, while they contend.
    let so_far = || history.holds().len();
    wait_until("the lock was held", async || so_far() > 5).await;
    nodes[0].kill();
    let before = so_far();
    wait_until("the lock was held without one node", async || so_far() > before + 5).await;
    nodes[0].start_again();
    nodes[1].pause();
    let before = so_far();
    wait_until("the lock was held while a node hung", async || so_far() > before + 5).await;
    nodes[1].resume();

    for task in tasks {
        let held = tokio::time::timeout(LIMIT * 2, task).await.unwrap().unwrap();
        assert!(held > 0, "a contender never got the lock");
    }
    for process in processes {
        collect(process, &history).await;
    }
    let holds = history.assert_exclusive();
    assert!(holds > 50, "only {holds} holds: nothing was put to the test");
    wait_until("no key is left", async || nodes.are_empty()).await;
}

#[tokio::test]
async fn the_checker_catches_a_lock_that_is_none() {
    // Two clients that share no node exclude nobody.
    let history = History::new();
    let (a, b) = (Nodes::start(1), Nodes::start(1));
    let a = a.client().build().unwrap().lock(RESOURCE).await;
    let b = b.client().build().unwrap().lock(RESOURCE).await;
    let mut recordings = [history.begin(RESOURCE, "a"), history.begin(RESOURCE, "b")];
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(recordings[0].confirm(|| a.is_ok_and(|guard| guard.is_valid())));
    assert!(recordings[1].confirm(|| b.is_ok_and(|guard| guard.is_valid())));
    drop(recordings);
    assert_eq!(redlock_tests::history::overlaps(&history.holds()).len(), 1);
}
