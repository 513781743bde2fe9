//! Thousands of resources and callers, and nodes that are far away.

use super::*;
use crate::sync::Mutex;

/// A client with this many holders, whose locks are renewed all the time.
async fn holding(nodes: &[MemoryNode], count: usize) -> (Redlock, Vec<LockGuard>) {
    let redlock = Redlock::builder().nodes(nodes).ttl(2000 * MS).wait(MINUTE).build().unwrap();
    let held =
        join_all((0..count).map(|it| redlock.lock(format!("held-{it}")).into_future())).await;
    (redlock, held.into_iter().map(Result::unwrap).collect())
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_waited_resources_cost_no_lock_that_is_held() {
    const WAITED: usize = 10_000;
    let nodes = distant(20);
    let theirs = client(&nodes);
    let taken = join_all((0..WAITED).map(|it| theirs.lock(format!("r-{it}")).into_future())).await;
    let (ours, held) = holding(&nodes, 100).await;
    let waiters: Vec<_> = (0..WAITED)
        .map(|it| tokio::spawn(ours.lock(format!("r-{it}")).wait(MINUTE).into_future()))
        .collect();
    for round in 0..20 {
        sleep(500 * MS).await;
        let free = ours.lock(format!("free-{round}")).wait(2000 * MS).await;
        drop(free.unwrap_or_else(|error| panic!("a free key: {error}")));
    }
    assert_eq!(held.iter().filter(|guard| !guard.is_valid()).count(), 0, "held locks were lost");
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    drop(taken);
    for waiter in join_all(waiters).await {
        drop(waiter.unwrap().unwrap());
    }
}

/// A watch that is not armed again, or a turn that is not given, would cost ten minutes.
#[tokio::test(start_paused = true)]
async fn every_waiter_is_woken_when_thousands_of_locks_are_released() {
    const WAITED: usize = 8000;
    let nodes = nodes(5);
    let theirs = client(&nodes);
    let taken = join_all((0..WAITED).map(|it| theirs.lock(format!("r-{it}")).into_future())).await;
    let ours = Redlock::builder().nodes(&nodes).retry_delay(10 * MINUTE).build().unwrap();
    let waiters: Vec<_> = (0..WAITED)
        .map(|it| tokio::spawn(ours.lock(format!("r-{it}")).wait(30 * MINUTE).into_future()))
        .collect();
    sleep(MINUTE / 10).await;
    let begun = Instant::now();
    drop(taken);
    for waiter in waiters {
        drop(waiter.await.unwrap().unwrap());
    }
    assert!(begun.elapsed() < MINUTE / 12, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn no_caller_is_refused_a_free_key_in_a_crowd() {
    let nodes = distant(1);
    let (redlock, held) = holding(&nodes, 100).await;
    let callers = (0..20_000).map(|it| {
        let redlock = redlock.clone();
        tokio::spawn(async move { redlock.try_lock(format!("r-{it}")).await.map(drop) })
    });
    for caller in join_all(callers.collect::<Vec<_>>()).await {
        caller.unwrap().unwrap();
    }
    assert!(held.iter().all(LockGuard::is_valid));
}

/// Rule 5, also on the queue node of a lock: more commands are asked of one node than it
/// answers at once, and locks are released before their `SET`s have left for it.
#[tokio::test(start_paused = true)]
async fn no_set_follows_the_release_of_its_lock_to_a_slow_node() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    drop(redlock.lock("warm").await.unwrap());
    nodes[2].slow(20 * MS);
    let mut tasks = Vec::new();
    for it in 0..3000 {
        let redlock = redlock.clone();
        tasks.push(tokio::spawn(async move { redlock.lock(format!("r-{it}")).await.map(drop) }));
    }
    for task in join_all(tasks).await {
        task.unwrap().unwrap();
    }
    sleep(5000 * MS).await;
    assert!(are_empty(&nodes), "{} keys", nodes[2].keys().len());
}

#[tokio::test(start_paused = true)]
async fn all_keys_go_when_very_many_locks_are_released_at_once() {
    let nodes = distant(5);
    let redlock = client(&nodes);
    let mut held = Vec::new();
    for part in 0..40 {
        let locks = (0..2000).map(|it| redlock.lock(format!("r-{part}-{it}")).into_future());
        held.extend(join_all(locks).await);
    }
    assert!(held.iter().all(Result::is_ok));
    redlock.release_all().await;
    let left: Vec<_> = redlock.health().await.iter().map(|node| node.pending_cleanups).collect();
    let keys: Vec<_> = nodes.iter().map(|node| node.keys().len()).collect();
    assert_eq!((keys, left), (vec![0; 5], vec![0; 5]));
}

/// A caller that waits for other callers' answers loses nothing of its validity.
#[tokio::test(start_paused = true)]
async fn the_validity_of_a_caller_in_a_crowd_starts_with_its_own_attempt() {
    let nodes = distant(10);
    let redlock = client(&nodes);
    drop(redlock.lock("warm").await.unwrap());
    let locks =
        (0..2000).map(|it| redlock.lock(format!("r-{it}")).auto_extend(false).into_future());
    let guards: Vec<_> = join_all(locks).await.into_iter().map(Result::unwrap).collect();
    let left: Vec<_> = guards.iter().map(LockGuard::validity).collect();
    let spread = *left.iter().max().unwrap() - *left.iter().min().unwrap();
    assert!(spread >= 20 * MS, "{spread:?}: all clocks started at once");
}

/// Turns are given to clients that do not hear of them if a client whose join is answered late goes to
/// another node: each then lasts until the next waiter looks for itself, a tenth of a second.
#[tokio::test(start_paused = true)]
async fn a_crowd_that_begins_at_a_busy_node_is_served_in_no_time() {
    // One report that is not answered in time, and two.
    for busy in [80, 250] {
        let elapsed = begin_at_a_busy_node(busy * MS).await;
        assert!(elapsed < 500 * MS, "{elapsed:?}");
    }
}

async fn begin_at_a_busy_node(busy: Duration) -> Duration {
    let nodes = nodes(5);
    let clients: Vec<_> = (0..64).map(|_| client(&nodes)).collect();
    for client in &clients {
        drop(client.lock("warm").await.unwrap());
    }
    let held = clients[0].lock("r").await.unwrap();
    let queue_node = queue_node(&clients[0].client().nodes, "redlock:r").unwrap();
    // It answers later than `node_timeout`.
    nodes[queue_node].slow(60 * MS);
    let waiters: Vec<_> = clients[1..]
        .iter()
        .map(|client| {
            let client = client.clone();
            tokio::spawn(async move {
                let guard = client.lock("r").await.unwrap();
                sleep(MS).await;
                drop(guard);
            })
        })
        .collect();
    sleep(busy).await;
    nodes.iter().for_each(|node| node.slow(MS / 4));
    sleep(200 * MS).await;
    let begun = Instant::now();
    drop(held);
    join_all(waiters).await.into_iter().for_each(Result::unwrap);
    begun.elapsed()
}

/// The waiters that stood there when it began to hang have long had the lock, and have gone.
#[tokio::test(start_paused = true)]
async fn a_queue_that_hung_for_a_while_gives_no_turns_to_clients_that_have_gone() {
    // Less and more than an entry outlives its waiter.
    for hung in [2000, 7000] {
        hang_for(hung * MS).await;
    }
}

async fn hang_for(hung: Duration) {
    let nodes = nodes(5);
    nodes.iter().for_each(|node| node.slow(MS / 4));
    let clients: Vec<_> = (0..16).map(|_| client(&nodes)).collect();
    for client in &clients {
        drop(client.lock("warm").await.unwrap());
    }
    let (end, turns) = (Instant::now() + hung + 3000 * MS, Arc::<Mutex<Vec<Instant>>>::default());
    let tasks = clients.iter().map(|client| {
        let (client, turns) = (client.clone(), Arc::clone(&turns));
        tokio::spawn(async move {
            while Instant::now() < end {
                let _guard = client.lock("r").await.unwrap();
                turns.lock().push(Instant::now());
                sleep(MS).await;
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    sleep(1000 * MS).await;
    let queue_node = queue_node(&clients[0].client().nodes, "redlock:r").unwrap();
    nodes[queue_node].hang();
    sleep(hung).await;
    nodes[queue_node].resume();
    join_all(tasks).await.into_iter().for_each(Result::unwrap);
    let longest = turns.lock().windows(2).map(|it| it[1] - it[0]).max().unwrap();
    assert!(longest < 500 * MS, "{longest:?} without a holder");
}

/// Grants and releases that leave no room for reports would let the entry of a waiter die: no release gives it the turn
/// then, and it is behind others as far as it knows.
#[tokio::test(start_paused = true)]
async fn a_waiter_behind_others_keeps_its_place_beside_a_crowd_of_its_client() {
    let nodes = distant(20);
    let (theirs, first, ours) = (client(&nodes), client(&nodes), client(&nodes));
    let held = theirs.lock("r").await.unwrap();
    let before = tokio::spawn(first.lock("r").into_future());
    sleep(500 * MS).await;
    let waits = tokio::spawn(ours.lock("r").into_future());
    sleep(500 * MS).await;
    let mut crowd = tokio::task::JoinSet::new();
    for task in 0..400 {
        let ours = ours.clone();
        crowd.spawn(async move {
            loop {
                ours.lock(format!("free-{task}")).await.unwrap().release().await.unwrap();
            }
        });
    }
    sleep(8000 * MS).await;
    drop(held);
    drop(before.await.unwrap().unwrap());
    let released = Instant::now();
    drop(waits.await.unwrap().unwrap());
    assert!(released.elapsed() < 2000 * MS, "{:?}", released.elapsed());
}

/// They go in three ways: after their wait, dropped at the front, and dropped behind it.
#[tokio::test(start_paused = true)]
async fn waiters_that_go_away_leave_nothing_in_their_client() {
    let nodes = distant(1);
    let [ours, theirs] = [(); 2].map(|()| client(&nodes));
    let round = async |number: u32| {
        let resource = number.to_string();
        let guard = theirs.lock(&resource).await.unwrap();
        let wait = number % 50 * MS / 5;
        let gone = || timeout(wait, ours.lock(&resource).into_future());
        match number % 3 {
            0 => drop(ours.lock(&resource).wait(wait).await.unwrap_err()),
            1 => drop(gone().await),
            _ => drop(futures_util::future::join(gone(), gone()).await),
        }
        guard.release().await.unwrap();
    };
    join_all((0..1000).map(round)).await;
    sleep(MINUTE).await;
    assert!(no_lines(&ours) && ours.client().leases.registry.all().is_empty());
    assert!(ours.client().nodes.iter().all(|node| node.watchers().is_empty()), "still told");
    assert!(are_empty(&nodes));
}
