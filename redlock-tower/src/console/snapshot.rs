//! What the page shows, at one moment.

use std::time::Duration;

use redlock_core::{LockHandle, NodeHealth, NodeState, Redlock, Waiting};

/// The most rows of a table: a client may hold 100,000 locks.
pub const MAX_ROWS: usize = 200;

/// The locks, the requests and the nodes of one client. Long lists are cut, and counted before.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) nodes: Vec<Node>,
    pub(super) held: Vec<Held>,
    pub(super) held_count: usize,
    pub(super) waiting: Vec<Waiting>,
    pub(super) waiting_count: usize,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: String,
    /// How fast it answered, or why it did not.
    pub(super) answer: Result<Duration, String>,
    pub(super) sits_out: Option<Duration>,
    pub(super) pending_cleanups: usize,
    /// What an operator should change about it.
    pub(super) advice: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Held {
    /// The resources that the lock is for: several for a set.
    pub(super) resources: Vec<String>,
    pub(super) age: Duration,
    pub(super) validity: Duration,
    pub(super) votes: usize,
    pub(super) token: Option<u64>,
}

impl Snapshot {
    /// Asks every node whether it answers, and waits for all of them.
    pub(super) async fn take(redlock: &Redlock) -> Self {
        let nodes = redlock.health().await.into_iter().map(Node::of).collect();
        let held = redlock.held();
        let mut waiting = redlock.waiting();
        let (held_count, waiting_count) = (held.len(), waiting.len());
        waiting.truncate(MAX_ROWS);
        let held = held.iter().take(MAX_ROWS).map(Held::of).collect();
        Self { nodes, held, held_count, waiting, waiting_count }
    }

    /// How many nodes give votes on new locks.
    pub(super) fn votes(&self) -> usize {
        self.nodes.iter().filter(|node| node.gives_votes()).count()
    }

    /// How many votes a new lock takes.
    pub(super) fn quorum(&self) -> usize {
        self.nodes.len() / 2 + 1
    }
}

impl Node {
    fn of(health: NodeHealth) -> Self {
        let answer = match health.state {
            NodeState::Up { latency, .. } => Ok(latency),
            NodeState::Down { error, .. } => Err(error.reason.to_string()),
            _ => Err("unknown".to_owned()),
        };
        let NodeHealth { node, sits_out, pending_cleanups, advice, .. } = health;
        let advice = advice.iter().map(ToString::to_string).collect();
        Self { name: node.to_string(), answer, sits_out, pending_cleanups, advice }
    }

    pub(super) fn gives_votes(&self) -> bool {
        self.answer.is_ok() && self.sits_out.is_none()
    }
}

impl Held {
    fn of(lock: &LockHandle) -> Self {
        Self {
            resources: lock.resources().to_vec(),
            age: lock.age(),
            validity: lock.validity(),
            votes: lock.votes(),
            token: lock.fencing_token().map(redlock_core::FencingToken::get),
        }
    }
}
