//! No two owners ever hold one lock at once: tasks, clients and processes contend for a lock while
//! its nodes are disturbed, and a checker reads their records.

use std::{
    collections::BTreeSet,
    io::Read,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redlock_core::{LockError, Redlock};
use redlock_tests::{
    Nodes, Server,
    history::{self, History, Hold},
    wait_until, within,
};

const RESOURCE: &str = "contended";

/// A process that takes and releases the lock until its standard input ends, and then prints its
/// holds.
fn contender(owner: &str, nodes: &Nodes) -> Child {
    Command::new(env!("CARGO_BIN_EXE_redlock-process"))
        .args(["contend", owner, RESOURCE])
        .args(nodes.urls())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Ends the process and adds what it printed.
async fn collect(mut process: Child, history: &History) {
    drop(process.stdin.take());
    let output = tokio::task::spawn_blocking(move || {
        let mut lines = String::new();
        process.stdout.take().unwrap().read_to_string(&mut lines).unwrap();
        assert!(process.wait().unwrap().success());
        lines
    });
    for line in within("a contender", output).await.unwrap().lines() {
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

/// Takes and releases the lock until told to stop.
async fn contend(client: Redlock, owner: String, stop: Arc<AtomicBool>, history: History) {
    let mut drops = false;
    while !stop.load(Ordering::Relaxed) {
        match client.lock(RESOURCE).await {
            Ok(guard) => {
                let mut recording = history.begin(RESOURCE, &owner);
                tokio::time::sleep(Duration::from_millis(1)).await;
                recording.confirm(|| guard.is_valid());
                drop(recording);
                // Both ways of ending a hold. What the nodes say to it does not matter here.
                drops = !drops;
                if !drops {
                    let _ = guard.release().await;
                }
            }
            // Expected while nodes are disturbed and others want the lock too.
            Err(LockError::Held { .. } | LockError::NoQuorum { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Waits until the lock was held 20 times more, and by every task at least once so far.
async fn more(when: &str, history: &History, tasks: usize) {
    let before = history.holds().len();
    wait_until(&format!("the lock was held {when}"), async || {
        let holds = history.holds();
        let owners: BTreeSet<_> = holds.iter().map(|hold| &hold.owner).collect();
        holds.len() >= before + 20 && owners.len() == tasks
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_owners_hold_one_lock_at_once() {
    // Nodes that keep what they promised. A node that forgets may let two clients in, which no
    // client can prevent before it knows that the node restarted.
    let nodes = Nodes::start_as(5, &Server::builder().append_only());
    let history = History::new();
    let stop = Arc::new(AtomicBool::new(false));
    let processes: Vec<_> = ["process-0", "process-1"].map(|owner| contender(owner, &nodes)).into();
    let mut tasks = Vec::new();
    for client in 0..2 {
        let redlock = eager(&nodes);
        for task in 0..2 {
            let owner = format!("client-{client}-task-{task}");
            let contend = contend(redlock.clone(), owner, Arc::clone(&stop), history.clone());
            tasks.push(tokio::spawn(contend));
        }
    }

    // One node dies and comes back, another hangs and goes on, while they contend.
    let in_process = tasks.len();
    more("by all", &history, in_process).await;
    nodes[0].kill();
    more("without one node", &history, in_process).await;
    nodes[0].start_again();
    nodes[1].pause();
    more("while a node hung", &history, in_process).await;
    nodes[1].resume();
    more("by all again", &history, in_process).await;

    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        within("a task", task).await.unwrap();
    }
    for process in processes {
        let before = history.holds().len();
        collect(process, &history).await;
        assert!(history.holds().len() > before, "a process never got the lock");
    }
    history.assert_exclusive();
    wait_until("no key is left", async || nodes.are_empty()).await;
}

#[tokio::test]
async fn the_checker_catches_a_lock_that_excludes_nothing() {
    // Two clients that share no node do not exclude each other.
    let history = History::new();
    let (a, b) = (Nodes::start(1), Nodes::start(1));
    let a = a.client().build().unwrap().lock(RESOURCE).await;
    let b = b.client().build().unwrap().lock(RESOURCE).await;
    let mut recordings = [history.begin(RESOURCE, "a"), history.begin(RESOURCE, "b")];
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(recordings[0].confirm(|| a.is_ok_and(|guard| guard.is_valid())));
    assert!(recordings[1].confirm(|| b.is_ok_and(|guard| guard.is_valid())));
    drop(recordings);
    let holds = history.holds();
    assert_eq!(history::overlaps(&holds).len(), 1);
}
