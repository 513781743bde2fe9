//! Waiting for a lock whose keys stay for the rest of a `min_hold`. No node tells a waiter that they have expired.

use super::*;
use crate::{
    node::{Action, intercepted::silent},
    sync::Mutex,
};

const BODY: Duration = Duration::from_millis(2);

/// Takes the lock with this `min_hold`, and releases it long before that is over.
async fn hold(redlock: &Redlock, min_hold: Duration) {
    let guard = redlock.lock("r").min_hold(min_hold).await.unwrap();
    sleep(BODY).await;
    guard.release().await.unwrap();
}

/// They waited until the time of a turn was over that no release gave.
#[tokio::test(start_paused = true)]
async fn clients_have_their_turns_when_the_min_hold_is_over() {
    const ROUNDS: usize = 5;
    for count in [2, 6] {
        for min_hold in [10, 50, 90, 200].map(|it| it * MS) {
            let nodes = nodes(5);
            let turns = Arc::new(Mutex::new(Vec::new()));
            let clients = (0..count).map(|number| {
                let (redlock, turns) = (client(&nodes), Arc::clone(&turns));
                async move {
                    drop(redlock.lock("warm").await.unwrap());
                    for _ in 0..ROUNDS {
                        let guard = redlock.lock("r").min_hold(min_hold).await.unwrap();
                        turns.lock().push((number, Instant::now()));
                        sleep(BODY).await;
                        guard.release().await.unwrap();
                    }
                }
            });
            join_all(clients).await;
            let turns = turns.lock();
            assert_eq!(turns.len(), count * ROUNDS);
            for two in turns.windows(2) {
                let took = two[1].1 - two[0].1;
                assert!(took >= min_hold, "{count} {min_hold:?}: the lock was free after {took:?}");
                assert!(took <= min_hold + MS, "{count} {min_hold:?}: {took:?}");
            }
            for (before, after) in turns.iter().zip(&turns[count..]) {
                assert_eq!(before.0, after.0, "{count} {min_hold:?}: first come, first served");
            }
        }
    }
}

/// It knows when the keys go, and the other client is far away.
#[tokio::test(start_paused = true)]
async fn the_client_that_has_kept_the_lock_leaves_the_next_turn_to_the_one_that_waits() {
    let nodes = nodes(3);
    let (near, far) = (client(&nodes), far_client(&nodes, 20 * MS));
    for client in [&near, &far] {
        drop(client.lock("warm").await.unwrap());
    }
    let guard = near.lock("r").min_hold(200 * MS).await.unwrap();
    let begun = Instant::now();
    let first = waiting(&far, MINUTE).await;
    sleep(150 * MS).await;
    guard.release().await.unwrap();
    tokio::time::sleep_until(begun + 201 * MS).await;
    let second = waiting(&near, MINUTE).await;
    let guard = first.await.unwrap().unwrap();
    assert!(!second.is_finished());
    drop(guard);
    drop(second.await.unwrap().unwrap());
}

/// Nothing but the end of the `min_hold` is left of it.
#[tokio::test(start_paused = true)]
async fn a_client_that_is_dropped_behind_its_release_gives_the_turn_all_the_same() {
    let nodes = nodes(3);
    let (ours, theirs) = (client(&nodes), client(&nodes));
    drop(theirs.lock("warm").await.unwrap());
    let begun = Instant::now();
    let guard = ours.lock("r").min_hold(50 * MS).await.unwrap();
    let next = waiting(&theirs, MINUTE).await;
    guard.release().await.unwrap();
    drop(ours);
    drop(next.await.unwrap().unwrap());
    assert!(begun.elapsed() <= 51 * MS, "{:?}", begun.elapsed());
}

/// A task for each of many such locks would be there for as long as their keys.
#[tokio::test(start_paused = true)]
async fn a_long_rest_of_a_min_hold_costs_nothing_more() {
    for (min_hold, deletes) in [(1000 * MS, 1), (MINUTE, 0)] {
        let nodes = nodes(1);
        let sent = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&sent);
        let spec = silent("a", &nodes[0], move |commands| {
            let deletes = commands.iter().filter(|it| matches!(it.action, Action::Release { .. }));
            seen.fetch_add(deletes.count(), SeqCst);
        });
        let redlock = Redlock::builder().over(vec![spec]);
        hold(&redlock, min_hold).await;
        assert_eq!(sent.load(SeqCst), 0, "{min_hold:?}");
        sleep(2 * MINUTE).await;
        assert_eq!(sent.load(SeqCst), deletes, "{min_hold:?}");
        assert!(are_empty(&nodes));
    }
}
