//! A client that was given its turn has used it. The client that gave the turn must not leave the free lock alone
//! until the time of that turn is over.

use std::collections::BTreeSet;

use tokio::task::JoinSet;

use super::*;
use crate::{
    node::{Action, Command, intercepted::silent},
    sync::Mutex,
};

/// A client that no node pushes to, and that looks often.
fn looking_client(nodes: &[MemoryNode]) -> Redlock {
    let nodes = nodes.iter().map(|node| without_pushes(node.name(), node)).collect();
    Redlock::builder().retry_delay(20 * MS).retry_jitter(MS).over(nodes)
}

#[tokio::test(start_paused = true)]
async fn a_client_asks_once_the_turn_that_it_gave_is_over() {
    for delay in [0, 1, 5, 20] {
        let nodes = distant(delay);
        let (ours, theirs) = (client(&nodes), client(&nodes));
        for client in [&ours, &theirs] {
            drop(client.lock("warm").await.unwrap());
        }
        for tries in [true, false] {
            let guard = ours.lock("r").await.unwrap();
            let next = waiting(&theirs, MINUTE).await;
            sleep(100 * MS).await;
            guard.release().await.unwrap();
            let guard = next.await.unwrap().unwrap();
            sleep(3 * MS).await;
            guard.release().await.unwrap();
            let begun = Instant::now();
            if tries {
                ours.try_lock("r").await.unwrap().release().await.unwrap();
            } else {
                ours.lock("r").await.unwrap().release().await.unwrap();
            }
            let took = begun.elapsed();
            assert!(took <= 4 * delay * MS, "{delay} ms, {tries}: {took:?}");
            sleep(7000 * MS).await;
        }
    }
}

/// The client with the turn has not asked yet.
#[tokio::test(start_paused = true)]
async fn a_client_that_only_tries_leaves_a_turn_that_is_out_alone() {
    let nodes = nodes(3);
    let far = far_client(&nodes, 40 * MS);
    let (ours, third) = (client(&nodes), client(&nodes));
    for client in [&ours, &third, &far] {
        drop(client.lock("warm").await.unwrap());
    }
    let guard = ours.lock("r").await.unwrap();
    let next = waiting(&far, MINUTE).await;
    sleep(500 * MS).await;
    guard.release().await.unwrap();
    while !next.is_finished() {
        let tried = ours.try_lock("r").await;
        assert!(tried.as_ref().is_err_and(LockError::is_held), "{tried:?}");
        sleep(3 * MS).await;
    }
    drop(next.await.unwrap().unwrap());
}

/// Its first task has asked nothing yet when its wait ends. The next one gets its place between the clients.
#[tokio::test(start_paused = true)]
async fn a_task_that_inherits_a_place_leaves_a_turn_that_is_out_alone() {
    let nodes = nodes(3);
    let far = far_client(&nodes, 40 * MS);
    let ours = client(&nodes);
    for client in [&ours, &far] {
        drop(client.lock("warm").await.unwrap());
    }
    for _ in 0..10 {
        let guard = ours.lock("r").await.unwrap();
        let theirs = waiting(&far, MINUTE).await;
        sleep(500 * MS).await;
        guard.release().await.unwrap();
        let first = waiting(&ours, 30 * MS).await;
        let second = waiting(&ours, MINUTE).await;
        let guard = theirs.await.unwrap().unwrap();
        assert!(first.await.unwrap().is_err_and(|error| error.is_held()));
        assert!(!second.is_finished(), "it has taken the lock from the client with the turn");
        guard.release().await.unwrap();
        second.await.unwrap().unwrap().release().await.unwrap();
    }
}

/// It looks often, and sees that the lock is free before the client with the turn has asked.
#[tokio::test(start_paused = true)]
async fn a_waiter_without_pushes_leaves_the_turn_of_another_client_alone() {
    let nodes = nodes(3);
    let far = far_client(&nodes, 40 * MS);
    let (near, third) = (looking_client(&nodes), client(&nodes));
    for client in [&near, &third, &far] {
        drop(client.lock("warm").await.unwrap());
    }
    for _ in 0..20 {
        let guard = third.lock("r").await.unwrap();
        let first = waiting(&far, MINUTE).await;
        sleep(200 * MS).await;
        let second = waiting(&near, MINUTE).await;
        sleep(500 * MS).await;
        guard.release().await.unwrap();
        let guard = first.await.unwrap().unwrap();
        assert!(!second.is_finished(), "it has taken the lock from the client with the turn");
        guard.release().await.unwrap();
        second.await.unwrap().unwrap().release().await.unwrap();
    }
}

/// A client that is far away, and looks at the same moment of each turn, would miss all of its own.
#[tokio::test(start_paused = true)]
async fn a_waiter_without_pushes_looks_after_another_pause_each_time() {
    let node = MemoryNode::new();
    let looks = Arc::new(Mutex::new(Vec::new()));
    let sees = {
        let looks = Arc::clone(&looks);
        move |commands: &[Command]| {
            if commands.iter().any(|it| matches!(it.action, Action::Join { .. })) {
                looks.lock().push(Instant::now());
            }
        }
    };
    let ours = Redlock::builder().retry_delay(20 * MS).retry_jitter(20 * MS);
    let ours = ours.over(vec![silent("node", &node, sees)]);
    let [holder, first] = [(); 2].map(|()| client(std::slice::from_ref(&node)));
    let _held = holder.lock("r").await.unwrap();
    let _first = waiting(&first, MINUTE).await;
    let _second = waiting(&ours, MINUTE).await;
    sleep(2000 * MS).await;
    let looks = looks.lock();
    let pauses: BTreeSet<_> = looks.windows(2).map(|it| it[1] - it[0]).collect();
    assert!(looks.len() > 10 && pauses.len() > 5, "{pauses:?}");
}

/// It shares the lock with the other.
#[tokio::test(start_paused = true)]
async fn a_reader_does_not_wait_for_the_turn_of_another() {
    let nodes = nodes(3);
    let far = far_client(&nodes, 100 * MS);
    let (near, third) = (looking_client(&nodes), client(&nodes));
    for client in [&near, &third, &far] {
        drop(client.lock("warm").await.unwrap());
    }
    let guard = third.lock("r").await.unwrap();
    let read =
        |client: &Redlock| tokio::spawn(client.lock("r").shared().wait(MINUTE).into_future());
    let first = read(&far);
    sleep(500 * MS).await;
    let second = read(&near);
    sleep(500 * MS).await;
    guard.release().await.unwrap();
    sleep(80 * MS).await;
    assert!(second.is_finished() && !first.is_finished());
    drop((first.await.unwrap().unwrap(), second.await.unwrap().unwrap()));
}

/// The queue node pushes nothing, and has the release first. The client with the turn has come back to a place
/// before the front, which has watched the lock since it was the first.
#[tokio::test(start_paused = true)]
async fn a_front_that_is_shown_a_turn_does_not_go_by_an_earlier_watch() {
    let nodes = nodes(3);
    let [holder, other] = [client(&nodes), client(&nodes)];
    let mut first = with_turn(&holder, &other).await;
    let queue = queue_node_of(&holder);
    let specs = nodes.iter().enumerate().map(|(index, node)| {
        if index == queue { without_pushes(node.name(), node) } else { node.spec() }
    });
    let ours = Redlock::builder().retry_delay(20 * MS).retry_jitter(MS).over(specs.collect());
    let held = client(&nodes).try_lock("r").await.unwrap();
    let front = waiting(&ours, MINUTE).await;
    sleep(100 * MS).await;
    nodes[(queue + 1) % 3].slow(40 * MS);
    nodes[(queue + 2) % 3].slow(40 * MS);
    assert!(matches!(first.report().await, Report::At(_)));
    drop(held);
    sleep(90 * MS).await;
    assert_eq!(first.take_signal(), Some(Signal::Turn));
    assert!(!front.is_finished(), "the other has its turn");
    drop(timeout(1000 * MS, front).await.expect("the other does not use it").unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn clients_that_come_and_go_do_not_stand_before_a_free_lock() {
    for delay in [0, 1, 5] {
        let nodes = distant(delay);
        let mut turns = JoinSet::new();
        let end = Instant::now() + 10_000 * MS;
        for number in 0..3_u32 {
            let client = client(&nodes);
            turns.spawn(async move {
                let (mut count, mut longest) = (0, Duration::ZERO);
                while Instant::now() < end {
                    // Some of them come at the same time, and some do not.
                    sleep((count * (7 + 6 * number) % 20) * MS).await;
                    let begun = Instant::now();
                    let guard = client.lock("r").await.unwrap();
                    longest = longest.max(begun.elapsed());
                    sleep(MS).await;
                    guard.release().await.unwrap();
                    count += 1;
                }
                (count, longest)
            });
        }
        for (count, longest) in turns.join_all().await {
            assert!(longest < 20 * MS + 15 * delay * MS, "{delay} ms: {longest:?}");
            assert!(count > 200, "{delay} ms: {count}");
        }
    }
}

/// A task is dropped in its turn, and the next task of its client takes the place over. That client has given a turn
/// itself a moment ago, which is over.
#[tokio::test(start_paused = true)]
async fn a_client_does_not_leave_a_free_lock_alone_for_its_own_turn() {
    let nodes = nodes(5);
    nodes.iter().for_each(|node| node.slow(MS * 3 / 10));
    let released = Arc::new(Mutex::new(Instant::now()));
    let mut turns = JoinSet::new();
    let end = Instant::now() + 10_000 * MS;
    for (number, gives_up, tasks) in [(0, true, 1), (1, false, 1), (2, true, 8), (3, false, 1)] {
        let client = client(&nodes);
        for task in 0..tasks {
            let (client, released) = (client.clone(), Arc::clone(&released));
            turns.spawn(async move {
                let mut longest = Duration::ZERO;
                for turn in 1.. {
                    let differs = |most: u32| {
                        Duration::from_micros(u64::from(
                            turn * (7919 * number + 104_729 * (task + 1)) % most,
                        ))
                    };
                    let wait = if gives_up { differs(20_000) } else { MINUTE };
                    let Ok(guard) = timeout(wait, client.lock("r").into_future()).await else {
                        continue;
                    };
                    let guard = guard.unwrap();
                    longest = longest.max(released.lock().elapsed());
                    sleep(differs(8000)).await;
                    drop(guard);
                    *released.lock() = Instant::now();
                    sleep(differs(3000)).await;
                    if Instant::now() > end {
                        break;
                    }
                }
                longest
            });
        }
    }
    let longest = turns.join_all().await.into_iter().max().unwrap();
    assert!(longest < 60 * MS, "{longest:?} without a holder");
}
