//! Several resources locked at once, on nodes in memory: a set behaves like a lock.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "these are tests, if not all of them are #[test]"
)]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use redlock_core::{LockError, MemoryNode, Redlock, Released};
use tokio::time::{Instant, sleep};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn nodes<const N: usize>() -> [MemoryNode; N] {
    std::array::from_fn(|_| MemoryNode::new())
}

fn client(nodes: &[MemoryNode]) -> Redlock {
    Redlock::builder().nodes(nodes).build().unwrap()
}

/// Waits until the nodes have no key any more.
async fn all_free(nodes: &[MemoryNode]) {
    for _ in 0..1000 {
        if nodes.iter().all(|node| node.keys().is_empty()) {
            return;
        }
        sleep(ms(10)).await;
    }
    panic!("{:?}", nodes.iter().map(MemoryNode::keys).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_set_is_locked_and_released_as_a_whole() {
    let nodes = nodes::<3>();
    let (redlock, other) = (client(&nodes), client(&nodes));
    let guard = redlock.lock_all(["b", "a", "b"]).await.unwrap();
    assert_eq!(guard.resource(), "b");
    assert_eq!(guard.resources(), ["b", "a"]);
    assert_eq!(guard.handle().resources(), ["b", "a"]);
    assert_eq!(guard.votes(), 3);
    for node in &nodes {
        assert_eq!(node.keys(), ["redlock:a", "redlock:b"]);
    }
    for resource in ["a", "b"] {
        assert!(other.try_lock(resource).await.unwrap_err().is_held());
        assert!(redlock.try_lock(resource).await.unwrap_err().is_held());
    }
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    all_free(&nodes).await;
}

#[tokio::test(start_paused = true)]
async fn a_set_is_all_or_none_on_each_node() {
    let nodes = nodes::<3>();
    let (redlock, other) = (client(&nodes), client(&nodes));
    let theirs = other.lock("b").await.unwrap();
    let error = redlock.lock_all(["a", "b", "c"]).wait(Duration::ZERO).await.unwrap_err();
    let LockError::Held { resource, by_this_client, .. } = &error else { panic!("{error}") };
    assert_eq!((resource.as_str(), *by_this_client), ("a, b, c", false));
    for node in &nodes {
        assert_eq!(node.keys(), ["redlock:b"], "nothing of a set that was refused");
    }
    drop(theirs);
    let guard = redlock.lock_all(["a", "b", "c"]).await.unwrap();
    drop(guard);
    all_free(&nodes).await;
}

#[tokio::test(start_paused = true)]
async fn a_set_of_one_resource_is_that_lock_and_an_empty_set_is_refused() {
    let redlock = Redlock::in_memory(3);
    let guard = redlock.lock_all(["a", "a"]).await.unwrap();
    assert_eq!(guard.resources(), ["a"]);
    drop(guard);
    let error = redlock.lock_all([] as [&str; 0]).await.unwrap_err();
    assert!(matches!(error, LockError::InvalidResource { .. }), "{error}");
    let error = redlock.lock_all((0..65).map(|it| it.to_string())).await.unwrap_err();
    assert!(matches!(error, LockError::InvalidResource { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_set_that_lost_one_key_on_a_quorum_is_lost() {
    let nodes = nodes::<3>();
    let redlock = client(&nodes);
    let guard = redlock.lock_all(["a", "b"]).ttl(ms(3000)).await.unwrap();
    assert!(nodes[0].remove("redlock:a"));
    sleep(ms(3000)).await;
    assert!(guard.is_valid(), "a quorum has the set");
    assert_eq!(nodes[0].keys(), ["redlock:a", "redlock:b"], "it is set again (rule 8)");
    nodes[0].remove("redlock:a");
    nodes[1].remove("redlock:b");
    tokio::time::timeout(ms(3000), guard.lost()).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
    all_free(&nodes).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_another_client_took_is_not_set_again_and_no_other_either() {
    let nodes = nodes::<3>();
    let redlock = client(&nodes);
    let guard = redlock.lock_all(["a", "b"]).ttl(ms(3000)).await.unwrap();
    nodes[0].remove("redlock:a");
    nodes[0].remove("redlock:b");
    let theirs = client(&nodes[..1]).lock("a").ttl(ms(30_000)).await.unwrap();
    sleep(ms(10_000)).await;
    assert!(guard.is_valid());
    assert_eq!(nodes[0].keys(), ["redlock:a"], "all or none");
    drop((guard, theirs));
    all_free(&nodes).await;
}

#[tokio::test(start_paused = true)]
async fn min_hold_keeps_all_keys_and_max_hold_ends_the_set() {
    let nodes = nodes::<3>();
    let redlock = client(&nodes);
    let guard = redlock.lock_all(["a", "b"]).min_hold(ms(5000)).await.unwrap();
    guard.release().await.unwrap();
    assert!(nodes.iter().all(|node| node.keys().len() == 2));
    let begun = Instant::now();
    let guard = redlock.lock_all(["b", "c"]).wait(ms(20_000)).max_hold(ms(500)).await.unwrap();
    assert!(begun.elapsed() > ms(4900), "{:?}", begun.elapsed());
    guard.lost().await;
    drop(guard);
    all_free(&nodes).await;
}

#[tokio::test(start_paused = true)]
async fn a_set_is_extended_and_ended_by_release_all_and_shutdown() {
    let nodes = nodes::<3>();
    let redlock = client(&nodes);
    let guard = redlock.lock_all(["a", "b"]).ttl(ms(1000)).await.unwrap();
    guard.extend(ms(20_000)).await.unwrap();
    assert!(nodes.iter().all(|node| node.remaining("redlock:b").unwrap() > ms(19_000)));
    assert_eq!(redlock.held()[0].resources(), ["a", "b"]);
    redlock.release_all().await;
    assert!(!guard.is_valid());
    all_free(&nodes).await;
    let body = tokio::spawn({
        let redlock = redlock.clone();
        async move { redlock.lock_all(["a", "b"]).run(async |_| sleep(ms(60_000)).await).await }
    });
    while nodes[0].keys().is_empty() {
        sleep(ms(1)).await;
    }
    redlock.shutdown(Duration::ZERO).await;
    assert!(body.await.unwrap().unwrap_err().is_lost());
    all_free(&nodes).await;
}

#[tokio::test(start_paused = true)]
async fn a_token_of_a_set_is_larger_than_all_tokens_of_its_resources_before() {
    let nodes = nodes::<3>();
    let redlock = client(&nodes);
    let mut last = None;
    for resources in [["a", "a"], ["a", "b"], ["b", "b"], ["b", "c"], ["a", "c"], ["c", "c"]] {
        let guard = redlock.lock_all(resources).fenced().await.unwrap();
        let token = guard.fencing_token();
        assert!(token > last, "{resources:?}: {token:?} after {last:?}");
        last = token;
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_passes_to_another_client_as_a_whole() {
    let nodes = nodes::<3>();
    let (old, new) = (client(&nodes), client(&nodes));
    let guard = old.lock_all(["b", "a"]).fenced().await.unwrap();
    let token = guard.fencing_token();
    // The set is not whole there, and the node has no vote.
    nodes[0].remove("redlock:a");
    let lease = guard.into_lease();
    assert_eq!(lease.resources(), ["b", "a"]);
    assert!(old.held().is_empty());
    let guard = new.adopt(lease).await.unwrap();
    assert_eq!(guard.resources(), ["b", "a"]);
    assert_eq!((guard.votes(), guard.fencing_token()), (2, token));
    assert!(old.try_lock("a").await.unwrap_err().is_held());
    guard.release().await.unwrap();
    sleep(ms(60_000)).await;
    all_free(&nodes).await;
}

/// What a body around a request holds decides, resource by resource.
#[tokio::test(start_paused = true)]
async fn a_set_joins_a_hold_with_all_of_its_resources_and_never_waits_for_itself() {
    let redlock = Redlock::in_memory(3);
    let outer = redlock.lock_all(["a", "b", "c"]).run(async |outer| {
        for inside in [&["a"][..], &["c", "b"], &["c", "a", "b"]] {
            let joined = redlock.lock_all(inside.iter().copied()).run(async |joined| {
                assert_eq!(joined.resources(), outer.resources());
            });
            joined.await.unwrap();
            assert!(outer.is_valid());
        }
        let begun = Instant::now();
        for beyond in [&["a", "d"][..], &["d", "e", "c"]] {
            let beyond = || redlock.lock_all(beyond.iter().copied());
            assert!(beyond().run(async |_| ()).await.unwrap_err().is_held());
            assert!(beyond().await.unwrap_err().is_held());
        }
        assert_eq!(begun.elapsed(), Duration::ZERO, "it was refused at once");
        redlock.lock_all(["d", "e"]).run(async |_| ()).await.unwrap();
    });
    outer.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_for_a_set_that_is_dropped_leaves_nothing() {
    let nodes = nodes::<3>();
    nodes.iter().for_each(|node| node.slow(ms(5)));
    let (redlock, other) = (client(&nodes), client(&nodes));
    drop(redlock.lock("warm").await.unwrap());
    for after in 0..60 {
        let theirs = other.lock("b").await.unwrap();
        let request = redlock.lock_all(["a", "b", "c"]).wait(ms(60_000));
        let dropped = tokio::time::timeout(ms(after), request).await;
        assert!(dropped.is_err());
        theirs.release().await.unwrap();
        all_free(&nodes).await;
    }
    redlock.lock_all(["a", "b", "c"]).await.unwrap().release().await.unwrap();
}

/// The set is between the two single locks, and each gets its turn.
#[tokio::test(start_paused = true)]
async fn sets_and_single_locks_are_served_in_the_order_in_which_they_came() {
    for clients in [1, 3] {
        let nodes = nodes::<3>();
        let all: Vec<_> = (0..clients).map(|_| client(&nodes)).collect();
        let guard = all[0].lock_all(["a", "b"]).await.unwrap();
        let served = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for (number, resources) in [&["a"][..], &["b", "a"], &["b"], &["a", "b"]].iter().enumerate()
        {
            let (redlock, served) = (all[number % clients].clone(), Arc::clone(&served));
            let resources = resources.to_vec();
            tasks.push(tokio::spawn(async move {
                let guard = redlock.lock_all(resources.clone()).wait(ms(60_000)).await.unwrap();
                served.lock().unwrap().push(resources.join("+"));
                sleep(ms(20)).await;
                guard.release().await.unwrap();
            }));
            sleep(ms(300)).await;
        }
        guard.release().await.unwrap();
        for task in tasks {
            task.await.unwrap();
        }
        let served = served.lock().unwrap();
        let place = |name: &str| served.iter().position(|it| it == name).unwrap();
        // The first client has released the locks. Its next task lets the client go first that has the turn.
        let first = if clients == 1 { "b+a" } else { "a+b" };
        assert!(place("a") < place(first), "{clients}: {served:?}");
        assert!(place("b+a") < place("a+b"), "{clients}: {served:?}");
        assert!(place("b") < place("a+b"), "{clients}: {served:?}");
    }
}

/// Sets that name their resources in any order, among single locks, of several clients and tasks: no
/// two hold one resource, and all get their turns.
#[tokio::test(start_paused = true)]
async fn overlapping_sets_exclude_each_other_and_never_deadlock() {
    let nodes = nodes::<3>();
    nodes.iter().for_each(|node| node.slow(ms(1)));
    let clients: Vec<_> = (0..3).map(|_| client(&nodes)).collect();
    let held: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let mut tasks = Vec::new();
    for number in 0..12 {
        let (redlock, held) = (clients[number % 3].clone(), Arc::clone(&held));
        tasks.push(tokio::spawn(async move {
            for round in 0..40 {
                // The resources follow no order.
                let at = |step: usize| ((number * 7 + round * step) % 6).to_string();
                let set: Vec<String> =
                    (0..1 + (number + round) % 3).map(|it| at(it * 5 + 1)).collect();
                let guard = redlock.lock_all(&set).wait(ms(600_000)).await.unwrap();
                for resource in guard.resources() {
                    let before = held.lock().unwrap().insert(resource.clone(), number);
                    assert_eq!(before, None, "{resource} has two holders");
                }
                sleep(ms(2)).await;
                for resource in guard.resources() {
                    held.lock().unwrap().remove(resource);
                }
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    all_free(&nodes).await;
}
