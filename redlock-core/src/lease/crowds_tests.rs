//! Many locks at once. Renewals that are due together are sent in batches, and no lock is lost
//! because it waits for its batch. Over in-memory nodes on paused time.

use std::{
    cell::Cell,
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use futures_util::{StreamExt, stream};
use tokio::time::{sleep, timeout};

use crate::{
    LockGuard, MemoryNode, NodeHealth, Redlock,
    clock::manual::ManualClock,
    testing::{are_empty, nodes},
};

const MS: Duration = Duration::from_millis(1);

/// Well past the drift allowance of all locks here.
const JUMP: i64 = 5_000_000_000;

fn doubter(nodes: &[MemoryNode]) -> (Redlock, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let redlock = Redlock::builder().nodes(nodes).clock(Arc::clone(&clock) as _);
    (redlock.build().unwrap(), clock)
}

async fn crowd(redlock: &Redlock, size: usize) -> Vec<LockGuard> {
    let locks = stream::iter(0..size).map(|number| {
        let request = redlock.lock(format!("r{number}"));
        async { request.await.unwrap() }
    });
    locks.buffer_unordered(256).collect().await
}

/// If all renewals were sent at once, the answers would come too late. Sent batch by batch, they
/// take longer than a doubt may last.
#[tokio::test(start_paused = true)]
async fn a_clock_step_loses_no_lock_of_a_crowd() {
    let nodes = nodes(3);
    let (redlock, clock) = doubter(&nodes);
    let guards = crowd(&redlock, 12_000).await;
    nodes.iter().for_each(|node| node.slow(5 * MS));
    clock.wall_ahead.store(JUMP, SeqCst);
    let valid = || guards.iter().filter(|guard| guard.is_valid()).count();
    assert_eq!(valid(), 0, "all are in doubt");
    sleep(20 * MS).await;
    assert!(valid() < guards.len(), "and stay so until they are renewed: {}", valid());
    sleep(Duration::from_secs(1)).await;
    assert_eq!(valid(), guards.len());
}

#[tokio::test(start_paused = true)]
async fn in_a_crowd_in_doubt_the_holds_that_end_first_are_renewed_first() {
    let nodes = nodes(3);
    let (redlock, clock) = doubter(&nodes);
    let request = redlock.lock("short").auto_extend(false).ttl(Duration::from_secs(1));
    let _crowd = crowd(&redlock, 4096).await;
    let short = request.await.unwrap();
    // The clock is looked at within 100 ms, and the crowd takes 160 ms.
    sleep(short.validity() - 150 * MS).await;
    nodes.iter().for_each(|node| node.slow(20 * MS));
    clock.wall_ahead.store(JUMP, SeqCst);
    sleep(140 * MS).await;
    assert!(short.is_valid());
}

/// A doubt counts from when its own renewal was sent. It still ends with the validity.
#[tokio::test(start_paused = true)]
async fn a_doubt_for_which_there_is_no_room_in_time_is_a_loss() {
    let nodes = nodes(3);
    let (redlock, clock) = doubter(&nodes);
    let guards = crowd(&redlock, 2000).await;
    nodes.iter().for_each(MemoryNode::hang);
    clock.wall_ahead.store(JUMP, SeqCst);
    let lost = async {
        for guard in &guards {
            guard.lost().await;
        }
    };
    timeout(Duration::from_secs(31), lost).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn renewals_that_are_due_together_are_sent_in_time() {
    let nodes = nodes(3);
    let (redlock, _) = doubter(&nodes);
    let guards = crowd(&redlock, 8000).await;
    nodes.iter().for_each(|node| node.slow(20 * MS));
    sleep(Duration::from_secs(60)).await;
    assert!(guards.iter().all(LockGuard::is_valid));
}

/// Each hold is looked at when it goes. The holds that are left are not.
#[tokio::test(start_paused = true)]
async fn waiting_for_a_crowd_looks_at_each_hold_as_it_goes() {
    const SIZE: usize = 1000;
    let redlock = Redlock::in_memory(1);
    let guards = crowd(&redlock, SIZE).await;
    let looks = Cell::new(0);
    let all_gone = redlock.client().leases.registry.until(|_| {
        looks.set(looks.get() + 1);
        false
    });
    let dropping = async {
        for guard in guards {
            drop(guard);
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(all_gone, dropping);
    assert!(looks.get() <= 2 * SIZE, "{}", looks.get());
}

/// More deletes than may wait for a node.
#[tokio::test(start_paused = true)]
async fn release_all_leaves_no_key_of_a_crowd() {
    let nodes = nodes(1);
    let redlock = Redlock::builder().nodes(&nodes).ttl(Duration::from_secs(60)).build().unwrap();
    let _guards = crowd(&redlock, 80_000).await;
    nodes[0].slow(5 * MS);
    redlock.release_all().await;
    assert!(nodes[0].keys().is_empty(), "{}", nodes[0].keys().len());
    let owed = |health: &NodeHealth| health.pending_cleanups;
    assert_eq!(redlock.health().await.iter().map(owed).sum::<usize>(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_mass_release_that_is_given_up_goes_on() {
    let nodes = nodes(3);
    let redlock = Redlock::builder().nodes(&nodes).build().unwrap();
    let guards = crowd(&redlock, 5000).await;
    nodes.iter().for_each(|node| node.slow(5 * MS));
    assert!(timeout(10 * MS, redlock.release_all()).await.is_err());
    assert!(guards.iter().all(|guard| !guard.is_valid()));
    sleep(Duration::from_secs(2)).await;
    assert!(are_empty(&nodes));
}
