//! The commands of a crowd gather while an earlier batch is in flight: one write for all of them.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::{
    sync::Semaphore,
    task::yield_now,
    time::{Instant, sleep},
};

use super::{
    Action, Claim, Job, KeySet, NodeHandle, NodeSpec, ReplyTo, deliver,
    intercepted::intercepted,
    lanes::{MAX_IN_BATCH, MIN_WATCHING},
};
use crate::{
    Redlock,
    quorum::{Round, names},
    sync::Mutex,
};

const MS: Duration = Duration::from_millis(1);

/// A node that holds its answers back until it is told to give them, and notes how many commands
/// came with each write.
struct Gated {
    writes: Arc<Mutex<Vec<usize>>>,
    answers: Arc<Semaphore>,
}

impl Gated {
    fn new() -> (Self, NodeSpec) {
        let writes = Arc::<Mutex<Vec<_>>>::default();
        let answers = Arc::new(Semaphore::new(0));
        let gate = Self { writes: Arc::clone(&writes), answers: Arc::clone(&answers) };
        let spec = intercepted("n", move |sender, _, commands| {
            writes.lock().push(commands.len());
            let (answered, open) = (sender.send(commands), Arc::clone(&answers));
            async move {
                let answers = answered.await;
                open.acquire().await.unwrap().forget();
                answers
            }
            .boxed()
        });
        (gate, spec)
    }

    /// Gives the answers to the two batches of a crowd.
    async fn answer(&self) {
        self.answers.add_permits(2);
        settle().await;
    }
}

/// A node without answers that has just sent a crowd: a batch of one job, and one of five.
async fn crowded() -> (Gated, Redlock, NodeHandle) {
    let (gate, spec) = Gated::new();
    let redlock = Redlock::builder().node_timeout(60_000 * MS).over(vec![spec]);
    assert!(redlock.health().await[0].is_up());
    let handle = redlock.client().nodes[0].clone();
    (0..6).for_each(|_| ask(&handle));
    settle().await;
    assert_eq!(*gate.writes.lock(), [1, 5]);
    (gate, redlock, handle)
}

/// A node that has answered the crowd just now, after 10 ms.
async fn crowded_far_away() -> (Gated, Redlock, NodeHandle) {
    let crowded = crowded().await;
    sleep(10 * MS).await;
    crowded.0.answer().await;
    crowded
}

fn ask(node: &NodeHandle) {
    submit(node, Action::Grant { ttl: 30_000 * MS });
}

fn submit(node: &NodeHandle, action: Action) {
    let claim = Arc::new(Claim::new(&"redlock:r".into(), "v".to_owned()));
    let round = Round::new(&names(1), |_| true);
    let job = Job::new(&claim, action);
    deliver(node.submit(job, ReplyTo::new(&round, 0), node.now()));
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
    gate.answer().await;
    assert_eq!(*gate.writes.lock(), [1, 5, 2]);
}

/// Watches leave room for grants.
#[tokio::test(start_paused = true)]
async fn a_grant_leaves_while_watches_wait_for_room() {
    let (gate, spec) = Gated::new();
    let redlock = Redlock::builder().node_timeout(60_000 * MS).over(vec![spec]);
    assert!(redlock.health().await[0].is_up());
    let handle = redlock.client().nodes[0].clone();
    for _ in 0..2 * MAX_IN_BATCH {
        submit(&handle, Action::Watch);
    }
    sleep(100 * MS).await;
    let watches: usize = gate.writes.lock().iter().sum();
    assert_eq!(watches, MAX_IN_BATCH, "the others wait");
    ask(&handle);
    sleep(100 * MS).await;
    let left = gate.writes.lock().iter().sum::<usize>() - watches;
    assert_eq!(left, 1 + MIN_WATCHING, "a few of the watches leave with it");
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
    let (gate, _redlock, handle) = crowded_far_away().await;
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
    submit(&handle, Action::Release { wakes: KeySet::NONE });
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
async fn a_crowd_gathers_until_a_batch_is_full_or_a_renewal_is_there() {
    let (_gate, _redlock, handle) = crowded().await;
    let gathered = || handle.shared().outbox.lock().lanes.gathered();
    submit(&handle, Action::Release { wakes: KeySet::NONE });
    for others in 1..MAX_IN_BATCH {
        assert_eq!(gathered(), Some(others));
        ask(&handle);
    }
    assert_eq!(gathered(), None);

    let (_gate, _redlock, handle) = crowded().await;
    submit(&handle, Action::Extend { ttl: MS });
    assert_eq!(handle.shared().outbox.lock().lanes.gathered(), None);
}

/// The node's task is woken by the first caller of a crowd, before the others have asked.
#[tokio::test(start_paused = true)]
async fn callers_that_are_about_to_ask_join_the_first() {
    let (gate, _redlock, handle) = crowded().await;
    gate.answer().await;
    ask(&handle);
    for _ in 0..3 {
        let handle = handle.clone();
        tokio::spawn(async move { ask(&handle) });
    }
    settle().await;
    assert_eq!(*gate.writes.lock(), [1, 5, 4]);
}

#[tokio::test(start_paused = true)]
async fn callers_that_were_answered_together_ask_together() {
    let (gate, _redlock, handle) = crowded_far_away().await;
    for _ in 0..2 {
        ask(&handle);
    }
    settle().await;
    assert_eq!(*gate.writes.lock(), [1, 5, 2]);
}
