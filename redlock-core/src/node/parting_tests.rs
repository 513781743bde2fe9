//! The end of a runtime, as the connection of a node sees it: what is left to write and to read.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt};
use tokio::runtime::{Builder, Runtime};

use super::{
    Action, Claim, CleanUp, Command, Connection, Connector, Job, KeySet, NodeSpec, Opened,
    Remaining, Reply, ReplyTo, Sender, Watchers, deliver,
};
use crate::{
    MemoryNode, NodeError, Redlock,
    clock::Moment,
    quorum::{Round, names},
};

/// A node whose earlier answers are all there at the look with this number. It counts the looks.
#[derive(Clone)]
struct Slow {
    node: MemoryNode,
    heard_at: Arc<AtomicUsize>,
    /// What is left to do before that.
    left: Remaining,
    looks: Arc<AtomicUsize>,
}

impl Slow {
    fn new(heard_at: usize, left: Remaining) -> Self {
        let heard_at = Arc::new(AtomicUsize::new(heard_at));
        Self { node: MemoryNode::new(), heard_at, left, looks: Arc::default() }
    }

    fn looks(&self) -> usize {
        self.looks.load(SeqCst)
    }
}

/// Its connection, or what sends on it.
struct To<T> {
    inner: T,
    slow: Slow,
}

impl Connector for Slow {
    fn connect(&self, watchers: &Arc<Watchers>) -> BoxFuture<'_, Result<Opened, NodeError>> {
        let watchers = Arc::clone(watchers);
        async move {
            let (inner, identity) = self.node.connect(&watchers).await?;
            let connection: Box<dyn Connection> = Box::new(To { inner, slow: self.clone() });
            Ok((connection, identity))
        }
        .boxed()
    }
}

impl Connection for To<Box<dyn Connection>> {
    fn sender(&self) -> Arc<dyn Sender> {
        Arc::new(To { inner: self.inner.sender(), slow: self.slow.clone() })
    }

    fn has_pushes(&self) -> bool {
        self.inner.has_pushes()
    }

    fn ping(&mut self) -> BoxFuture<'static, Result<(), NodeError>> {
        self.inner.ping()
    }

    fn closed(&mut self) -> BoxFuture<'static, NodeError> {
        self.inner.closed()
    }
}

impl Sender for To<Arc<dyn Sender>> {
    fn send(&self, commands: Vec<Command>) -> BoxFuture<'static, Vec<Result<Reply, NodeError>>> {
        self.inner.send(commands)
    }

    fn carry_last(&self) -> Remaining {
        let looks = self.slow.looks.fetch_add(1, SeqCst) + 1;
        if looks < self.slow.heard_at.load(SeqCst) { self.slow.left } else { Remaining::Nothing }
    }

    fn wakes_reader(&self) -> bool {
        self.inner.wakes_reader()
    }
}

/// A client of this node.
fn client(slow: &Slow) -> Redlock {
    let spec = NodeSpec { name: "n".into(), connector: Arc::new(slow.clone()) };
    Redlock::builder().over(vec![spec])
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// How often a runtime that ends looks, where the answers are there at this look.
fn looks(heard_at: usize) -> usize {
    let slow = Slow::new(heard_at, Remaining::Answers);
    let (redlock, runtime) = (client(&slow), runtime());
    runtime.block_on(async { drop(redlock.lock("r").await.unwrap()) });
    assert_eq!(slow.looks(), 0, "the runtime goes on");
    drop(runtime);
    slow.looks()
}

/// Rule 12: a connection that closes before that may undo the last deletes. The second look is that of the task's end,
/// after which its connection is left alone.
#[test]
fn a_runtime_ends_once_its_nodes_have_answered() {
    assert_eq!(looks(1), 2);
    assert_eq!(looks(3), 4);
}

#[test]
fn a_runtime_ends_without_the_answers_of_a_node_that_hangs() {
    assert!(looks(usize::MAX) > 1);
}

/// A socket may take less than is written.
#[test]
fn a_guard_that_is_dropped_after_its_runtime_waits_until_its_delete_is_written() {
    let slow = Slow::new(0, Remaining::Commands);
    let (redlock, runtime) = (client(&slow), runtime());
    let [first, second, third] = runtime.block_on(async {
        let lock = async |resource| redlock.lock(resource).await.unwrap();
        [lock("r").await, lock("s").await, lock("t").await]
    });
    drop(runtime);
    let at_the_end = slow.looks();
    slow.heard_at.store(at_the_end + 3, SeqCst);
    drop(first);
    assert_eq!(slow.looks(), at_the_end + 3);
    // The socket takes nothing more: that is waited for once.
    slow.heard_at.store(usize::MAX, SeqCst);
    drop(second);
    let looks = slow.looks();
    assert!(looks > at_the_end + 4);
    drop(third);
    assert_eq!(slow.looks(), looks + 1);
}

#[test]
fn a_guard_that_is_dropped_after_its_runtime_waits_for_no_answer() {
    let slow = Slow::new(0, Remaining::Answers);
    let (redlock, runtime) = (client(&slow), runtime());
    let guard = runtime.block_on(async { redlock.lock("r").await.unwrap() });
    drop(runtime);
    let looks = slow.looks();
    slow.heard_at.store(usize::MAX, SeqCst);
    drop(guard);
    assert_eq!(slow.looks(), looks + 1);
}

/// Whatever has to be read at the end of a runtime: it is waited for once.
#[test]
fn the_time_for_the_last_answers_of_a_node_is_set_once() {
    let slow = Slow::new(0, Remaining::Nothing);
    let (redlock, runtime) = (client(&slow), runtime());
    runtime.block_on(async { drop(redlock.lock("r").await.unwrap()) });
    drop(runtime);
    let pipe = &redlock.client().nodes[0].shared().pipe;
    let until = |rest, limit| pipe.lock().parting(rest, Duration::from_secs(limit)).unwrap().1;
    assert_eq!(until(Remaining::Nothing, 1000), until(Remaining::Nothing, 2000));
    assert!(until(Remaining::Nothing, 1000) < until(Remaining::Answers, 1000));
}

/// A renewal is sent under the lock of its hold, and what is answered may take that lock.
#[test]
fn what_is_sent_to_a_node_whose_task_has_ended_answers_nothing_before_it_is_delivered() {
    let slow = Slow::new(0, Remaining::Answers);
    let (redlock, first) = (client(&slow), runtime());
    first.block_on(async { drop(redlock.lock("warm").await.unwrap()) });
    drop(first);
    let node = redlock.client().nodes[0].clone();
    let claim = Arc::new(Claim::new(&"redlock:r".into(), "v".to_owned()));
    let (since, until) = (Moment::ORIGIN, node.now() + Duration::from_secs(60));
    let clean_up = CleanUp { since, until, keep_until: since, may_be_there: true, repeated: false };
    let wakes = KeySet::NONE;
    let delete = Job::cleaning(&claim, Action::Release { wakes }, clean_up);
    let extend = Job::new(&claim, Action::Extend { ttl: Duration::from_secs(30) });
    for (job, answers) in [(extend, 0), (delete, 1)] {
        let round = Round::new(&names(1), |_| false);
        // Not in a runtime: no task is started.
        let early = node.submit(job, ReplyTo::new(&round, 0), node.now());
        assert!(round.failures().is_empty(), "it was told under the lock of its caller");
        deliver(early);
        assert_eq!(round.failures().len(), answers);
    }
    runtime().block_on(async {
        let extend = Job::new(&claim, Action::Extend { ttl: Duration::from_secs(30) });
        let round = Round::new(&names(1), |_| false);
        deliver(node.submit(extend, ReplyTo::new(&round, 0), node.now()));
        assert!(!node.is_running(), "the scheduler of the hold starts it");
    });
}
