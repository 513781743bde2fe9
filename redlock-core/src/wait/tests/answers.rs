//! The answers to waiters without a turn.

use super::*;

#[tokio::test(start_paused = true)]
async fn waiters_behind_the_front_get_its_outcome() {
    let nodes = nodes(3);
    nodes.iter().for_each(MemoryNode::stop);
    let redlock = client(&nodes);
    let front = waiting(&redlock, MINUTE).await;
    let behind = redlock.lock("r").wait(10 * MS).await.unwrap_err();
    for error in [behind, redlock.try_lock("r").await.unwrap_err()] {
        let LockError::NoQuorum { nodes, attempts, .. } = &error else { panic!("{error}") };
        assert_eq!((nodes.len(), *attempts), (3, 1));
    }
    assert!(!front.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_more_waiters() {
    let is_refused = |redlock: &Redlock, expected: (bool, usize)| {
        let error = redlock.lock("r").into_future().now_or_never().unwrap().unwrap_err();
        let LockError::Held { by_this_client, max_waiters_reached, nodes, .. } = &error else {
            panic!("{error}")
        };
        let text = error.to_string();
        assert!(text.starts_with("too many requests of this process wait for \"r\""), "{text}");
        *max_waiters_reached && (*by_this_client, nodes.len()) == expected
    };
    let nodes = nodes(3);
    let redlock = Redlock::builder().nodes(&nodes).max_waiters(2).build().unwrap();
    let _first = redlock.lock("r").await.unwrap();
    let waiters = [waiting(&redlock, MINUTE).await, waiting(&redlock, MINUTE).await];
    assert!(is_refused(&redlock, (true, 0)));
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));

    // Where another client holds the lock, the first waiter asks for the others.
    let others = Redlock::builder().nodes(&nodes).max_waiters(2).build().unwrap();
    let others_wait = [waiting(&others, MINUTE).await, waiting(&others, MINUTE).await];
    assert!(is_refused(&others, (false, 0)));
    assert!(others_wait.iter().all(|waiter| !waiter.is_finished()));

    // The queue is full whatever the nodes said last. The error tells it all the same.
    let nodes = self::nodes(3);
    nodes.iter().for_each(MemoryNode::stop);
    let redlock = Redlock::builder().nodes(&nodes).max_waiters(2).build().unwrap();
    let _waiters = [waiting(&redlock, MINUTE).await, waiting(&redlock, MINUTE).await];
    assert!(is_refused(&redlock, (false, 3)));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_asks_and_was_not_refused_is_no_waiter() {
    let nodes = nodes(3);
    let redlock = Redlock::builder().nodes(&nodes).max_waiters(1).build().unwrap();
    drop(redlock.lock("warm").await.unwrap());
    nodes.iter().for_each(MemoryNode::hang);
    let asking = waiting(&redlock, MINUTE).await;
    let behind = waiting(&redlock, MINUTE).await;
    let error = redlock.lock("r").into_future().now_or_never().unwrap().unwrap_err();
    assert!(error.is_held(), "{error}");
    assert!(!asking.is_finished() && !behind.is_finished());
}

/// Two of three nodes did not answer: perhaps no client holds the lock, although one node refused
/// it.
#[tokio::test(start_paused = true)]
async fn whether_a_lock_is_held_does_not_depend_on_which_request_ends_first() {
    let nodes = nodes(3);
    let _theirs = client(&nodes[..1]).lock("r").await.unwrap();
    let ours = client(&nodes);
    drop(ours.lock("warm").await.unwrap());
    nodes[1..].iter().for_each(MemoryNode::hang);
    let error = ours.try_lock("r").await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
}

/// A request behind a front gets a recent answer of the nodes at once, and no old one.
#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_wait_gets_a_fresh_answer_at_once() {
    let nodes = nodes(3);
    let (ours, theirs) = (client(&nodes), client(&nodes));
    let guard = theirs.lock("r").await.unwrap();
    let front = ours.lock("r").retry_delay(200 * MS).retry_jitter(MINUTE);
    let front = tokio::spawn(front.into_future());
    for after in [10, 10, 199, 200, 250, 1000, 1000] {
        sleep(after * MS).await;
        let begun = Instant::now();
        let error = ours.lock("r").wait(Duration::ZERO).retry_delay(200 * MS).await.unwrap_err();
        assert!(error.is_held() && begun.elapsed() < 2 * MS, "{error} {:?}", begun.elapsed());
    }
    drop(guard);
    drop(front.await.unwrap().unwrap());
}

/// An answer that a front passes on keeps its age.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_passed_on_keeps_its_age() {
    let nodes = nodes(3);
    let (ours, theirs) = (client(&nodes), client(&nodes));
    let _guard = theirs.lock("r").await.unwrap();
    let front = waiting(&ours, MINUTE).await;
    let _next = waiting(&ours, MINUTE).await;
    sleep(MINUTE / 4).await;
    front.abort();
    sleep(MS).await;
    nodes.iter().for_each(MemoryNode::stop);
    sleep(MS).await;
    let error = ours.lock("r").wait(Duration::ZERO).retry_delay(200 * MS).await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
}

/// A request that does not wait gets no old answer, even when it comes with the turn.
#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_wait_gets_no_old_answer() {
    let nodes = nodes(3);
    let (ours, theirs) = (client(&nodes), client(&nodes));
    let _guard = theirs.lock("r").await.unwrap();
    let front = waiting(&ours, MINUTE).await;
    sleep(MINUTE / 4).await;
    nodes.iter().for_each(MemoryNode::hang);
    let asking = ours.lock("r").wait(Duration::ZERO).retry_delay(200 * MS);
    let asking = tokio::spawn(asking.into_future());
    sleep(MS).await;
    front.abort();
    let error = asking.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
}

/// An answer from before this client took the lock does not count when the lock is asked for again.
#[tokio::test(start_paused = true)]
async fn answers_from_before_the_lock_was_taken_are_forgotten() {
    let nodes = nodes(3);
    let trusting = || Redlock::builder().nodes(&nodes).restarts(crate::Restarts::Trusted);
    let ours = trusting().wait(MINUTE).retry_delay(MINUTE).build().unwrap();
    drop(ours.lock("warm").await.unwrap());
    nodes.iter().for_each(MemoryNode::stop);
    sleep(MS).await;
    let front = waiting(&ours, MINUTE).await;
    let next = waiting(&ours, MINUTE).await;
    nodes.iter().for_each(MemoryNode::start);
    let guard = front.await.unwrap().unwrap();
    nodes.iter().for_each(|node| node.slow(10 * MS));
    // The lease is not as good as a new lease, so the next waiter has to ask the nodes.
    sleep(15_000 * MS).await;
    guard.client().queues.begin_anew("redlock:r");
    nodes[..2].iter().for_each(|node| assert!(node.remove("redlock:r")));
    guard.lost().await;
    let error = ours.lock("r").wait(Duration::ZERO).retry_delay(MINUTE).await.unwrap_err();
    assert!(error.is_held(), "{error}");
    drop(next.await.unwrap().unwrap());
    drop(guard);
}

/// They have a queue of their own, and its front has asked before it came there.
#[tokio::test(start_paused = true)]
async fn a_reader_and_a_request_for_a_permit_get_the_last_outcome_of_the_one_before() {
    let kinds: [fn(LockRequest) -> LockRequest; 2] =
        [|reader| reader.shared(), |permit| permit.permits(2)];
    for kind in kinds {
        let nodes = nodes(3);
        let redlock = client(&nodes);
        drop(redlock.lock("warm").await.unwrap());
        nodes[1..].iter().for_each(MemoryNode::stop);
        sleep(MS).await;
        let first = kind(redlock.lock("r").retry_delay(MINUTE)).wait(MINUTE).into_future();
        let first = tokio::spawn(first);
        sleep(MS).await;
        let error = kind(redlock.lock("r")).wait(5 * MS).await.unwrap_err();
        assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
        first.abort();
    }
}
