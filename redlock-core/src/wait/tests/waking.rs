//! Waiters are woken, and wait no longer than they may.

use super::*;
use crate::sync::Mutex;

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_by_a_release_elsewhere() {
    let nodes = nodes(5);
    let (ours, theirs) = (client(&nodes), client(&nodes));
    let guard = theirs.lock("r").await.unwrap();
    let next = waiting(&ours, MINUTE).await;
    drop(guard);
    let guard = timeout(20 * MS, next).await.unwrap().unwrap().unwrap();

    // The lock is renewed meanwhile, and then deleted by hand.
    let next = waiting(&theirs, 3 * MINUTE).await;
    sleep(MINUTE / 2).await;
    assert!(!next.is_finished());
    nodes.iter().for_each(|node| assert!(node.remove("redlock:r")));
    let _next = timeout(20 * MS, next).await.unwrap().unwrap().unwrap();
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_when_the_lock_expires() {
    let nodes = nodes(5);
    let (ours, theirs) = (client(&nodes), client(&nodes));
    let begun = Instant::now();
    let crashed = theirs.lock("r").ttl(MINUTE / 2).auto_extend(false).await.unwrap();
    let next = waiting(&ours, MINUTE).await;
    let _next = next.await.unwrap().unwrap();
    let late = begun.elapsed().saturating_sub(MINUTE / 2);
    assert!(late < 20 * MS, "{late:?}");
    drop(crashed);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_by_nodes_that_come_back() {
    let nodes = nodes(3);
    let redlock = Redlock::builder().nodes(&nodes).wait(5 * MINUTE).retry_delay(MINUTE);
    let redlock = redlock.restarts(crate::Restarts::Trusted).build().unwrap();
    nodes.iter().for_each(MemoryNode::stop);
    let next = waiting(&redlock, MINUTE).await;
    sleep(Duration::from_secs(2)).await;
    nodes.iter().for_each(MemoryNode::start);
    let _next = timeout(Duration::from_secs(2), next).await.unwrap().unwrap().unwrap();
}

/// The first waiter asks because the lock was extended, and the release overtakes its question on the node
/// that keeps the queue: that node grants the lock and gives the turn, and the others refuse.
#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_while_the_waiter_asks_is_used_after_a_split_vote() {
    let nodes = nodes(3);
    let (ours, theirs) = (client(&nodes), client(&nodes));
    let guard = theirs.lock("r").await.unwrap();
    let next = waiting(&ours, MINUTE).await;
    // It watches the lock by now.
    sleep(100 * MS).await;
    nodes.iter().for_each(|node| node.slow(30 * MS));
    guard.extend(MINUTE).await.unwrap();
    // Its question is on its way.
    sleep(5 * MS).await;
    let queue_node = queue_node(&ours.client().nodes, "redlock:r").unwrap();
    for (index, node) in nodes.iter().enumerate() {
        node.slow(if index == queue_node { Duration::ZERO } else { 40 * MS });
    }
    let begun = Instant::now();
    drop(guard);
    let _next = timeout(MINUTE, next).await.unwrap().unwrap().unwrap();
    // It hears the refusals after 25 ms or so, and asks once more.
    let late = begun.elapsed();
    assert!(late < 75 * MS, "{late:?}");
}

/// Two of three nodes are down. A lock that was set on the third node and deleted again would wake
/// the clients that watch it.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_cannot_succeed_wakes_no_other_client() {
    let nodes = nodes(3);
    let (ours, theirs) = (client(&nodes), client(&nodes));
    drop(ours.lock("warm").await.unwrap());
    drop(theirs.lock("warm").await.unwrap());
    nodes[..2].iter().for_each(MemoryNode::stop);
    sleep(10 * MS).await;
    let watch = watch(&theirs.client().nodes, &"redlock:r".into());
    sleep(10 * MS).await;
    let error = ours.try_lock("r").await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    sleep(10 * MS).await;
    assert!(!watch.has_news(), "it was asked in vain");

    let alone = Redlock::builder().nodes(&nodes[2..]).build().unwrap();
    drop(alone.try_lock("r").await.unwrap());
    assert!(watch.has_news(), "it would be told");
}

#[tokio::test(start_paused = true)]
async fn shutdown_tells_all_waiters_and_passes_nothing_on() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let first = redlock.lock("r").await.unwrap();
    let second = waiting(&redlock, MINUTE).await;
    let shutdown = tokio::spawn({
        let redlock = redlock.clone();
        async move { redlock.shutdown(MINUTE).await }
    });
    let error = second.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
    drop(first);
    shutdown.await.unwrap();
    assert!(are_empty(&nodes) && no_lines(&redlock));
}

/// Otherwise a schedule of the simulation would not replay.
#[tokio::test(start_paused = true)]
async fn shutdown_tells_the_waiters_in_the_same_order_in_each_run() {
    let told = async || {
        let redlock = client(&nodes(3));
        let told = Arc::<Mutex<Vec<String>>>::default();
        let mut holds = Vec::new();
        for number in 0..8 {
            let resource = format!("r{number}");
            holds.push(redlock.lock(&resource).await.unwrap());
            let (redlock, told) = (redlock.clone(), Arc::clone(&told));
            tokio::spawn(async move {
                redlock.lock(&resource).wait(MINUTE).await.unwrap_err();
                told.lock().push(resource);
            });
        }
        sleep(MS).await;
        redlock.shutdown(MS).await;
        sleep(MS).await;
        std::mem::take(&mut *told.lock())
    };
    let first = told().await;
    assert_eq!(first.len(), 8);
    assert_eq!(told().await, first);
}

/// The time of an attempt is no retry: nodes that answer late leave as many retries as nodes that answer at
/// once.
#[tokio::test(start_paused = true)]
async fn slow_nodes_are_asked_again_as_often_as_fast_nodes() {
    type Ask = fn(LockRequest) -> LockRequest;
    let (lock, reader, permit): (Ask, Ask, Ask) = (|it| it, |it| it.shared(), |it| it.permits(1));
    for (slow, theirs, ours) in
        [(0, lock, lock), (20, lock, lock), (20, lock, reader), (20, permit, permit)]
    {
        let nodes = nodes(3);
        let (redlock, other) = (client(&nodes), client(&nodes));
        let guard = theirs(other.lock("r")).await.unwrap();
        drop(redlock.lock("warm").await.unwrap());
        sleep(1000 * MS).await;
        nodes.iter().for_each(|node| node.slow(slow * MS));
        let request = redlock.lock("r").retry_count(2).retry_delay(5 * MS);
        let begun = Instant::now();
        let error = ours(request).retry_jitter(Duration::ZERO).await.unwrap_err();
        let LockError::Held { attempts, .. } = &error else { panic!("{error}") };
        assert_eq!(*attempts, 3, "{slow} ms");
        assert!(begun.elapsed() >= (2 * slow + 10) * MS, "{slow} ms: {:?}", begun.elapsed());
        drop(guard);
    }
}

/// A client that joins the queue of the permits looks whether one was released before it joined.
#[tokio::test(start_paused = true)]
async fn to_look_once_more_is_no_retry() {
    let nodes = nodes(3);
    let (redlock, other) = (client(&nodes), client(&nodes));
    let _held = other.lock("r").permits(1).await.unwrap();
    drop(redlock.lock("warm").await.unwrap());
    let begun = Instant::now();
    let request = redlock.lock("r").permits(1).retry_count(1).retry_delay(1000 * MS);
    assert!(request.await.unwrap_err().is_held());
    assert!(begun.elapsed() >= 1000 * MS, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn time_in_the_queue_counts_as_retries() {
    let redlock = client(&nodes(3));
    let _first = redlock.lock("r").await.unwrap();
    let begun = Instant::now();
    let error = redlock.lock("r").retry_count(3).retry_delay(MS * 100).await.unwrap_err();
    let LockError::Held { attempts, .. } = error else { panic!("{error}") };
    assert_eq!((attempts, begun.elapsed()), (4, 300 * MS), "as of a client that polls");
}

/// "Full jitter": a pause is a random time and nothing else.
#[tokio::test(start_paused = true)]
async fn retries_whose_pauses_are_random_are_all_made() {
    let nodes = nodes(3);
    let (redlock, other) = (client(&nodes), client(&nodes));
    let held = other.lock("r").await.unwrap();
    drop(redlock.lock("warm").await.unwrap());
    let request = |resource: &str| {
        let request = redlock.lock(resource).wait(MINUTE).retry_count(10);
        request.retry_delay(Duration::ZERO).retry_jitter(200 * MS)
    };
    let begun = Instant::now();
    let error = request("r").await.unwrap_err();
    let LockError::Held { attempts, .. } = error else { panic!("{error}") };
    assert_eq!(attempts, 11);
    assert!(begun.elapsed() >= 2000 * MS, "{:?}", begun.elapsed());
    let gets = tokio::spawn(request("r").into_future());
    sleep(300 * MS).await;
    drop(held);
    drop(gets.await.unwrap().unwrap());
    // Without a quorum the client asks from time to time.
    nodes.iter().for_each(MemoryNode::restart_empty);
    sleep(2000 * MS).await;
    let begun = Instant::now();
    let error = request("r").await.unwrap_err();
    let LockError::NoQuorum { attempts, .. } = error else { panic!("{error}") };
    assert_eq!(attempts, 11);
    assert!(begun.elapsed() >= 300 * MS, "{:?}", begun.elapsed());
}

/// What no push tells of is asked for more often than the request would retry.
#[tokio::test(start_paused = true)]
async fn retries_last_as_long_as_their_pauses_whatever_the_request_is_for() {
    type Ask = fn(LockRequest) -> LockRequest;
    let (lock, reader, permit): (Ask, Ask, Ask) = (|it| it, |it| it.shared(), |it| it.permits(1));
    let (long, short) = (MINUTE, 1600 * MS);
    for (theirs, ours, delay) in [(lock, lock, long), (lock, reader, long), (permit, permit, long)]
        .into_iter()
        .chain([(lock, reader, short), (permit, permit, short)])
    {
        let nodes = nodes(3);
        let (redlock, other) = (client(&nodes), client(&nodes));
        let guard = theirs(other.lock("r")).await.unwrap();
        drop(redlock.lock("warm").await.unwrap());
        let request = redlock.lock("r").wait(Duration::MAX).retry_count(20).retry_delay(delay);
        let begun = Instant::now();
        assert!(ours(request).retry_jitter(Duration::ZERO).await.unwrap_err().is_held());
        let took = begun.elapsed();
        assert!(took >= 20 * delay && took <= 21 * delay, "{delay:?}: {took:?}");
        drop(guard);
    }
}

#[tokio::test(start_paused = true)]
async fn retries_end_although_nodes_that_sit_out_read_free() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    drop(redlock.lock("r").await.unwrap());
    nodes.iter().for_each(MemoryNode::restart_empty);
    sleep(2000 * MS).await;
    let begun = Instant::now();
    let request = redlock.lock("r").retry_count(3).retry_delay(100 * MS);
    let error = request.retry_jitter(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    assert!(begun.elapsed() < 1000 * MS, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn no_attempt_starts_after_wait() {
    let redlock = client(&nodes(3));
    let guard = redlock.lock("r").await.unwrap();
    // The queue uses up its span, so it lets other clients go first.
    sleep(25 * MS).await;
    drop(guard);
    let begun = Instant::now();
    let guard = redlock.lock("r").wait(MS).await;
    assert!(guard.is_err() || begun.elapsed() <= MS, "taken after {:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn no_delay_is_too_long_for_the_queue() {
    let nodes = nodes(3);
    let (ours, theirs) = (client(&nodes), client(&nodes));
    let guard = theirs.lock("r").await.unwrap();
    let front = waiting(&ours, MINUTE).await;
    let behind = ours.lock("r").retry_delay(Duration::MAX).retry_jitter(Duration::MAX);
    let behind = tokio::spawn(behind.into_future());
    sleep(MINUTE / 2).await;
    drop(guard);
    drop(front.await.unwrap().unwrap());
    drop(behind.await.unwrap().unwrap());
}

/// The random parts of the earlier pauses do not matter.
#[tokio::test(start_paused = true)]
async fn no_jitter_is_added_to_wait() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    drop(redlock.lock("warm").await.unwrap());
    nodes.iter().for_each(MemoryNode::stop);
    for retry_delay in [10 * MS, 700 * MS, MINUTE] {
        for _ in 0..10 {
            let begun = Instant::now();
            let request = redlock.lock("r").retry_delay(retry_delay).retry_jitter(MINUTE);
            let error = request.wait(1000 * MS).await.unwrap_err();
            assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
            let waited = begun.elapsed();
            assert!(waited >= 1000 * MS && waited < 1002 * MS, "{waited:?}");
        }
    }
}

/// A waiter that is woken at the last moment lets no others go first: its attempt starts in time.
#[tokio::test(start_paused = true)]
async fn no_hesitation_is_added_to_wait() {
    const ROUND_TRIP: Duration = Duration::from_millis(10);
    let nodes = nodes(3);
    let (ours, theirs) = (client(&nodes), client(&nodes));
    nodes.iter().for_each(|node| node.slow(ROUND_TRIP));
    for number in 0..20 {
        drop(ours.lock("warm").await.unwrap());
        let guard = theirs.lock(format!("r{number}")).await.unwrap();
        sleep(2 * ROUND_TRIP).await;
        let begun = Instant::now();
        // The wait is too short to stand in the queue between clients.
        let waiting = ours.lock(format!("r{number}")).wait(ROUND_TRIP * 5 / 2).into_future();
        let (outcome, ()) = tokio::join!(waiting, async {
            sleep(ROUND_TRIP * 5 / 2 - ROUND_TRIP - MS).await;
            drop(guard);
        });
        let waited = begun.elapsed();
        assert!(waited <= ROUND_TRIP * 7 / 2 + 2 * MS, "{waited:?}: {outcome:?}");
        drop(outcome);
        sleep(10 * ROUND_TRIP).await;
    }
}

/// The queue node has lost the key of a lock that is held: each attempt sets it there, and
/// deletes it again.
#[tokio::test(start_paused = true)]
async fn waiters_do_not_hurry_where_the_queue_node_has_lost_the_key() {
    for waiters in [1, 2, 5] {
        let nodes = nodes(3);
        let holder = client(&nodes);
        let guard = holder.lock("r").auto_extend(false).await.unwrap();
        let clients: Vec<_> = (0..waiters).map(|_| client(&nodes)).collect();
        for client in &clients {
            drop(client.lock("warm").await.unwrap());
        }
        let queue_node = queue_node(&holder.client().nodes, "redlock:r").unwrap();
        nodes[queue_node].remove("redlock:r");
        nodes.iter().for_each(|node| node.slow(MS));
        let waiting = clients.iter().map(|it| it.lock("r").wait(5000 * MS).into_future());
        let outcomes = futures_util::future::join_all(waiting).await;
        for outcome in outcomes {
            let error = outcome.map(drop).unwrap_err();
            let LockError::Held { attempts, .. } = error else { panic!("{error}") };
            assert!(attempts < 200, "{waiters}: {attempts} in 5 s");
        }
        drop(guard);
    }
}
