//! The barrier of a writer that waits for readers: new readers wait behind it.
//!
//! Without it, readers that come one after the other would keep a writer out for ever. Only the first
//! waiter of the queue raises it, and it stands only where a node has readers. A writer that was refused in its turn
//! raises it on all nodes: readers that come between two other writers would take each of its turns. It names the place
//! of the writer in the queue: a reader that is before the writer there gets the lock all the same, or the two would
//! wait for each other. It expires by itself, so a writer that crashed holds readers up for a few seconds.

use std::{
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{AcqRel, Acquire, Release},
        },
    },
    time::Duration,
};

use crate::{
    clock::Moment,
    error::NodeError,
    node::{Action, Claim, Job, Reply, ReplySink, deliver},
    quorum::{Nodes, ask},
    wait::REFRESH,
};

/// How long a barrier counts if it is not repeated, on the clock of its node.
const LIFE: Duration = Duration::from_secs(5);

/// The barriers of one writer. A set has one before each key that it had to wait for. It renews the one before
/// the key that it waits for now. The others count until they expire: readers that came there in the meantime would hold the set up
/// when it has its turn before the last key.
#[derive(Default)]
pub(super) struct Barriers(Vec<Barrier>);

impl Barriers {
    /// Raises the barrier before this key once more, if it is time, and there are readers or `may_have_come`.
    pub(super) fn keep_up(&mut self, key: &str, may_have_come: bool, now: Moment) {
        self.0
            .iter_mut()
            .filter(|it| it.is_before(key))
            .for_each(|it| it.keep_up(may_have_come, now));
    }

    /// Lowers the barrier before this key.
    pub(super) fn lower(&mut self, key: &str) {
        self.0.retain(|it| !it.is_before(key));
    }

    /// The barrier at this place of the queue before this key. One at another place is lowered.
    pub(super) fn at(&mut self, key: &str, place: u64) -> Option<&mut Barrier> {
        self.0.retain(|it| !it.is_before(key) || it.claim.place == place);
        self.0.iter_mut().find(|it| it.is_before(key))
    }

    pub(super) fn add(&mut self, barrier: Barrier) {
        self.0.push(barrier);
    }
}

/// A barrier on all nodes. Dropping this lowers it.
pub(super) struct Barrier {
    nodes: Arc<Nodes>,
    claim: Arc<Claim>,
    answers: Arc<Answers>,
    raised: Moment,
}

#[derive(Default)]
struct Answers {
    awaited: AtomicUsize,
    /// A node has the barrier, or may have it, since it was raised last.
    is_up: AtomicBool,
    /// A node may have the barrier, since it was raised last or from an earlier time.
    may_stand: AtomicBool,
}

impl ReplySink for Answers {
    fn receive(self: Arc<Self>, _: usize, result: Result<Reply, NodeError>) {
        // A node that has failed may have the barrier all the same.
        if !matches!(result, Ok(Reply::Missing)) {
            self.is_up.store(true, Release);
            self.may_stand.store(true, Release);
        }
        self.awaited.fetch_sub(1, AcqRel);
    }
}

impl Barrier {
    /// Raises the barrier of the writer at this place of the queue before this key, under a `value` that no
    /// other writer has.
    pub(super) fn raise(
        nodes: &Arc<Nodes>,
        key: &Arc<str>,
        place: u64,
        value: String,
        insists: bool,
    ) -> Self {
        let raised = nodes.clock.now();
        let claim = Arc::new(Claim { place, ..Claim::new(key, value) });
        let (nodes, answers) = (Arc::clone(nodes), Arc::default());
        let barrier = Self { nodes, claim, answers, raised };
        barrier.ask(Action::RaiseBarrier { life: LIFE, insists });
        barrier
    }

    fn is_before(&self, key: &str) -> bool {
        *self.claim.key == *key
    }

    fn keep_up(&mut self, may_have_come: bool, now: Moment) {
        let has_reason = may_have_come || self.answers.is_up.load(Acquire);
        if has_reason && now.since(self.raised) >= REFRESH {
            self.raise_again(false, now);
        }
    }

    /// Raises it once more, if it stood nowhere the last time, or the writer insists. Readers may have come as the
    /// lock was free for a moment.
    pub(super) fn repeat(&mut self, insists: bool, now: Moment) {
        if insists || !self.answers.is_up.load(Acquire) {
            self.raise_again(insists, now);
        }
    }

    fn raise_again(&mut self, insists: bool, now: Moment) {
        self.raised = now;
        self.answers.is_up.store(false, Release);
        self.ask(Action::RaiseBarrier { life: LIFE, insists });
    }

    fn ask(&self, action: Action) {
        let Self { nodes, claim, answers, .. } = self;
        answers.awaited.fetch_add(nodes.len(), AcqRel);
        let job = Job::new(claim, action);
        deliver(ask(nodes, answers, nodes.clock.now(), |_| Some(Arc::clone(&job))));
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        if self.answers.may_stand.load(Acquire) || self.answers.awaited.load(Acquire) > 0 {
            self.ask(Action::LowerBarrier);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::IntoFuture, pin::pin};

    use tokio::time::{Instant, sleep, timeout};

    use super::*;
    use crate::{
        Redlock, Restarts,
        node::{Command, intercepted::silent},
        op::acquire::{
            retries::Chance,
            testing::{first_request, terms},
            wait_terms::Pause,
        },
        options::LockOptions,
        testing::nodes,
        wait::FailedAttempt,
    };

    const SECOND: Duration = Duration::from_secs(1);
    const MINUTE: Duration = Duration::from_secs(60);

    /// Two of three nodes give the writer no vote, and would raise its barrier all the same.
    #[tokio::test(start_paused = true)]
    async fn a_writer_without_a_quorum_bars_no_readers() {
        let nodes = nodes(3);
        let client = || Redlock::builder().nodes(&nodes).wait(MINUTE).build().unwrap();
        let writer = client();
        drop(writer.lock("warm").await.unwrap());
        for node in &nodes[..2] {
            node.restart_empty();
            sleep(SECOND).await;
        }
        let reader = client();
        let _reads = reader.lock("r").shared().await.unwrap();
        let writes = tokio::spawn(writer.lock("r").wait(20 * SECOND).into_future());
        for _ in 0..50 {
            sleep(SECOND / 5).await;
            drop(reader.try_lock("r").shared().await.unwrap());
        }
        assert!(writes.await.unwrap().unwrap_err().is_unavailable());
    }

    #[tokio::test(start_paused = true)]
    async fn a_writer_that_loses_its_quorum_lowers_its_barrier() {
        let nodes = nodes(3);
        let client = || Redlock::builder().nodes(&nodes).wait(MINUTE).build().unwrap();
        let (writer, before) = (client(), client());
        let reads = before.lock("r").shared().await.unwrap();
        let writes = tokio::spawn(writer.lock("r").wait(40 * SECOND).into_future());
        sleep(SECOND).await;
        assert!(before.try_lock("r").shared().await.is_err(), "there is a barrier");
        for node in &nodes[..2] {
            node.restart_empty();
            sleep(SECOND).await;
        }
        sleep(6 * SECOND).await;
        let reader = client();
        let _reads = reader.lock("r").shared().await.unwrap();
        drop(reads);
        for _ in 0..50 {
            sleep(SECOND / 5).await;
            drop(reader.try_lock("r").shared().await.unwrap());
        }
        assert!(writes.await.unwrap().unwrap_err().is_unavailable());
    }

    /// It has no place in the queue, and lowers what it has raised when its short `wait` is over.
    #[tokio::test(start_paused = true)]
    async fn a_writer_that_hardly_waits_leaves_the_barrier_of_another_one_alone() {
        let nodes = nodes(5);
        nodes.iter().for_each(|node| node.slow(SECOND / 200));
        let client = || Redlock::builder().nodes(&nodes).wait(MINUTE).build().unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..6 {
            let reader = client();
            tasks.spawn(async move {
                for turn in number.. {
                    let _reads = reader.lock("r").shared().await.unwrap();
                    sleep(Duration::from_millis(100 + turn * 7919 % 200)).await;
                }
            });
        }
        let raised = Arc::new(AtomicUsize::new(0));
        for number in 0..2 {
            let seen = nodes.iter().map(|node| {
                let raised = Arc::clone(&raised);
                silent(node.name(), node, move |commands| {
                    let raises = |it: &&Command| matches!(it.action, Action::RaiseBarrier { .. });
                    raised.fetch_add(commands.iter().filter(raises).count(), AcqRel);
                })
            });
            let hardly_waits = Redlock::builder().wait(MINUTE).over(seen.collect());
            drop(hardly_waits.lock("warm").await.unwrap());
            tasks.spawn(async move {
                for turn in number.. {
                    drop(hardly_waits.lock("r").wait(SECOND / 200).await);
                    sleep(Duration::from_millis(1 + turn * 7919 % 60)).await;
                }
            });
        }
        let writer = client();
        drop(writer.lock("warm").await.unwrap());
        sleep(SECOND).await;
        for _ in 0..10 {
            let begun = Instant::now();
            drop(writer.lock("r").await.unwrap());
            assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
            sleep(SECOND / 3).await;
        }
        assert!(tasks.try_join_next().is_none());
        assert_eq!(raised.load(Acquire), 0, "it would keep the readers out that are before it");
    }

    /// The readers behind it must not overtake it because its connection was away for a moment.
    #[tokio::test(start_paused = true)]
    async fn a_writer_whose_connection_is_lost_keeps_its_place_and_its_barrier() {
        let nodes = nodes(1);
        let clients = [(); 3].map(|()| {
            let builder = Redlock::builder().nodes(&nodes).ttl(9 * SECOND);
            builder.wait(10 * MINUTE).restarts(Restarts::Trusted).build().unwrap()
        });
        for client in &clients {
            drop(client.lock("warm").await.unwrap());
        }
        let [holder, reader, writer] = &clients;
        let _reading = holder.lock("r").shared().await.unwrap();
        let mut writes = pin!(writer.lock("r").into_future());
        assert!(timeout(SECOND, &mut writes).await.is_err());
        let reads = tokio::spawn(reader.lock("r").shared().into_future());
        assert!(timeout(SECOND, &mut writes).await.is_err());
        assert!(!reads.is_finished(), "it waits behind the writer");
        nodes[0].stop();
        assert!(timeout(Duration::from_millis(1), &mut writes).await.is_err());
        nodes[0].start();
        // The writer comes back later than the reader.
        sleep(SECOND).await;
        assert!(!reads.is_finished(), "it waits because of the barrier");
        // A barrier that no writer keeps up counts for five seconds.
        assert!(timeout(20 * SECOND, &mut writes).await.is_err());
        assert!(!reads.is_finished());
    }

    /// No node took it into the queue at first, so that its barrier is before all readers.
    #[tokio::test(start_paused = true)]
    async fn a_writer_that_joins_the_queue_late_does_not_bar_the_readers_that_are_before_it() {
        let nodes = nodes(3);
        let [holder, reader, writer] =
            [(); 3].map(|()| Redlock::builder().nodes(&nodes).wait(MINUTE).build().unwrap());
        for client in [&reader, &writer] {
            drop(client.lock("warm").await.unwrap());
        }
        let _reading = holder.lock("r").shared().await.unwrap();
        let client = writer.client();
        let terms = terms(client, &LockOptions::new());
        let (mut request, mut front) = first_request(client, &terms);
        let key = Arc::clone(&request.key);
        let barrier = Barrier::raise(&client.nodes, &key, 0, "writer".to_owned(), false);
        request.barriers.get_or_insert_default().add(barrier);
        let reads = tokio::spawn(reader.lock("r").shared().into_future());
        sleep(SECOND).await;
        assert!(!reads.is_finished(), "there is a barrier");
        let refused = FailedAttempt::full();
        let begun = request.now();
        let pause = Pause { begun, end: begun + MINUTE, failure: Some(&refused), last: None };
        let waits = request.chance(&mut front, pause);
        // The reader passes its turn on to the writer.
        assert_eq!(timeout(3 * SECOND, waits).await.unwrap().unwrap(), Chance::Turn);
        assert!(reads.is_finished());
    }

    /// A task takes over the place of the task before it, and what that followed.
    #[tokio::test(start_paused = true)]
    async fn a_writer_behind_a_writer_that_gave_up_has_new_readers_wait() {
        let nodes = nodes(3);
        let [holder, reader, writer] =
            [(); 3].map(|()| Redlock::builder().nodes(&nodes).wait(MINUTE).build().unwrap());
        let _reading = holder.lock("r").shared().await.unwrap();
        let gives_up = tokio::spawn(writer.lock("r").wait(30 * SECOND).into_future());
        sleep(SECOND).await;
        let _writes = tokio::spawn(writer.lock("r").into_future());
        gives_up.await.unwrap().unwrap_err();
        for _ in 0..5 {
            sleep(SECOND).await;
            reader.lock("r").shared().wait(Duration::ZERO).await.unwrap_err();
        }
    }

    /// It stood once, and then found no readers for longer than it counts.
    #[tokio::test(start_paused = true)]
    async fn a_barrier_that_has_expired_is_raised_again() {
        let nodes = nodes(3);
        let [reader, writer, other] =
            [(); 3].map(|()| Redlock::builder().nodes(&nodes).wait(MINUTE).build().unwrap());
        drop(writer.lock("warm").await.unwrap());
        let is_kept_out = async || {
            sleep(Duration::from_millis(1)).await;
            other.try_lock("r").shared().await.is_err()
        };
        let reading = reader.lock("r").shared().await.unwrap();
        let all = &writer.client().nodes;
        let mut barrier = Barrier::raise(all, &"redlock:r".into(), 0, "writer".to_owned(), false);
        assert!(is_kept_out().await);
        reading.release().await.unwrap();
        for _ in 0..10 {
            sleep(SECOND).await;
            barrier.keep_up(false, all.clock.now());
        }
        let _reading = reader.lock("r").shared().await.unwrap();
        barrier.repeat(false, all.clock.now());
        assert!(is_kept_out().await);
        drop(barrier);
        assert!(!is_kept_out().await);
    }

    /// The barrier was raised when there were no readers.
    #[tokio::test(start_paused = true)]
    async fn a_writer_bars_readers_that_came_as_the_lock_was_free_for_a_moment() {
        let nodes = nodes(3);
        nodes.iter().for_each(|node| node.slow(Duration::from_millis(1)));
        let [holder, reader, writer] =
            [(); 3].map(|()| Redlock::builder().nodes(&nodes).wait(MINUTE).build().unwrap());
        drop(reader.lock("warm").await.unwrap());
        let _held = holder.lock("r").await.unwrap();
        let writes = tokio::spawn(writer.lock("r").into_future());
        sleep(SECOND).await;
        nodes.iter().for_each(|node| assert!(node.remove("redlock:r")));
        let _reading = reader.lock("r").shared().await.unwrap();
        sleep(SECOND).await;
        assert!(!writes.is_finished());
        for _ in 0..5 {
            sleep(SECOND).await;
            reader.lock("r").shared().wait(Duration::ZERO).await.unwrap_err();
        }
    }
}
