//! The commands of a crowd gather while an earlier batch is in flight: one write for all of them.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    sync::Semaphore,
    task::yield_now,
    time::{Instant, sleep},
};

use super::{
    Action, Claim, Command, Connection, Connector, Job, NodeHandle, NodeSpec, Opened, Places,
    Reply, ReplyTo, Sender, Watchers, deliver, lanes::MAX_IN_BATCH,
};
use crate::{MemoryNode, NodeError, Redlock, quorum::Round};

const MS: Duration = Duration::from_millis(1);

/// A node that holds its answers back until it is told to give them, and notes how many commands
/// came with each write.
#[derive(Clone)]
struct Gated {
    node: MemoryNode,
    writes: Arc<Mutex<Vec<usize>>>,
    answers: Arc<Semaphore>,
}

struct GatedConnection {
    inner: Box<dyn Connection>,
    gate: Gated,
}

struct GatedSender {
    inner: Arc<dyn Sender>,
    gate: Gated,
}

impl Connector for Gated {
    fn connect(&self, watchers: &Arc<Watchers>) -> BoxFuture<'_, Result<Opened, NodeError>> {
        let watchers = Arc::clone(watchers);
        Box::pin(async move {
            let (inner, identity) = self.node.connect(&watchers).await?;
            let connection: Box<dyn Connection> =
                Box::new(GatedConnection { inner, gate: self.clone() });
            Ok((connection, identity))
        })
    }
}

impl Connection for GatedConnection {
    fn sender(&self) -> Arc<dyn Sender> {
        Arc::new(GatedSender { inner: self.inner.sender(), gate: self.gate.clone() })
    }

    fn tells(&self) -> bool {
        self.inner.tells()
    }

    fn ping(&mut self) -> BoxFuture<'static, Result<(), NodeError>> {
        self.inner.ping()
    }

    fn closed(&mut self) -> BoxFuture<'static, NodeError> {
        self.inner.closed()
    }
}

impl Sender for GatedSender {
    fn send(&self, commands: Vec<Command>) -> BoxFuture<'static, Vec<Result<Reply, NodeError>>> {
        self.gate.writes.lock().push(commands.len());
        let (answers, open) = (self.inner.send(commands), Arc::clone(&self.gate.answers));
        Box::pin(async move {
            let answers = answers.await;
            open.acquire().await.unwrap().forget();
            answers
        })
    }

    fn wakes_reader(&self) -> bool {
        false
    }
}

/// A node without answers that has just sent a crowd: a batch of one job, and one of five.
async fn crowded() -> (Gated, Redlock, NodeHandle) {
    let gate = Gated {
        node: MemoryNode::new(),
        writes: Arc::default(),
        answers: Arc::new(Semaphore::new(0)),
    };
    let spec = NodeSpec { name: "n".into(), connector: Arc::new(gate.clone()) };
    let redlock = Redlock::builder().node_timeout(60_000 * MS).over(vec![spec]);
    assert!(redlock.health().await[0].is_up());
    let handle = redlock.client().nodes[0].clone();
    (0..6).for_each(|_| ask(&handle));
    settle().await;
    assert_eq!(*gate.writes.lock(), [1, 5]);
    (gate, redlock, handle)
}

fn ask(node: &NodeHandle) {
    submit(node, Action::Grant { ttl: 30_000 * MS });
}

fn submit(node: &NodeHandle, action: Action) {
    let claim = Arc::new(Claim::new(&"redlock:r".into(), "v".to_owned()));
    let round = Round::new(1, |_| true);
    let job = Job::new(&claim, action);
    deliver(node.submit(job, ReplyTo::new(&round, 0, node.name()), node.now()));
}

/// Lets all tasks run that can, at this moment.
async fn settle() {
    let begun = Instant::now();
    for _ in 0..100 {
        yield_now().await;
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_commands_of_a_crowd_leave_together_when_the_batch_before_them_is_answered() {
    let (gate, _redlock, handle) = crowded().await;
    ask(&handle);
    settle().await;
    ask(&handle);
    settle().await;
    assert_eq!(gate.writes.lock().len(), 2, "two batches are in flight");
    gate.answers.add_permits(2);
    settle().await;
    assert_eq!(*gate.writes.lock(), [1, 5, 2]);
}

/// A node that hangs would hold up commands that it may answer after all.
#[tokio::test(start_paused = true)]
async fn no_command_waits_long_for_others() {
    let (gate, _redlock, handle) = crowded().await;
    ask(&handle);
    settle().await;
    ask(&handle);
    sleep(2 * MS).await;
    assert_eq!(*gate.writes.lock(), [1, 5, 2]);
}

#[tokio::test(start_paused = true)]
async fn commands_to_a_node_that_is_far_away_do_not_wait_for_others() {
    let (gate, _redlock, handle) = crowded().await;
    sleep(10 * MS).await;
    gate.answers.add_permits(2);
    settle().await;
    for _ in 0..2 {
        ask(&handle);
        settle().await;
    }
    assert_eq!(*gate.writes.lock(), [1, 5, 1, 1], "it has answered a crowd just now");
}

#[tokio::test(start_paused = true)]
async fn commands_do_not_wait_for_a_crowd_that_has_gone() {
    let (gate, _redlock, handle) = crowded().await;
    gate.answers.add_permits(2);
    sleep(10 * MS).await;
    for _ in 0..2 {
        ask(&handle);
        settle().await;
    }
    assert_eq!(*gate.writes.lock(), [1, 5, 1, 1]);
}

/// The turn of the next client may be on its way to it from another node.
#[tokio::test(start_paused = true)]
async fn a_delete_does_not_wait_for_others_and_takes_along_those_that_do() {
    let (gate, _redlock, handle) = crowded().await;
    ask(&handle);
    settle().await;
    assert_eq!(gate.writes.lock().len(), 2);
    submit(&handle, Action::Release { wakes: Places::NONE });
    settle().await;
    assert_eq!(*gate.writes.lock(), [1, 5, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_full_leaves() {
    let (gate, _redlock, handle) = crowded().await;
    (1..MAX_IN_BATCH).for_each(|_| ask(&handle));
    settle().await;
    assert_eq!(gate.writes.lock().len(), 2);
    ask(&handle);
    settle().await;
    assert_eq!(*gate.writes.lock(), [1, 5, MAX_IN_BATCH]);
}

#[tokio::test(start_paused = true)]
async fn callers_that_were_answered_together_ask_together() {
    let (gate, _redlock, handle) = crowded().await;
    sleep(10 * MS).await;
    gate.answers.add_permits(2);
    settle().await;
    for _ in 0..2 {
        ask(&handle);
    }
    settle().await;
    assert_eq!(*gate.writes.lock(), [1, 5, 2]);
}
