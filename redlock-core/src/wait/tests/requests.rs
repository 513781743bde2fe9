//! What an operator sees of the requests of this process.

use super::*;

/// The resource, how many requests, and the longest wait in milliseconds.
fn seen(redlock: &Redlock) -> Vec<(String, usize, u128)> {
    let waiting = redlock.waiting().into_iter();
    waiting.map(|it| (it.resource().to_owned(), it.requests(), it.longest().as_millis())).collect()
}

fn one(requests: usize, longest: u128) -> Vec<(String, usize, u128)> {
    vec![("r".to_owned(), requests, longest)]
}

#[tokio::test(start_paused = true)]
async fn the_requests_behind_a_holder_are_seen_with_the_longest_wait() {
    let redlock = client(&nodes(3));
    assert_eq!(seen(&redlock), []);
    let first = redlock.lock("r").await.unwrap();
    assert_eq!(seen(&redlock), [], "a holder does not wait");
    let second = waiting(&redlock, MINUTE).await;
    let third = waiting(&redlock, MINUTE).await;
    sleep(8 * MS).await;
    assert_eq!(seen(&redlock), one(2, 10));

    drop(first);
    let second = second.await.unwrap().unwrap();
    assert_eq!(seen(&redlock), one(1, 9), "that of the next in the queue");
    third.abort();
    assert!(third.await.unwrap_err().is_cancelled());
    assert_eq!(seen(&redlock), []);
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn the_request_that_asks_the_nodes_waits_too() {
    let nodes = nodes(3);
    let (redlock, other) = (client(&nodes), client(&nodes));
    let held = other.lock("r").await.unwrap();
    let first = waiting(&redlock, MINUTE).await;
    sleep(4 * MS).await;
    assert_eq!(seen(&redlock), one(1, 5));
    let second = waiting(&redlock, MINUTE).await;
    assert_eq!(seen(&redlock), one(2, 6));
    // The next in the queue asks now, and has waited from when it joined.
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert_eq!(seen(&redlock), one(1, 1));
    drop(held);
    drop(second.await.unwrap().unwrap());
    assert_eq!(seen(&redlock), []);
}

#[tokio::test(start_paused = true)]
async fn the_longest_wait_comes_first_and_keys_show_no_prefix() {
    for prefix in ["redlock:", "", "é"] {
        let redlock = Redlock::builder().nodes(nodes(3)).key_prefix(prefix).build().unwrap();
        let mut kept = Vec::new();
        for resource in ["b", "redlock:a", "é"] {
            kept.push(redlock.lock(resource).await.unwrap());
            let waits = redlock.lock(resource).wait(MINUTE).into_future();
            tokio::spawn(waits);
            sleep(MS).await;
        }
        let resources: Vec<_> = seen(&redlock).into_iter().map(|(resource, ..)| resource).collect();
        assert_eq!(resources, ["b", "redlock:a", "é"], "{prefix}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_age_of_a_hold_begins_anew_with_each_holder() {
    let redlock = client(&nodes(3));
    let first = redlock.lock("r").await.unwrap();
    let second = waiting(&redlock, MINUTE).await;
    sleep(9 * MS).await;
    assert_eq!(first.age(), 10 * MS);
    let before = first.handle();
    drop(first);
    let second = second.await.unwrap().unwrap();
    sleep(2 * MS).await;
    assert_eq!((second.age(), before.age()), (2 * MS, 12 * MS));
}

#[tokio::test(start_paused = true)]
async fn the_age_of_a_hold_begins_before_the_nodes_are_asked() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    drop(redlock.lock("warm").await.unwrap());
    sleep(MS).await;
    nodes.iter().for_each(|node| node.slow(20 * MS));
    assert_eq!(redlock.lock("r").await.unwrap().age(), 20 * MS);
}

/// A set lines up for one resource after the other, and keeps its place in each.
#[tokio::test(start_paused = true)]
async fn a_set_that_waits_is_seen_at_each_resource_for_which_it_stands_in_line() {
    let redlock = client(&nodes(3));
    let held = redlock.lock("b").await.unwrap();
    let set = tokio::spawn(redlock.lock_all(["c", "b", "a"]).wait(MINUTE).into_future());
    sleep(3 * MS).await;
    let seen = seen(&redlock).into_iter().map(|(resource, requests, _)| (resource, requests));
    let row = |resource: &str| (resource.to_owned(), 1);
    assert_eq!(seen.collect::<Vec<_>>(), [row("a"), row("b")]);
    drop(held);
    drop(set.await.unwrap().unwrap());
    assert_eq!(redlock.waiting(), []);
}

#[tokio::test(start_paused = true)]
async fn a_set_waits_no_longer_before_all_its_keys_than_before_one() {
    let redlock = client(&nodes(3));
    let first = redlock.lock("a").await.unwrap();
    let _second = redlock.lock("b").await.unwrap();
    let begun = Instant::now();
    let set = tokio::spawn(redlock.lock_all(["a", "b"]).wait(1000 * MS).into_future());
    sleep(600 * MS).await;
    drop(first);
    assert!(set.await.unwrap().unwrap_err().is_held());
    assert_eq!(begun.elapsed(), 1000 * MS);
}

#[tokio::test(start_paused = true)]
async fn readers_that_wait_are_seen_by_their_resource() {
    let redlock = client(&nodes(3));
    let writer = redlock.lock("r").await.unwrap();
    let reader = || tokio::spawn(redlock.lock("r").shared().wait(MINUTE).into_future());
    let readers = [reader(), reader()];
    let next = waiting(&redlock, MINUTE).await;
    sleep(3 * MS).await;
    assert_eq!(seen(&redlock), one(3, 4), "two readers and a writer");
    next.abort();
    drop(writer);
    for reader in readers {
        drop(reader.await.unwrap().unwrap());
    }
    assert_eq!(seen(&redlock), []);
}

/// Each of them asks by itself for a moment, before it stands in line and once a reader before it has the lock.
#[tokio::test(start_paused = true)]
async fn a_reader_is_seen_once_wherever_it_asks() {
    let nodes = nodes(3);
    nodes.iter().for_each(|node| node.slow(4 * MS));
    let (redlock, other) = (client(&nodes), client(&nodes));
    let writer = other.lock("r").await.unwrap();
    let reader = |_| tokio::spawn(redlock.lock("r").shared().wait(MINUTE).into_future());
    let readers: Vec<_> = (0..20).map(reader).collect();
    sleep(100 * MS).await;
    assert_eq!(seen(&redlock)[0].1, 20);
    drop(writer);
    let mut fewest = 20;
    while !seen(&redlock).is_empty() {
        let seen = seen(&redlock);
        assert!(matches!(&seen[..], [(resource, 1..=20, _)] if resource == "r"), "{seen:?}");
        fewest = fewest.min(seen[0].1);
        sleep(MS).await;
    }
    assert!(fewest < 20);
    join_all(readers).await.into_iter().for_each(|it| drop(it.unwrap().unwrap()));
}

/// Nothing is late until the client reports again, so no task has been taken over by then (rule 13).
#[test]
fn a_report_of_a_client_whose_runtime_stands_still_does_not_outlast_its_wait() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let nodes = nodes(3);
    let (holder, ours) = (client(&nodes), client(&nodes));
    let (first, second) = (runtime(), runtime());
    first.block_on(async { drop(ours.lock("warm").await.unwrap()) });
    let guard = second.block_on(async { holder.lock("r").await.unwrap() });
    std::thread::scope(|scope| {
        // The runtime with the tasks of the nodes is driven while the waiter joins, and no more.
        scope.spawn(|| first.block_on(async { sleep(500 * MS).await }));
        second.block_on(async {
            let waits = || timeout(MINUTE, ours.lock("r").wait(2500 * MS).into_future());
            // The other nodes are found out by its last attempt.
            waits().await.expect("it ends").unwrap_err();
            let error = waits().await.unwrap().unwrap_err();
            assert!(error.is_held(), "{error}");
        });
    });
    second.block_on(async { drop(guard) });
}

/// The nodes were reached in between.
#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_the_nodes_as_its_client_is_closed_is_told_so() {
    let kinds: [fn(LockRequest) -> LockRequest; 3] =
        [|plain| plain, |reader| reader.shared(), |permit| permit.permits(2)];
    for kind in kinds {
        let node = MemoryNode::new();
        let redlock = client(std::slice::from_ref(&node));
        node.hang();
        let mut asks = kind(redlock.lock("r")).into_future();
        assert!((&mut asks).now_or_never().is_none());
        node.resume();
        while !redlock.client().nodes[0].is_up() {
            sleep(MS).await;
        }
        redlock.shutdown(Duration::ZERO).await;
        let error = asks.await.unwrap_err();
        assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_attempt_follows_a_report_that_is_answered_after_wait() {
    let nodes = nodes(3);
    let [holder, ours] =
        [(); 2].map(|()| Redlock::builder().nodes(&nodes).node_timeout(500 * MS).build().unwrap());
    let _held = holder.lock("r").await.unwrap();
    drop(ours.lock("warm").await.unwrap());
    nodes.iter().for_each(|node| node.slow(300 * MS));
    sleep(1000 * MS).await;
    for wait in (2000..2500).step_by(50) {
        let begun = Instant::now();
        assert!(ours.lock("r").wait(wait * MS).await.unwrap_err().is_held());
        // The last attempt takes a round trip.
        assert!(begun.elapsed() <= wait * MS + 310 * MS, "{wait}: {:?}", begun.elapsed());
        sleep(3000 * MS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_has_the_retries_that_its_queues_have_left() {
    let nodes = nodes(3);
    let [ours, theirs] = [(); 2].map(|()| client(&nodes));
    let first = ours.lock("a").await.unwrap();
    let second = ours.lock("b").await.unwrap();
    drop(theirs.lock("warm").await.unwrap());
    let set = ours.lock_all(["a", "b"]).wait(MINUTE).retry_count(10).retry_delay(100 * MS);
    let set = tokio::spawn(set.retry_jitter(Duration::ZERO).into_future());
    sleep(100 * MS).await;
    let other = tokio::spawn(theirs.lock("b").into_future());
    sleep(400 * MS).await;
    drop(first);
    sleep(100 * MS).await;
    drop(second);
    let other = other.await.unwrap().unwrap();
    sleep(200 * MS).await;
    assert!(!set.is_finished(), "six of its ten retries are spent");
    drop(other);
    drop(set.await.unwrap().unwrap());
}
