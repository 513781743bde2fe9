//! Places in the queue between clients.

mod ahead;
mod busy;
mod crashed;
mod leaving;
mod refused;

use std::{
    future::{pending, ready},
    sync::atomic::AtomicBool,
};

use super::*;
use crate::{
    error::{Cause, NodeError, NodeErrorKind},
    node::{
        Action, Claim, Command, Job, Listens, NodeHandle, NodeSpec, Reply, Watchers,
        intercepted::{answering, intercepted},
    },
    quorum::NodeQuestion,
    sync::Mutex,
    wait::QueuePosition,
};

fn entry_of(redlock: &Redlock, number: u64) -> Entry {
    let value = format!("{number:040}.waiter");
    Entry::new(&redlock.client().nodes, &"redlock:r".into(), value)
}

fn listens(redlock: &Redlock) -> bool {
    !redlock.client().nodes.iter().map(NodeHandle::watchers).all(Watchers::is_empty)
}

/// So many nodes, and two clients of theirs that are connected. The first holds the lock.
async fn held(count: usize) -> (Vec<MemoryNode>, [Redlock; 2], LockGuard) {
    let nodes = nodes(count);
    let [holder, ours] = [client(&nodes), client(&nodes)];
    let guard = holder.lock("r").await.unwrap();
    drop(ours.lock("warm").await.unwrap());
    (nodes, [holder, ours], guard)
}

/// The waiters on the queue node.
async fn waiters(redlock: &Redlock) -> usize {
    redlock.inspect("r").await.unwrap().waiting().len()
}

async fn position(entry: &mut Entry) -> QueuePosition {
    match entry.report().await {
        Report::At(position) => position,
        other => panic!("{other:?}"),
    }
}

/// A node pushes a key once, and it has pushed the key for this turn already.
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_turn_crossed_its_report_hears_of_its_next_turn() {
    let nodes = nodes(3);
    let [ours, holder, next] = [client(&nodes), client(&nodes), client(&nodes)];
    let guard = holder.lock("r").await.unwrap();
    drop(ours.lock("warm").await.unwrap());
    drop(next.lock("warm").await.unwrap());
    let mut entry = entry(&ours);
    assert_eq!(position(&mut entry).await.ahead, 0);
    nodes.iter().for_each(|node| node.slow(10 * MS));
    let released = tokio::spawn(guard.release());
    sleep(5 * MS).await;
    // The release takes the entry out, and the report puts it back.
    assert_eq!(position(&mut entry).await.left, None);
    assert_eq!(entry.take_signal(), Some(Signal::Turn));
    assert!(!entry.has_turn());
    assert_eq!(released.await.unwrap().unwrap(), Released::Ours);

    let guard = next.try_lock("r").await.unwrap();
    position(&mut entry).await;
    drop(guard);
    assert_eq!(timeout(MINUTE, entry.signal()).await, Ok(Signal::Turn));
}

/// What one node has told says nothing of another one, which the holder may not reach.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_moves_to_another_node_waits_for_a_renewal_there() {
    let nodes = nodes(3);
    let [ours, holder] = [client(&nodes), client(&nodes)];
    let _guard = holder.lock("r").ttl(3000 * MS).await.unwrap();
    drop(ours.lock("warm").await.unwrap());
    let mut entry = entry(&ours);
    assert!(!position(&mut entry).await.is_renewed);
    sleep(1500 * MS).await;
    assert!(position(&mut entry).await.is_renewed);
    nodes[queue_node_of(&ours)].stop();
    sleep(MS).await;
    assert!(!position(&mut entry).await.is_renewed);
    sleep(1500 * MS).await;
    assert!(position(&mut entry).await.is_renewed);
}

/// A push that was lost without a trace costs no more than that.
#[tokio::test(start_paused = true)]
async fn a_waiter_listens_anew_from_time_to_time() {
    let listened = Arc::new(AtomicUsize::new(0));
    let node = {
        let listened = Arc::clone(&listened);
        intercepted("a", move |sender, _, commands| {
            let listens = |it: &&Command| matches!(it.action, Action::Join { listens, .. } if listens != Listens::Nothing);
            listened.fetch_add(commands.iter().filter(listens).count(), SeqCst);
            sender.send(commands)
        })
    };
    let redlock = Redlock::builder().over(vec![node]);
    drop(redlock.lock("warm").await.unwrap());
    let mut entry = entry(&redlock);
    for reports in 1..=20 {
        position(&mut entry).await;
        assert_eq!(listened.load(SeqCst), 1 + (reports - 1) / 8, "{reports} reports");
    }
}

/// To listen anew takes three commands. A waiter that is near hears by another key that it is next.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_near_does_not_listen_anew() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let pushed = Arc::new(Mutex::new(None::<&str>));
    let node = {
        let (asked, pushed) = (Arc::clone(&asked), Arc::clone(&pushed));
        intercepted("a", move |sender, watchers, commands| {
            for command in &commands {
                if let Action::Join { listens, .. } = command.action {
                    asked.lock().push(listens);
                    let value = &command.claim.value;
                    if let Some(what) = pushed.lock().take() {
                        watchers.changed(&format!("redlock:r:{{redlock:r}}:{what}:{value}"));
                    }
                }
            }
            sender.send(commands)
        })
    };
    let redlock = Redlock::builder().over(vec![node]);
    drop(redlock.lock("warm").await.unwrap());
    let mut entry = entry(&redlock);
    for (what, signal, listens) in
        [("near", Signal::Near, Listens::Nothing), ("next", Signal::Next, Listens::Turn)]
    {
        position(&mut entry).await;
        *pushed.lock() = Some(what);
        position(&mut entry).await;
        assert_eq!(entry.take_signal(), Some(signal));
        position(&mut entry).await;
        assert_eq!(asked.lock().last(), Some(&listens), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_counts_that_comes_from_a_node_where_the_entry_was_before() {
    let nodes = nodes(3);
    let ours = client(&nodes);
    drop(ours.lock("warm").await.unwrap());
    let mut entry = entry(&ours);
    let best = queue_node_of(&ours);
    nodes[best].hang();
    for _ in 0..2 {
        assert_eq!(entry.report().await, Report::Unanswered);
    }
    position(&mut entry).await;
    let other = queue_node_of(&ours);
    assert_ne!(other, best);
    // To this client, the other node is all there is.
    let holder = client(std::slice::from_ref(&nodes[other]));
    let guard = holder.lock("r").await.unwrap();
    nodes[best].resume();
    sleep(1000 * MS).await;
    assert_eq!(queue_node_of(&ours), best);
    assert_eq!(entry.take_signal(), Some(Signal::Moved));
    position(&mut entry).await;
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    assert_eq!(timeout(MINUTE, entry.signal()).await, Ok(Signal::Turn));
    assert!(entry.has_turn());
    assert_eq!(waiters(&ours).await, 1);
    entry.acquired();
    assert!(!listens(&ours));
    sleep(MS).await;
    assert_eq!(waiters(&ours).await, 0);
}

/// The waiter would stay in the queue for as long as an entry lives, and be given another turn.
#[tokio::test(start_paused = true)]
async fn a_report_that_runs_behind_the_turn_of_its_waiter_leaves_no_entry() {
    let (nodes, [_holder, ours], guard) = held(3).await;
    let mut entry = entry(&ours);
    position(&mut entry).await;
    nodes[queue_node_of(&ours)].slow(60 * MS);
    drop(guard);
    sleep(MS).await;
    assert_eq!(entry.report().await, Report::Unanswered);
    assert_eq!(entry.signal().await, Signal::Turn);
    nodes[queue_node_of(&ours)].slow(Duration::ZERO);
    let _guard = ours.try_lock("r").await.unwrap();
    sleep(100 * MS).await;
    assert_eq!(waiters(&ours).await, 1, "it is back");
    entry.acquired();
    sleep(100 * MS).await;
    assert_eq!(waiters(&ours).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_as_the_connection_ends_is_taken_out_on_the_next_one() {
    let nodes = nodes(3);
    let ours = client(&nodes);
    drop(ours.lock("warm").await.unwrap());
    let mut entry = entry(&ours);
    position(&mut entry).await;
    let queue_node = queue_node_of(&ours);
    nodes[queue_node].slow(10 * MS);
    drop(entry);
    sleep(MS).await;
    nodes[queue_node].stop();
    nodes[queue_node].slow(Duration::ZERO);
    nodes[queue_node].start();
    let alone = client(std::slice::from_ref(&nodes[queue_node]));
    assert_eq!(waiters(&alone).await, 1);
    sleep(2000 * MS).await;
    assert_eq!(waiters(&alone).await, 0);
}

/// Only the front of the queue watches the lock.
#[tokio::test(start_paused = true)]
async fn a_client_that_learns_its_place_late_watches_no_more() {
    let nodes = nodes(3);
    let [holder, first, ours] = [client(&nodes), client(&nodes), client(&nodes)];
    let _guard = holder.lock("r").await.unwrap();
    drop(ours.lock("warm").await.unwrap());
    let _first = waiting(&first, MINUTE).await;
    sleep(100 * MS).await;
    let queue_node = queue_node_of(&ours);
    let watches = || ours.client().nodes.iter().any(|node| node.watchers().has("redlock:r"));
    nodes[queue_node].slow(60 * MS);
    let _ours = waiting(&ours, MINUTE).await;
    // It is not answered in time, three times. Other answers keep the connection (rule 15).
    for _ in 0..3 {
        assert!(!watches());
        sleep(60 * MS).await;
        nodes[queue_node].slow(Duration::ZERO);
        drop(ours.lock("warm").await.unwrap());
        sleep(MS).await;
        nodes[queue_node].slow(60 * MS);
        sleep(90 * MS).await;
    }
    assert!(watches() && ours.client().nodes[queue_node].is_up());
    nodes[queue_node].slow(Duration::ZERO);
    sleep(400 * MS).await;
    assert!(!watches());
}

/// A cut network loses what was sent. A node that hangs runs it later.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_left_unheard_is_taken_out_on_the_next_connection() {
    for ends in [true, false] {
        let cut = Arc::new(AtomicBool::new(false));
        let leaves = Arc::new(AtomicUsize::new(0));
        let (is_cut, counted) = (Arc::clone(&cut), Arc::clone(&leaves));
        let node = intercepted("a", move |sender, _, commands| {
            let leaves =
                commands.iter().filter(|it| matches!(it.action, Action::Leave { .. })).count();
            counted.fetch_add(leaves, SeqCst);
            if is_cut.load(SeqCst) { pending().boxed() } else { sender.send(commands) }
        });
        let ours = Redlock::builder().over(vec![node]);
        drop(ours.lock("warm").await.unwrap());
        let mut entry = entry(&ours);
        position(&mut entry).await;
        cut.store(true, SeqCst);
        drop(entry);
        sleep(60 * MS).await;
        if !ends {
            // The node goes on, and has run the command.
            cut.store(false, SeqCst);
            drop(ours.lock("warm").await.unwrap());
            sleep(MS).await;
            cut.store(true, SeqCst);
        }
        // The third timeout in a row ends the connection (rule 15).
        for _ in 0..3 {
            ours.try_lock("other").await.unwrap_err();
        }
        cut.store(false, SeqCst);
        sleep(1000 * MS).await;
        drop(ours.lock("warm").await.unwrap());
        sleep(2000 * MS).await;
        assert_eq!(leaves.load(SeqCst), if ends { 2 } else { 1 });
        assert_eq!(waiters(&ours).await, if ends { 0 } else { 1 });
    }
}

/// A member of a cluster that has ended answers so, while the others go on.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_could_not_leave_leaves_again_while_its_entry_lives() {
    for (downs, sent) in [(1, 2), (100, 6)] {
        let leaves = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&leaves);
        let node = intercepted("a", move |sender, _, commands| {
            let leaves = commands.iter().any(|it| matches!(it.action, Action::Leave { .. }));
            if !leaves || counted.fetch_add(1, SeqCst) >= downs {
                return sender.send(commands);
            }
            let down = NodeError::new(&"a".into(), NodeErrorKind::Down, "the member is away");
            ready(vec![Err(down); commands.len()]).boxed()
        });
        let ours = Redlock::builder().over(vec![node]);
        drop(ours.lock("warm").await.unwrap());
        let mut entry = entry(&ours);
        position(&mut entry).await;
        drop(entry);
        sleep(MINUTE).await;
        assert_eq!(leaves.load(SeqCst), sent);
    }
}

/// A turn would make all waiters of this client ask at once.
#[tokio::test(start_paused = true)]
async fn a_push_that_may_have_been_lost_is_no_turn() {
    let nodes = nodes(3);
    let ours = client(&nodes);
    drop(ours.lock("warm").await.unwrap());
    let mut entry = entry(&ours);
    position(&mut entry).await;
    ours.client().nodes[queue_node_of(&ours)].watchers().missed(|_| true);
    assert_eq!(entry.signal().await, Signal::Moved);
    assert!(!entry.has_turn());
}

/// Otherwise it would be the front of a queue of its own until its next report.
#[tokio::test(start_paused = true)]
async fn a_client_that_reaches_the_best_node_late_moves_there_at_once() {
    let nodes = nodes(3);
    let (other, ours) = (client(&nodes), client(&nodes));
    drop(other.lock("warm").await.unwrap());
    let best = queue_node_of(&other);
    nodes[best].slow(20 * MS);
    drop(ours.lock("warm").await.unwrap());
    assert!(!ours.client().nodes[best].is_up(), "a quorum is enough to begin");
    let mut entry = entry(&ours);
    position(&mut entry).await;
    assert_ne!(queue_node_of(&ours), best);
    nodes[best].slow(Duration::ZERO);
    assert_eq!(timeout(1000 * MS, entry.signal()).await, Ok(Signal::Moved));
    assert_eq!(queue_node_of(&ours), best);
    drop(entry);
    assert!(!listens(&ours));
}
