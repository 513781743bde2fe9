//! Places in the queue between clients.

use std::{
    future::{pending, ready},
    sync::atomic::AtomicBool,
};

use super::*;
use crate::{
    error::{Cause, NodeError, NodeErrorKind},
    node::{Action, NodeHandle, NodeSpec, Reply, Watchers, intercepted::intercepted},
    wait::{QueuePosition, Report},
};

fn entry(redlock: &Redlock) -> Entry {
    entry_of(redlock, 0)
}

fn entry_of(redlock: &Redlock, number: u64) -> Entry {
    let value = format!("{number:040}.waiter");
    Entry::new(&redlock.client().nodes, &"redlock:r".into(), value, || ())
}

fn listens(redlock: &Redlock) -> bool {
    !redlock.client().nodes.iter().map(NodeHandle::watchers).all(Watchers::is_empty)
}

/// The waiters on the node that keeps the queue.
async fn waiters(redlock: &Redlock) -> usize {
    redlock.inspect("r").await.unwrap().waiting().len()
}

async fn position(entry: &mut Entry) -> QueuePosition {
    match entry.report().await {
        Report::At(position) => position,
        other => panic!("{other:?}"),
    }
}

fn keeper(redlock: &Redlock) -> usize {
    queue_node(&redlock.client().nodes, "redlock:r").unwrap()
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

/// A crowd that moves on from node to node makes each of them late, and no client hears its turn.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_too_busy_to_answer_keeps_the_queue() {
    let nodes = nodes(3);
    let [ours, holder] = [client(&nodes), client(&nodes)];
    let guard = holder.lock("r").await.unwrap();
    drop(ours.lock("warm").await.unwrap());
    let mut entry = entry(&ours);
    nodes[keeper(&ours)].slow(60 * MS);
    assert_eq!(entry.report().await, Report::Unanswered);
    nodes[keeper(&ours)].slow(Duration::ZERO);
    sleep(100 * MS).await;
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    assert_eq!(timeout(MINUTE, entry.signal()).await, Ok(Signal::Turn));
    assert!(entry.has_turn());

    let guard = holder.lock("r").await.unwrap();
    nodes[keeper(&ours)].slow(60 * MS);
    assert_eq!(entry.report().await, Report::Unanswered);
    // The third timeout in a row ends the connection (rule 15).
    let before = keeper(&ours);
    assert_eq!(position(&mut entry).await.ahead, 0);
    assert_ne!(keeper(&ours), before);
    assert!(listens(&ours));
    drop((entry, guard));
    assert!(!listens(&ours));
    nodes[before].slow(Duration::ZERO);
    sleep(MINUTE).await;
    assert!(are_empty(&nodes));
}

#[tokio::test(start_paused = true)]
async fn a_turn_counts_that_comes_from_a_node_where_the_entry_was_before() {
    let nodes = nodes(3);
    let ours = client(&nodes);
    drop(ours.lock("warm").await.unwrap());
    let mut entry = entry(&ours);
    let best = keeper(&ours);
    nodes[best].hang();
    for _ in 0..2 {
        assert_eq!(entry.report().await, Report::Unanswered);
    }
    position(&mut entry).await;
    let other = keeper(&ours);
    assert_ne!(other, best);
    // To this client, the other node is all there is.
    let holder = client(std::slice::from_ref(&nodes[other]));
    let guard = holder.lock("r").await.unwrap();
    nodes[best].resume();
    sleep(1000 * MS).await;
    assert_eq!(keeper(&ours), best);
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
    let nodes = nodes(3);
    let [ours, holder] = [client(&nodes), client(&nodes)];
    let guard = holder.lock("r").await.unwrap();
    drop(ours.lock("warm").await.unwrap());
    let mut entry = entry(&ours);
    position(&mut entry).await;
    nodes[keeper(&ours)].slow(60 * MS);
    drop(guard);
    sleep(MS).await;
    assert_eq!(entry.report().await, Report::Unanswered);
    assert_eq!(entry.signal().await, Signal::Turn);
    nodes[keeper(&ours)].slow(Duration::ZERO);
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
    let keeper = keeper(&ours);
    nodes[keeper].slow(10 * MS);
    drop(entry);
    sleep(MS).await;
    nodes[keeper].stop();
    nodes[keeper].slow(Duration::ZERO);
    nodes[keeper].start();
    let alone = client(std::slice::from_ref(&nodes[keeper]));
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
    let keeper = keeper(&ours);
    let watches = || ours.client().nodes.iter().any(|node| node.watchers().has("redlock:r"));
    nodes[keeper].slow(60 * MS);
    let _ours = waiting(&ours, MINUTE).await;
    // It is not answered in time, three times. Other answers keep the connection (rule 15).
    for _ in 0..3 {
        assert!(!watches());
        sleep(60 * MS).await;
        nodes[keeper].slow(Duration::ZERO);
        drop(ours.lock("warm").await.unwrap());
        sleep(MS).await;
        nodes[keeper].slow(60 * MS);
        sleep(90 * MS).await;
    }
    assert!(watches() && ours.client().nodes[keeper].is_up());
    nodes[keeper].slow(Duration::ZERO);
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
    ours.client().nodes[keeper(&ours)].watchers().missed();
    assert_eq!(entry.signal().await, Signal::Moved);
    assert!(!entry.has_turn());
}

/// Otherwise it would be the front of a queue of its own until its next report.
#[tokio::test(start_paused = true)]
async fn a_client_that_reaches_the_best_node_late_moves_there_at_once() {
    let nodes = nodes(3);
    let (other, ours) = (client(&nodes), client(&nodes));
    drop(other.lock("warm").await.unwrap());
    let best = keeper(&other);
    nodes[best].slow(20 * MS);
    drop(ours.lock("warm").await.unwrap());
    assert!(!ours.client().nodes[best].is_up(), "a quorum is enough to begin");
    let mut entry = entry(&ours);
    position(&mut entry).await;
    assert_ne!(keeper(&ours), best);
    nodes[best].slow(Duration::ZERO);
    assert_eq!(timeout(1000 * MS, entry.signal()).await, Ok(Signal::Moved));
    assert_eq!(keeper(&ours), best);
    drop(entry);
    assert!(!listens(&ours));
}

/// Clients that were killed say nothing, and the first that is alive looks for itself.
#[tokio::test(start_paused = true)]
async fn waiters_that_crashed_together_do_not_hold_the_others_up() {
    for (crashed, most) in [(1, 120), (2, 400), (3, 600), (10, 3500)] {
        let nodes = nodes(5);
        nodes.iter().for_each(|node| node.slow(MS / 4));
        let [holder, killed, ours] = [client(&nodes), client(&nodes), client(&nodes)];
        let held = holder.lock("r").await.unwrap();
        drop(killed.lock("warm").await.unwrap());
        for number in 0..crashed {
            let mut entry = entry_of(&killed, number);
            assert_eq!(position(&mut entry).await.ahead, number);
            std::mem::forget(entry);
        }
        let waits = waiting(&ours, 5 * MINUTE).await;
        // A while after they said that they are alive.
        sleep(1000 * MS).await;
        let begun = Instant::now();
        drop(held);
        drop(waits.await.unwrap().unwrap());
        let elapsed = begun.elapsed();
        assert!(elapsed < most * MS, "{elapsed:?} after {crashed} crashed");
    }
}

/// A reader that has the lock passes its turn on to the next waiter, which says nothing more.
#[tokio::test(start_paused = true)]
async fn a_reader_behind_a_waiter_that_crashed_shares_the_lock() {
    for (crashed, silent_for, most) in [
        (0, 1000, 10),
        (1, 0, 120),
        (1, 1000, 120),
        (1, 3000, 120),
        (2, 1000, 600),
        (2, 3000, 120),
        (3, 1000, 600),
    ] {
        let nodes = nodes(3);
        let [holder, killed] = [client(&nodes), client(&nodes)];
        let held = holder.lock("r").await.unwrap();
        drop(killed.lock("warm").await.unwrap());
        let mut reads = Vec::new();
        for number in 0..4 {
            let reader = client(&nodes);
            reads.push(tokio::spawn(reader.lock("r").shared().into_future()));
            sleep(MS).await;
            if number == 0 {
                for number in 0..crashed {
                    let mut entry = entry_of(&killed, number);
                    assert_eq!(position(&mut entry).await.ahead, number + 1);
                    std::mem::forget(entry);
                }
            }
        }
        sleep(silent_for * MS).await;
        let begun = Instant::now();
        drop(held);
        let reading = join_all(reads).await;
        let elapsed = begun.elapsed();
        assert!(elapsed < most * MS, "{elapsed:?} after {crashed} crashed {silent_for} ms ago");
        drop(reading);
    }
}

/// A waiter that is told that it is near still hears that it is next: otherwise its next report would take a
/// turn that was just given for one that is not used.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_was_told_that_it_is_near_hears_that_it_is_next() {
    let nodes = nodes(3);
    let ours = client(&nodes);
    let mut held = client(&nodes).lock("r").await.unwrap();
    drop(ours.lock("warm").await.unwrap());
    let mut entries: Vec<Entry> = (0..6).map(|number| entry_of(&ours, number)).collect();
    for entry in &mut entries {
        position(entry).await;
    }
    // A while after they said that they are alive.
    sleep(1000 * MS).await;
    let [turn, next, near] = [Signal::Turn, Signal::Next, Signal::Near].map(Some);
    for told in [
        [turn, next, near, near, None, None],
        [None, turn, next, None, near, None],
        [None, None, turn, next, None, near],
    ] {
        drop(held);
        sleep(MS).await;
        let heard: Vec<_> = entries.iter_mut().map(Entry::take_signal).collect();
        assert_eq!(heard, told);
        // Another client does not know that others wait.
        held = client(&nodes).try_lock("r").await.unwrap_or_else(|error| panic!("{error}"));
    }
}

/// It may be alive on a busy machine. It keeps its place, and a turn is not lost.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_late_to_report_is_passed_over_and_keeps_its_place() {
    let nodes = nodes(3);
    let ours = client(&nodes);
    let mut held = client(&nodes).lock("r").await.unwrap();
    drop(ours.lock("warm").await.unwrap());
    let (mut late, mut other) = (entry_of(&ours, 1), entry_of(&ours, 2));
    position(&mut late).await;
    sleep(2600 * MS).await;
    assert_eq!(position(&mut other).await.ahead, 1);
    for (entry, place) in [(&mut other, 2), (&mut late, 1)] {
        assert_eq!(waiters(&ours).await, place);
        drop(held);
        sleep(MS).await;
        assert_eq!(entry.take_signal(), Some(Signal::Turn));
        // Another client does not know that others wait.
        held = client(&nodes).try_lock("r").await.unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Its user may not run the scripts of the queue.
#[tokio::test(start_paused = true)]
async fn a_queue_that_each_node_refuses_is_not_asked_for_at_each_pause() {
    let joins = Arc::new(AtomicUsize::new(0));
    let nodes = ["a", "b", "c"].map(|name| {
        let joins = Arc::clone(&joins);
        intercepted(name, move |sender, _, commands| {
            if !commands.iter().any(|it| matches!(it.action, Action::Join { .. })) {
                return sender.send(commands);
            }
            joins.fetch_add(1, SeqCst);
            let refused = NodeError::new(&name.into(), NodeErrorKind::Server, "NOPERM");
            ready(vec![Err(refused); commands.len()]).boxed()
        })
    });
    let [holder, ours] = [(); 2].map(|()| Redlock::builder().over(nodes.to_vec()));
    let _held = holder.lock("r").ttl(3000 * MS).await.unwrap();
    // Each renewal has it ask, and pause once more.
    ours.lock("r").wait(20_000 * MS).await.unwrap_err();
    assert_eq!(joins.load(SeqCst), 3);
    ours.lock("r").wait(40_000 * MS).await.unwrap_err();
    assert_eq!(joins.load(SeqCst), 9, "it asks once more after a while");
}

/// A node whose queue answers so while it `refuses`.
fn refusing(refuses: &Arc<AtomicBool>, answer: Result<Reply, NodeError>) -> NodeSpec {
    let refuses = Arc::clone(refuses);
    intercepted("a", move |sender, _, commands| {
        let joins = commands.iter().any(|it| matches!(it.action, Action::Join { .. }));
        if !joins || !refuses.load(SeqCst) {
            return sender.send(commands);
        }
        ready(vec![answer.clone(); commands.len()]).boxed()
    })
}

fn error(kind: NodeErrorKind, cause: Cause) -> NodeError {
    NodeError { cause, ..NodeError::new(&"a".into(), kind, "refused") }
}

/// A script of another program keeps the only node busy for a moment.
#[tokio::test(start_paused = true)]
async fn waiters_keep_their_places_while_the_node_of_the_queue_refuses_for_a_moment() {
    let refuses = Arc::new(AtomicBool::new(false));
    let node = refusing(&refuses, Err(error(NodeErrorKind::Server, Cause::Passing)));
    let clients: [_; 4] = std::array::from_fn(|_| {
        Redlock::builder().wait(MINUTE).retry_delay(MINUTE).over(vec![node.clone()])
    });
    for redlock in &clients {
        drop(redlock.lock("warm").await.unwrap());
    }
    let guard = clients[0].lock("r").await.unwrap();
    let first = waiting(&clients[1], MINUTE).await;
    let second = waiting(&clients[2], MINUTE).await;
    refuses.store(true, SeqCst);
    sleep(10_000 * MS).await;
    refuses.store(false, SeqCst);
    sleep(1600 * MS).await;
    let third = waiting(&clients[3], MINUTE).await;
    assert_eq!(waiters(&clients[0]).await, 3);
    drop(guard);
    for next in [first, second, third] {
        drop(timeout(50 * MS, next).await.unwrap().unwrap().unwrap());
    }
}

/// It has had no turn. Two clients would ask for the lock at once, and split the votes.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_no_queue_has_taken_passes_no_turn_on() {
    let refused = || Err(error(NodeErrorKind::Server, Cause::Other));
    for (answer, has_turn, passes_on) in [
        (Ok(Reply::Full), false, false),
        (refused(), false, false),
        // The queue has taken it before.
        (Ok(Reply::Full), true, true),
        (refused(), true, true),
        // It may have.
        (Err(error(NodeErrorKind::Timeout, Cause::Other)), false, true),
    ] {
        let refuses = Arc::new(AtomicBool::new(false));
        let node = refusing(&refuses, answer.clone());
        let [holder, ours, other] = [(); 3].map(|()| Redlock::builder().over(vec![node.clone()]));
        for client in [&holder, &ours, &other] {
            drop(client.lock("warm").await.unwrap());
        }
        let (mut entry, mut behind) = (entry_of(&ours, 1), entry_of(&other, 2));
        if has_turn {
            let held = holder.lock("r").await.unwrap();
            assert_eq!(position(&mut entry).await.ahead, 0);
            drop(held);
            assert_eq!(entry.signal().await, Signal::Turn);
        }
        assert_eq!(position(&mut behind).await.ahead, 0);
        refuses.store(true, SeqCst);
        for _ in 0..2 {
            assert!(!matches!(entry.report().await, Report::At(_)));
        }
        drop(entry);
        sleep(100 * MS).await;
        let told = behind.take_signal();
        assert_eq!(told, passes_on.then_some(Signal::Turn), "{answer:?} {has_turn}");
    }
}
