//! The promises of a node's task, over nodes in memory on paused time.

use std::{future::IntoFuture, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::time::{Instant, sleep};

use super::{
    Action, Claim, Connector, Job, NodeHandle, NodeSpec, NodeState, Opened, ReplyTo, Watchers,
    deliver,
    ending_by::ending_by,
    recorder::{Note, Recorder},
};
use crate::{
    LockError, MemoryNode, NodeError, NodeErrorKind, Redlock, Restarts,
    clock::Moment,
    error::Cause,
    quorum::{Round, names},
    sync::Mutex,
    testing::nodes,
};

const MS: Duration = Duration::from_millis(1);

fn trusting(nodes: &[MemoryNode]) -> Redlock {
    Redlock::builder().nodes(nodes).restarts(Restarts::Trusted).build().unwrap()
}

/// A node that runs an action of its own at the moment when a connection to it is taken into use.
struct Meddler {
    node: MemoryNode,
    meddle: Arc<Mutex<Option<Meddle>>>,
}

type Meddle = Box<dyn FnOnce() + Send>;

impl Connector for Meddler {
    fn connect(&self, watchers: &Arc<Watchers>) -> BoxFuture<'_, Result<Opened, NodeError>> {
        let watchers = Arc::clone(watchers);
        Box::pin(async move {
            let (connection, identity) = self.node.connect(&watchers).await?;
            let meddle = Arc::clone(&self.meddle);
            let connection = ending_by(connection, move |connection| {
                if let Some(meddle) = meddle.lock().take() {
                    meddle();
                }
                connection.closed()
            });
            Ok((connection, identity))
        })
    }
}

/// Asks one node for a lock, from any thread.
fn ask_for_lock(node: &NodeHandle, round: &Arc<Round>) {
    let claim = Arc::new(Claim::new(&"redlock:r".into(), "v".to_owned()));
    let grant = Job::new(&claim, Action::Grant { ttl: Duration::from_secs(30) });
    deliver(node.submit(grant, ReplyTo::new(round, 0), node.now()));
}

/// The runtime of its task is not driven, and then ends.
#[test]
fn a_ping_that_no_task_has_sent_is_not_heard() {
    let node = MemoryNode::new();
    let redlock = trusting(std::slice::from_ref(&node));
    let first = runtime();
    first.block_on(async { drop(redlock.lock("warm").await.unwrap()) });
    let handle = redlock.client().nodes[0].clone();
    let health = runtime().block_on(async {
        let mut asked = Box::pin(handle.health());
        assert!((&mut asked).now_or_never().is_none());
        std::thread::spawn(move || drop(first)).join().unwrap();
        asked.await
    });
    let NodeState::Down { error } = health.state else { panic!("its task has ended") };
    assert_eq!(error.cause, Cause::Unheard, "{error}");
}

/// A task may end with its runtime just after a caller has made sure that it runs.
#[test]
fn a_question_that_comes_as_the_task_has_ended_starts_another() {
    for question in 0..3 {
        let node = MemoryNode::new();
        let redlock = trusting(std::slice::from_ref(&node));
        let first = runtime();
        first.block_on(async { drop(redlock.lock("warm").await.unwrap()) });
        drop(first);
        let handle = redlock.client().nodes[0].clone();
        assert!(!handle.is_running());
        let asked = async {
            match question {
                0 => assert!(handle.health().await.is_up()),
                1 => assert!(handle.connects().await),
                _ => {
                    ask_for_lock(&handle, &Round::new(&names(1), |_| true));
                    while !node.keys().iter().any(|key| key == "redlock:r") {
                        sleep(MS).await;
                    }
                }
            }
        };
        let answered = async { tokio::time::timeout(Duration::from_secs(30), asked).await };
        assert!(runtime().block_on(answered).is_ok(), "{question}");
    }
}

/// Rule 16: on another thread, a caller may ask while the node is being admitted.
#[tokio::test(start_paused = true)]
async fn no_vote_is_asked_of_a_connection_whose_node_is_not_admitted_yet() {
    let node = MemoryNode::new();
    node.restart_empty();
    let meddle = Arc::default();
    let connector = Arc::new(Meddler { node: node.clone(), meddle: Arc::clone(&meddle) });
    let spec = NodeSpec { name: "n".into(), connector };
    let redlock = Redlock::builder().restarts(Restarts::Strict).over(vec![spec]);
    let handle = redlock.client().nodes[0].clone();
    let round = Round::new(&names(1), |_| true);
    let asked = Arc::clone(&round);
    *meddle.lock() = Some(Box::new(move || ask_for_lock(&handle, &asked)) as Meddle);
    assert!(redlock.health().await[0].sits_out.is_some(), "it is young");
    sleep(10 * MS).await;
    assert!(meddle.lock().is_none());
    assert!(node.keys().is_empty(), "{:?}", node.keys());
    assert_eq!(round.failures()[0].kind, NodeErrorKind::SitsOut);
}

/// Jobs that wait for a connection are checked once more when the connection is there.
#[tokio::test(start_paused = true)]
async fn a_young_node_that_is_still_connecting_never_gets_the_set() {
    let nodes = nodes(3);
    nodes[2].restart_empty();
    nodes[2].slow(20 * MS);
    let redlock = Redlock::builder().nodes(&nodes).restarts(Restarts::Strict).build().unwrap();
    let guard = redlock.lock("r").await.unwrap();
    for _ in 0..200 {
        assert!(nodes[2].keys().is_empty());
        sleep(MS).await;
    }
    assert!(redlock.client().nodes[2].is_up());
    assert_eq!(guard.votes(), 2);
}

/// Only timeouts in a row end a connection (rule 15).
#[tokio::test(start_paused = true)]
async fn answers_between_timeouts_keep_the_connection() {
    let node = MemoryNode::new();
    let redlock = trusting(std::slice::from_ref(&node));
    let health = async || redlock.health().await[0].is_up();
    drop(redlock.lock("r").await.unwrap());
    for by_ping in [false, true] {
        for _ in 0..6 {
            node.hang();
            let begun = Instant::now();
            if by_ping {
                assert!(!health().await);
            } else {
                let error = redlock.try_lock("r").await.unwrap_err();
                assert!(error.is_unavailable(), "{error}");
            }
            assert!(begun.elapsed() >= 50 * MS, "it was down");
            sleep(5 * MS).await;
            assert!(redlock.client().nodes[0].is_up(), "the connection was dropped");
            node.resume();
            sleep(5 * MS).await;
            if by_ping {
                assert!(health().await);
            } else {
                drop(redlock.try_lock("r").await.unwrap());
                sleep(5 * MS).await;
            }
        }
    }
}

/// The third timeout ends a connection while later commands are in flight. Nothing is sent then, and a
/// release waits to be failed.
#[tokio::test(start_paused = true)]
async fn a_release_while_a_hung_connection_is_given_up_names_the_hang() {
    for at in (0..260).step_by(10) {
        let node = MemoryNode::new();
        let redlock = trusting(std::slice::from_ref(&node));
        let guard = redlock.lock("r").await.unwrap();
        node.hang();
        let asking = tokio::spawn({
            let redlock = redlock.clone();
            async move {
                for number in 0..8 {
                    tokio::spawn(redlock.try_lock(format!("r{number}")).into_future());
                    sleep(30 * MS).await;
                }
            }
        });
        sleep(at * MS).await;
        let error = guard.release().await.unwrap_err().to_string();
        assert!(error.contains("no answer within 50ms"), "after {at} ms: {error}");
        asking.await.unwrap();
        node.resume();
        sleep(2000 * MS).await;
        assert!(node.keys().is_empty(), "{:?}", node.keys());
    }
}

/// Questions that were asked at about the same time are answered at about the same time. A node
/// that takes 40 ms for an answer does not take longer because many commands are asked of it.
#[tokio::test(start_paused = true)]
async fn a_distant_node_answers_many_in_the_time_that_it_needs_for_one() {
    let nodes = nodes(3);
    let redlock = trusting(&nodes);
    drop(redlock.lock("warm").await.unwrap());
    sleep(MS).await;
    nodes.iter().for_each(|node| node.slow(40 * MS));
    // Timers count whole milliseconds; all else takes no time.
    tokio::time::advance(MS / 2).await;
    let begun = Instant::now();
    let mut working = Vec::new();
    for number in 0..40 {
        let request = redlock.lock(format!("r{number}"));
        working.push(tokio::spawn(async move { request.await.unwrap().release().await.unwrap() }));
        // Each command goes out by itself.
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }
    for work in working {
        assert_eq!(work.await.unwrap(), crate::Released::Ours);
    }
    assert!(begun.elapsed() <= 2 * 41 * MS, "{:?}", begun.elapsed());
}

/// A connection that was of use is replaced at once, however often it breaks.
#[tokio::test(start_paused = true)]
async fn a_connection_that_has_answered_is_replaced_without_a_long_pause() {
    let nodes = nodes(3);
    let redlock = trusting(&nodes);
    for _ in 0..20 {
        drop(redlock.lock("r").await.unwrap());
        sleep(5 * MS).await;
        for node in &nodes {
            node.stop();
            node.start();
        }
        // The shortest pause and its jitter.
        sleep(30 * MS).await;
        assert!(redlock.client().nodes.iter().all(NodeHandle::is_up));
    }
}

/// A node that answers nothing is asked less and less often.
#[tokio::test(start_paused = true)]
async fn a_connection_that_has_answered_nothing_is_replaced_after_longer_and_longer_pauses() {
    let node = MemoryNode::new();
    let redlock = trusting(std::slice::from_ref(&node));
    let up = async || {
        let begun = Instant::now();
        while !redlock.client().nodes[0].is_up() {
            sleep(MS).await;
        }
        begun.elapsed()
    };
    drop(redlock.try_lock("r").into_future().await.unwrap());
    let mut pauses = Vec::new();
    for _ in 0..6 {
        node.stop();
        node.start();
        sleep(5 * MS).await;
        pauses.push(up().await);
    }
    assert!(pauses.windows(2).all(|pair| pair[1] > pair[0] * 3 / 2), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn no_state_is_kept_of_keys_that_are_no_longer_watched() {
    let nodes = nodes(3);
    let (ours, theirs) = (trusting(&nodes), trusting(&nodes));
    for number in 0..200 {
        let resource = format!("r{number}");
        let guard = theirs.lock(&resource).await.unwrap();
        // Some waiters go while they stand in a queue, others while they also watch the lock.
        let error = ours.lock(&resource).wait(number % 40 * MS).await.unwrap_err();
        assert!(matches!(error, LockError::Held { .. }), "{error}");
        drop(guard);
    }
    let watchers = ours.client().nodes.iter().map(NodeHandle::watchers);
    assert!(watchers.into_iter().all(Watchers::is_empty));
}

/// A listener on the first node of a client that is connected.
async fn recorder(redlock: &Redlock) -> Arc<Recorder> {
    drop(redlock.lock("warm").await.unwrap());
    let recorder = Arc::<Recorder>::default();
    redlock.client().nodes[0].listen(&"k".into(), 7, Arc::<Recorder>::clone(&recorder));
    recorder
}

/// From then on a listener does not know the state of its key.
#[tokio::test(start_paused = true)]
async fn listeners_are_told_that_a_node_is_gone() {
    let node = MemoryNode::new();
    let redlock = trusting(std::slice::from_ref(&node));
    let recorder = recorder(&redlock).await;
    sleep(10 * MS).await;
    assert_eq!(recorder.take(), []);
    node.stop();
    sleep(10 * MS).await;
    assert_eq!(recorder.take(), [(7, Note::Disconnected)]);
}

/// A listener on another runtime starts the task of the node again there (rule 13).
#[test]
fn listeners_are_told_that_the_runtime_of_a_node_has_ended() {
    let node = MemoryNode::new();
    let redlock = trusting(std::slice::from_ref(&node));
    let runtime = runtime();
    let recorder = runtime.block_on(recorder(&redlock));
    assert_eq!(recorder.take(), []);
    drop(runtime);
    assert_eq!(recorder.take(), [(7, Note::Disconnected)]);
}

/// A node that hangs keeps the next runtime waiting for its connection, and a node that is stopped
/// refuses it. The delete is owed all the same (rules 5 and 13).
#[test]
fn a_delete_that_waits_in_vain_for_a_connection_on_another_runtime_is_owed() {
    type Switch = fn(&MemoryNode);
    let faults: [(Switch, Switch); 2] =
        [(MemoryNode::hang, MemoryNode::resume), (MemoryNode::stop, MemoryNode::start)];
    for (fails, recovers) in faults {
        let node = MemoryNode::new();
        let redlock = trusting(std::slice::from_ref(&node));
        let guard = runtime().block_on(redlock.lock("r").into_future()).unwrap();
        fails(&node);
        runtime().block_on(async {
            drop(guard);
            sleep(1000 * MS).await;
            assert_eq!(redlock.client().nodes[0].shared().outbox.lock().cleanups(), 1);
            recovers(&node);
            sleep(1000 * MS).await;
            assert!(node.keys().is_empty(), "{:?}", node.keys());
        });
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// A job is sent by any task, with a reading of the clock that may be older than the release.
#[tokio::test(start_paused = true)]
async fn a_release_is_a_delete_whenever_the_clock_was_read_unless_a_min_hold_keeps_the_key() {
    for (min_hold, is_kept) in [(Duration::ZERO, false), (MS, false), (60_000 * MS, true)] {
        let node = MemoryNode::new();
        let redlock = trusting(std::slice::from_ref(&node));
        let guard = redlock.lock("r").min_hold(min_hold).await.unwrap();
        node.stop();
        sleep(MS).await;
        drop(guard);
        let (shared, now) =
            (redlock.client().nodes[0].shared(), redlock.client().nodes.clock.now());
        let (sent, _) = shared.outbox.lock().take(&&now, Vec::new());
        let [item] = &sent[..] else { panic!("{sent:?}") };
        let early = item.job.command(Moment::ORIGIN).action;
        assert_eq!(matches!(early, Action::Shorten { .. }), is_kept, "{min_hold:?}: {early:?}");
    }
}
