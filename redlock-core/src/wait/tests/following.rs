//! The front of the queue follows the lock on the queue node.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::node::{Action, Claim, Command, NodeHandle, Watchers, intercepted::intercepted};

/// The nodes on which this client listens to the lock.
fn followed(redlock: &Redlock) -> Vec<usize> {
    followed_at(redlock, "redlock:r")
}

fn followed_at(redlock: &Redlock, key: &str) -> Vec<usize> {
    let follows = |watchers: &Watchers| watchers.has(key);
    let nodes = redlock.client().nodes.iter().map(NodeHandle::watchers).enumerate();
    nodes.filter(|(_, watchers)| follows(watchers)).map(|(node, _)| node).collect()
}

/// Waits for two renewals: the first shows the waiter that there are any.
async fn follows(redlock: &Redlock) {
    sleep(25_000 * MS).await;
    assert_eq!(followed(redlock), [queue_node_of(redlock)]);
}

/// The lock is released, and the waiter has it within this time.
async fn passes_on(held: LockGuard, waits: Waiting, limit: Duration) {
    let begun = Instant::now();
    drop(held);
    drop(waits.await.unwrap().unwrap());
    assert!(begun.elapsed() < limit, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_follows_the_lock_hears_of_each_change_where_its_entry_is() {
    let nodes = nodes(3);
    let ours = client(&nodes);
    let held = client(&nodes).lock("r").await.unwrap();
    drop(ours.lock("warm").await.unwrap());
    let mut entry = entry(&ours);
    assert!(matches!(entry.report().await, Report::At(_)));
    held.extend(40_000 * MS).await.unwrap();
    sleep(MS).await;
    assert_eq!(entry.take_signal(), None, "it does not follow the lock");

    entry.follow_lock(true);
    let before = queue_node_of(&ours);
    assert_eq!(followed(&ours), [before]);
    for ttl in [50_000, 60_000] {
        assert!(matches!(entry.report().await, Report::At(_)));
        held.extend(ttl * MS).await.unwrap();
        sleep(MS).await;
        assert_eq!(entry.take_signal(), Some(Signal::Changed));
    }

    nodes[before].stop();
    assert_eq!(timeout(MINUTE, entry.signal()).await, Ok(Signal::Moved));
    assert!(matches!(entry.report().await, Report::At(_)));
    assert_ne!(queue_node_of(&ours), before);
    assert!(followed(&ours).is_empty(), "it knows nothing of the lock there");
    entry.follow_lock(true);
    assert_eq!(followed(&ours), [queue_node_of(&ours)]);
    drop(entry);
    assert!(followed(&ours).is_empty());
}

/// As by another library, or by an operator.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_deleted_without_a_turn_goes_to_the_first_waiter() {
    let nodes = nodes(5);
    nodes.iter().for_each(|node| node.slow(MS));
    let [holder, ours] = [client(&nodes), client(&nodes)];
    let _held = holder.lock("r").await.unwrap();
    let waits = waiting(&ours, MINUTE).await;
    follows(&ours).await;
    let begun = Instant::now();
    nodes.iter().for_each(|node| assert!(node.remove("redlock:r")));
    drop(waits.await.unwrap().unwrap());
    assert!(begun.elapsed() < 20 * MS, "{:?}", begun.elapsed());
}

/// Its client crashed as it asked, and another client has the lock on the other nodes.
#[tokio::test(start_paused = true)]
async fn a_key_that_no_holder_renews_on_the_queue_node_does_not_delay_the_next_holder() {
    for ttl in [MINUTE, Duration::MAX / 4] {
        let nodes = nodes(5);
        let [holder, ours] = [client(&nodes), client(&nodes)];
        drop(ours.lock("warm").await.unwrap());
        let claim = Arc::new(Claim::new(&"redlock:r".into(), "crashed".into()));
        nodes[queue_node_of(&ours)].execute(&[Command { claim, action: Action::Grant { ttl } }]);
        let held = holder.lock("r").await.unwrap();
        let waits = waiting(&ours, MINUTE).await;
        sleep(25_000 * MS).await;
        passes_on(held, waits, 300 * MS).await;
    }
}

/// The holder releases the lock on the other nodes alone.
#[tokio::test(start_paused = true)]
async fn a_release_while_the_queue_node_hangs_is_noticed_at_the_next_report() {
    let nodes = nodes(5);
    let [holder, ours] = [client(&nodes), client(&nodes)];
    let held = holder.lock("r").await.unwrap();
    let waits = waiting(&ours, MINUTE).await;
    follows(&ours).await;
    nodes[queue_node_of(&ours)].hang();
    passes_on(held, waits, 2000 * MS).await;
}

/// A change of a lock that the set has had its turn for concerns it no more.
#[tokio::test(start_paused = true)]
async fn a_set_follows_the_lock_that_it_waits_for() {
    let nodes = nodes(3);
    let [holder, ours] = [client(&nodes), client(&nodes)];
    let first = holder.lock("a").await.unwrap();
    let _second = holder.lock("b").await.unwrap();
    let set = ours.lock_all(["a", "b"]).wait(MINUTE).into_future();
    let _waits = tokio::spawn(set);
    sleep(25_000 * MS).await;
    let followed = || ["redlock:a", "redlock:b"].map(|key| followed_at(&ours, key).len());
    assert_eq!(followed(), [1, 0]);
    drop(first);
    sleep(25_000 * MS).await;
    assert_eq!(followed(), [0, 1]);
}

/// Only the front follows the lock.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_no_longer_the_first_follows_the_lock_no_more() {
    let nodes = nodes(3);
    let [holder, other, ours] = [client(&nodes), client(&nodes), client(&nodes)];
    let _held = holder.lock("r").await.unwrap();
    drop(other.lock("warm").await.unwrap());
    let mut first = entry(&other);
    assert!(matches!(first.report().await, Report::At(_)));
    let _waits = waiting(&ours, MINUTE).await;
    // The first waiter says nothing for so long that it counts as crashed.
    sleep(8000 * MS).await;
    follows(&ours).await;
    assert!(matches!(first.report().await, Report::At(place) if place.ahead == 0));
    sleep(2000 * MS).await;
    assert!(followed(&ours).is_empty());
}

/// It restarted empty and is trusted, or the holder's `SET` did not reach it.
#[tokio::test(start_paused = true)]
async fn waiters_at_a_node_that_has_forgotten_the_lock_ask_less_and_less() {
    let nodes = nodes(5);
    let holder = Redlock::builder().nodes(&nodes).ttl(MINUTE).build().unwrap();
    let _held = holder.lock("r").await.unwrap();
    let clients = [(); 10].map(|()| client(&nodes));
    let mut waits = Vec::new();
    for ours in &clients {
        waits.push(waiting(ours, 15_000 * MS).await);
    }
    assert!(nodes[queue_node_of(&holder)].remove("redlock:r"));
    let outcomes = join_all(waits).await.into_iter().map(|waits| waits.unwrap().unwrap_err());
    let attempts = |error| match error {
        LockError::Held { attempts, .. } => attempts,
        error => panic!("{error}"),
    };
    let attempts: Vec<_> = outcomes.map(attempts).collect();
    let behind = attempts[1..].iter().max().unwrap();
    assert!(attempts[0] <= 12 && *behind <= 8, "{attempts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_the_queue_node_has_forgotten_passes_on_when_it_is_released() {
    let nodes = nodes(5);
    let holder = Redlock::builder().nodes(&nodes).ttl(MINUTE).build().unwrap();
    let held = holder.lock("r").await.unwrap();
    let clients = [(); 3].map(|()| client(&nodes));
    let [first, second, third] = &clients;
    let waits = [waiting(first, MINUTE), waiting(second, MINUTE), waiting(third, MINUTE)];
    let waits = join_all(waits).await;
    assert!(nodes[queue_node_of(&holder)].remove("redlock:r"));
    sleep(12_000 * MS).await;
    let begun = Instant::now();
    drop(held);
    for waits in waits {
        drop(waits.await.unwrap().unwrap());
    }
    assert!(begun.elapsed() < 300 * MS, "{:?}", begun.elapsed());
}

/// Those before it crash after that.
#[tokio::test(start_paused = true)]
async fn a_waiter_relies_on_a_node_that_knows_the_holder_again() {
    let nodes = nodes(5);
    let [other, ours] = [client(&nodes), client(&nodes)];
    let holder = Redlock::builder().nodes(&nodes).ttl(MINUTE).build().unwrap();
    let held = holder.lock("r").await.unwrap();
    drop(other.lock("warm").await.unwrap());
    let mut before = [entry(&other), entry(&other)];
    let mut report_for = async |seconds: u32| {
        for _ in 0..seconds {
            for entry in &mut before {
                assert!(matches!(entry.report().await, Report::At(_)));
            }
            sleep(1000 * MS).await;
        }
    };
    report_for(1).await;
    let waits = waiting(&ours, MINUTE).await;
    assert!(nodes[queue_node_of(&holder)].remove("redlock:r"));
    report_for(12).await;
    for _ in 0..2 {
        held.extend(MINUTE).await.unwrap();
        report_for(9).await;
    }
    passes_on(held, waits, 2000 * MS).await;
}

/// The set has each turn for the lock, and waits for the other lock.
#[tokio::test(start_paused = true)]
async fn a_waiter_behind_a_set_relies_on_a_node_that_gives_turns() {
    let nodes = nodes(5);
    let [other, set, ours] = [client(&nodes), client(&nodes), client(&nodes)];
    let _other = other.lock("s").await.unwrap();
    let holder = Redlock::builder().nodes(&nodes).ttl(MINUTE).build().unwrap();
    let held = holder.lock("r").await.unwrap();
    let _set = tokio::spawn(set.lock_all(["r", "s"]).wait(5 * MINUTE).into_future());
    sleep(MS).await;
    let waits = waiting(&ours, MINUTE).await;
    assert!(nodes[queue_node_of(&holder)].remove("redlock:r"));
    sleep(13_000 * MS).await;
    passes_on(held, waits, 2000 * MS).await;
}

/// Each of them renews its part: a watch would have the writer ask at each of these renewals.
#[tokio::test(start_paused = true)]
async fn a_writer_behind_many_readers_does_not_ask_at_each_renewal() {
    let nodes = nodes(5);
    let readers = [(); 10].map(|()| client(&nodes));
    let mut reading = Vec::new();
    for reader in &readers {
        reading.push(reader.lock("r").shared().await.unwrap());
        sleep(1000 * MS).await;
    }
    let writer = client(&nodes);
    let error = writer.lock("r").wait(60_000 * MS).await.unwrap_err();
    let LockError::Held { attempts, .. } = &error else { panic!("{error}") };
    assert!(*attempts <= 20, "{attempts}");
}

/// The lock is released. The client at the first place has its turn, and does not use it.
async fn goes_to_the_other(held: LockGuard, first: &mut Entry, front: &Waiting) {
    drop(held);
    sleep(50 * MS).await;
    assert_eq!(first.take_signal(), Some(Signal::Turn));
    assert!(!front.is_finished(), "the other has its turn");
    sleep(100 * MS).await;
    assert!(front.is_finished(), "the other does not use its turn");
}

/// A client that lost its turn comes back to a place before the front. The front has watched the lock since it
/// was the first in the queue. The nodes at these places, counted from the one that keeps the queue, are the
/// last to hear of the release.
async fn front_yields(late: &[usize]) {
    let nodes = nodes(3);
    let [holder, other, ours] = [client(&nodes), client(&nodes), client(&nodes)];
    let mut first = with_turn(&holder, &other).await;
    // Another client does not know that others wait.
    let held = client(&nodes).try_lock("r").await.unwrap();
    let front = waiting(&ours, MINUTE).await;
    sleep(100 * MS).await;
    assert_eq!(followed(&ours), [0, 1, 2], "it watches");
    assert!(matches!(first.report().await, Report::At(_)));
    late.iter().for_each(|place| nodes[(queue_node_of(&ours) + place) % 3].slow(5 * MS));
    goes_to_the_other(held, &mut first, &front).await;
}

#[tokio::test(start_paused = true)]
async fn a_front_that_is_told_that_it_is_next_leaves_the_lock_to_the_client_with_the_turn() {
    front_yields(&[1, 2]).await;
}

/// The change of the lock that it hears of together with that is the release.
#[tokio::test(start_paused = true)]
async fn a_front_that_follows_the_lock_leaves_it_to_the_client_with_the_turn() {
    let nodes = nodes(3);
    let [holder, other, ours] = [client(&nodes), client(&nodes), client(&nodes)];
    let held = holder.lock("r").await.unwrap();
    drop(other.lock("warm").await.unwrap());
    let mut first = entry(&other);
    assert!(matches!(first.report().await, Report::At(_)));
    let front = waiting(&ours, MINUTE).await;
    // The other's entry is forgotten meanwhile. It comes back to its place.
    follows(&ours).await;
    assert!(matches!(first.report().await, Report::At(_)));
    goes_to_the_other(held, &mut first, &front).await;
}

#[tokio::test(start_paused = true)]
async fn a_front_hears_whose_turn_it_is_before_it_takes_a_lock_that_it_sees_free() {
    front_yields(&[0]).await;
}

/// The lock is released once the front was refused, and before it hears of that. It sees the lock free then, and
/// the client with the turn has not taken it yet.
#[tokio::test(start_paused = true)]
async fn a_front_that_is_told_that_it_is_next_while_it_asks_leaves_the_lock_to_the_other() {
    let (is_slow, has_asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let node = intercepted("node", {
        let (is_slow, has_asked) = (Arc::clone(&is_slow), Arc::clone(&has_asked));
        move |sender, _, commands| {
            let asks = commands.iter().any(|it| matches!(it.action, Action::Grant { .. }));
            let delay = if asks && is_slow.load(SeqCst) { 10 * MS } else { Duration::ZERO };
            let answers = tokio::spawn(sender.send(commands));
            has_asked.fetch_or(!delay.is_zero(), SeqCst);
            async move {
                sleep(delay).await;
                answers.await.unwrap_or_default()
            }
            .boxed()
        }
    });
    let client =
        || Redlock::builder().wait(5 * MINUTE).retry_delay(MINUTE).over(vec![node.clone()]);
    let [holder, other, third, ours] = [client(), client(), client(), client()];
    let mut first = with_turn(&holder, &other).await;
    let held = third.try_lock("r").await.unwrap();
    let front = waiting(&ours, MINUTE).await;
    sleep(100 * MS).await;
    // The other comes back to its place, and a renewal has the front ask.
    assert!(matches!(first.report().await, Report::At(_)));
    is_slow.store(true, SeqCst);
    held.extend(MINUTE).await.unwrap();
    while !has_asked.load(SeqCst) {
        sleep(MS).await;
    }
    is_slow.store(false, SeqCst);
    drop(held);
    sleep(50 * MS).await;
    assert_eq!(first.take_signal(), Some(Signal::Turn));
    assert!(!front.is_finished(), "the other has its turn");
    sleep(500 * MS).await;
    assert!(front.is_finished(), "the other does not use its turn");
}
