//! A request that tries once looks at the queue between clients, where some waited a moment ago.

use super::*;

/// Whether a request that tries once gets the lock, and how long it takes to say so. The lock is released at once.
async fn tried(redlock: &Redlock) -> (bool, Duration) {
    let begun = Instant::now();
    let locked = redlock.try_lock("r").await;
    let took = begun.elapsed();
    let is_held = matches!(locked, Err(LockError::Held { attempts: 1, .. }));
    assert!(locked.is_ok() || is_held, "{locked:?}");
    if let Ok(guard) = locked {
        guard.release().await.unwrap();
    }
    (!is_held, took)
}

/// The first client has heard of the two that wait, and its stand-back is over. The second has the lock.
async fn contended([first, second, third]: [&Redlock; 3]) -> (LockGuard, Waiting) {
    let guard = first.lock("r").await.unwrap();
    let next = waiting(second, MINUTE).await;
    let last = waiting(third, MINUTE).await;
    sleep(500 * MS).await;
    drop(guard);
    let guard = next.await.unwrap().unwrap();
    sleep(1000 * MS).await;
    (guard, last)
}

#[tokio::test(start_paused = true)]
async fn a_request_that_tries_once_looks_only_where_clients_waited_a_moment_ago() {
    let nodes = nodes(5);
    nodes.iter().for_each(|node| node.slow(20 * MS));
    let (ours, theirs, third) = (client(&nodes), client(&nodes), client(&nodes));
    for client in [&ours, &theirs, &third] {
        drop(client.lock("warm").await.unwrap());
    }
    let (locked, round_trip) = tried(&ours).await;
    assert!(locked && (20 * MS..25 * MS).contains(&round_trip), "{round_trip:?}");

    let (guard, last) = contended([&ours, &theirs, &third]).await;
    assert_eq!(tried(&ours).await, (false, round_trip), "it looks, and asks for nothing");
    assert_eq!(tried(&ours).await, (false, Duration::ZERO), "it has just looked");
    sleep(2000 * MS).await;
    assert_eq!(tried(&ours).await, (false, round_trip), "a waiter before a held lock is not idle");

    drop(guard);
    drop(last.await.unwrap().unwrap());
    sleep(1000 * MS).await;
    assert_eq!(tried(&ours).await, (true, 2 * round_trip), "it looks, and then asks");
    assert_eq!(tried(&ours).await, (true, round_trip), "its release has told that no client waits");
}

/// The set keeps its place in the queue of a lock that is free, while it waits for another one.
#[tokio::test(start_paused = true)]
async fn a_request_that_tries_once_passes_a_set_that_waits_for_another_lock() {
    let nodes = nodes(5);
    nodes.iter().for_each(|node| node.slow(MS));
    let (ours, theirs, third) = (client(&nodes), client(&nodes), client(&nodes));
    let _other = third.lock("s").await.unwrap();
    let guard = ours.lock("r").await.unwrap();
    let set = tokio::spawn(theirs.lock_all(["r", "s"]).into_future());
    sleep(500 * MS).await;
    drop(guard);
    sleep(1000 * MS).await;
    let begun = Instant::now();
    while !tried(&ours).await.0 {
        sleep(10 * MS).await;
    }
    assert!(begun.elapsed() < 5000 * MS, "{:?}", begun.elapsed());
    assert!(!set.is_finished());
}

/// Those that come while one of them looks have its answer.
#[tokio::test(start_paused = true)]
async fn requests_that_try_once_together_look_once() {
    let nodes = nodes(5);
    nodes.iter().for_each(|node| node.slow(20 * MS));
    let (ours, theirs, third) = (client(&nodes), client(&nodes), client(&nodes));
    let (_guard, _last) = contended([&ours, &theirs, &third]).await;
    let begun = Instant::now();
    for (locked, _) in join_all((0..50).map(|_| tried(&ours))).await {
        assert!(!locked);
    }
    assert!(begun.elapsed() <= 45 * MS, "{:?}", begun.elapsed());
}

/// The front of the process waits for its turn between the clients, or for another lock of its set, and has asked no
/// node: there is no answer yet that would be one for a request that tries once, too.
#[tokio::test(start_paused = true)]
async fn a_request_that_tries_once_does_not_wait_for_a_front_that_has_not_asked() {
    let nodes = nodes(5);
    nodes.iter().for_each(|node| node.slow(MS));
    let (ours, theirs, third) = (client(&nodes), client(&nodes), client(&nodes));
    let (_guard, _last) = contended([&ours, &theirs, &third]).await;
    let front = waiting(&ours, MINUTE).await;
    sleep(500 * MS).await;
    assert_eq!(tried(&ours).await, (false, Duration::ZERO), "the front stands back");
    front.abort();

    let held = ours.lock("b").await.unwrap();
    let set = tokio::spawn(ours.lock_all(["a", "b"]).into_future());
    sleep(100 * MS).await;
    let begun = Instant::now();
    let error = ours.try_lock("a").await.unwrap_err();
    assert!(matches!(error, LockError::Held { attempts: 1, .. }), "{error:?}");
    assert_eq!(begun.elapsed(), Duration::ZERO, "the set waits for its other lock");
    drop(held);
    drop(set.await.unwrap().unwrap());
    drop(ours.try_lock("a").await.unwrap());
}

/// A set has taken over the place of a request that the nodes had failed, and waits for its other lock.
#[tokio::test(start_paused = true)]
async fn a_request_that_tries_once_hears_nothing_of_an_outage_that_is_over() {
    let nodes = nodes(3);
    let ours = client(&nodes);
    let _held = ours.lock("s").await.unwrap();
    nodes.iter().for_each(MemoryNode::hang);
    let front = waiting(&ours, 500 * MS).await;
    let set = tokio::spawn(ours.lock_all(["r", "s"]).wait(3 * MINUTE).into_future());
    assert!(front.await.unwrap().unwrap_err().is_unavailable());
    assert!(ours.try_lock("r").await.unwrap_err().is_unavailable(), "that was a moment ago");
    nodes.iter().for_each(MemoryNode::resume);
    // Longer than the retry delay of the client.
    sleep(2 * MINUTE).await;
    assert_eq!(tried(&ours).await, (false, Duration::ZERO));
    assert!(!set.is_finished());
}

/// The set has heard of its second lock from the request before it there, and of its first one nothing.
#[tokio::test(start_paused = true)]
async fn a_request_that_tries_once_does_not_wait_for_a_set_that_knows_of_its_other_lock_alone() {
    let nodes = nodes(3);
    let (ours, theirs) = (client(&nodes), client(&nodes));
    let _held = (theirs.lock("r").await.unwrap(), theirs.lock("s").await.unwrap());
    let before = tokio::spawn(ours.lock("s").wait(MINUTE).into_future());
    sleep(100 * MS).await;
    let set = tokio::spawn(ours.lock_all(["r", "s"]).wait(MINUTE).into_future());
    sleep(100 * MS).await;
    before.abort();
    sleep(100 * MS).await;
    assert_eq!(tried(&ours).await, (false, Duration::ZERO));
    assert!(!set.is_finished());
}

/// The answer is on its way: to say now that other clients go first would be wrong.
#[tokio::test(start_paused = true)]
async fn a_request_that_tries_once_waits_for_a_front_that_asks_after_it_stood_back() {
    let nodes = nodes(5);
    nodes.iter().for_each(|node| node.slow(MS));
    let (ours, theirs, third) = (client(&nodes), client(&nodes), client(&nodes));
    let (guard, last) = contended([&ours, &theirs, &third]).await;
    let front = waiting(&ours, MINUTE).await;
    sleep(500 * MS).await;
    assert_eq!(tried(&ours).await, (false, Duration::ZERO), "it stands back");
    last.abort();
    sleep(500 * MS).await;
    nodes.iter().for_each(|node| node.slow(20 * MS));
    drop(guard);
    // The release has run, and the front asks.
    sleep(30 * MS).await;
    assert!(!front.is_finished());
    let (locked, took) = tried(&ours).await;
    assert!(!locked && took > Duration::ZERO, "{took:?}");
    drop(front.await.unwrap().unwrap());
}
