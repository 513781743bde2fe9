//! When a released lease passes to the next waiter, and when it does not.

use std::collections::BTreeSet;

use super::*;
use crate::sync::Mutex;

#[tokio::test(start_paused = true)]
async fn a_released_lease_passes_to_the_next_waiter_without_asking_the_nodes() {
    let redlock = client(&nodes(3));
    let first = redlock.lock("r").await.unwrap();
    let (mine, handle) = (value(&redlock), first.handle());
    let second = waiting(&redlock, MINUTE).await;
    redlock.memory_nodes().iter().for_each(MemoryNode::hang);
    assert_eq!(first.release().now_or_never().unwrap().unwrap(), Released::Ours);
    let second = second.await.unwrap().unwrap();
    assert_eq!(value(&redlock), mine);
    assert!(second.is_valid() && !handle.is_valid(), "the hold before has ended");
    handle.lost().await;
    redlock.memory_nodes().iter().for_each(MemoryNode::resume);
    second.release().await.unwrap();
    assert!(are_empty(&redlock.memory_nodes()));
    assert!(no_lines(&redlock));
}

/// A client that has been without the lock for long hesitates less than others.
#[tokio::test(start_paused = true)]
async fn a_client_that_passes_its_turn_on_had_the_lock_until_now() {
    let redlock = client(&nodes(3));
    let first = redlock.lock("r").await.unwrap();
    // A lease of a plain lock does not suit it.
    let _second = tokio::spawn(redlock.lock("r").fenced().into_future());
    sleep(MINUTE).await;
    redlock.memory_nodes().iter().for_each(MemoryNode::hang);
    drop(first);
    assert_eq!(redlock.client().queues.without("redlock:r"), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn first_come_first_served() {
    let redlock = client(&nodes(5));
    let first = redlock.lock("r").await.unwrap();
    let turns = Arc::new(AtomicUsize::new(0));
    let mut waiters = Vec::new();
    for place in 0..200 {
        let (redlock, turns) = (redlock.clone(), Arc::clone(&turns));
        waiters.push(tokio::spawn(async move {
            let _guard = redlock.lock("r").await.unwrap();
            assert_eq!(turns.fetch_add(1, SeqCst), place);
            sleep(MS).await;
        }));
        tokio::task::yield_now().await;
    }
    drop(first);
    let begun = Instant::now();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert!(begun.elapsed() < 250 * MS, "{:?} for 200 ms of work", begun.elapsed());
}

/// Each look at other clients costs the round trips of a new lease.
#[tokio::test(start_paused = true)]
async fn a_client_that_no_other_one_challenges_keeps_the_lock_for_longer_and_longer() {
    let redlock = client(&nodes(3));
    let leases = Arc::new(Mutex::new(BTreeSet::new()));
    let end = Instant::now() + 3000 * MS;
    let tasks = (0..10).map(|_| {
        let (redlock, leases) = (redlock.clone(), Arc::clone(&leases));
        async move {
            while Instant::now() < end {
                let guard = redlock.lock("r").await.unwrap();
                leases.lock().insert(value(&redlock));
                sleep(MS).await;
                guard.release().await.unwrap();
            }
        }
    });
    join_all(tasks).await;
    let count = leases.lock().len();
    // 20 ms, twice as long each time, and 300 ms in the end; 150 leases of 20 ms would be too many.
    assert!((5..25).contains(&count), "{count} leases in 3 s");
}

#[tokio::test(start_paused = true)]
async fn a_lease_goes_on_only_if_it_is_as_good_as_a_new_one() {
    let minute = |redlock: &Redlock| redlock.lock("r").ttl(MINUTE).auto_extend(false);
    for (what, passes, age) in [("new", true, 0), ("two thirds", true, 19), ("less", false, 20)] {
        let redlock = client(&nodes(3));
        let first = minute(&redlock).await.unwrap();
        let mine = value(&redlock);
        // The streak must not be the reason.
        sleep(Duration::from_secs(age)).await;
        redlock.client().queues.begin_anew("redlock:r");
        let second = tokio::spawn(minute(&redlock).into_future());
        sleep(MS).await;
        drop(first);
        let _second = second.await.unwrap().unwrap();
        assert_eq!(value(&redlock) == mine, passes, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_does_not_suit_the_next_waiter_is_not_passed_on() {
    type Change = fn(crate::LockRequest) -> crate::LockRequest;
    let changes: [(&str, Change); 4] = [
        ("its keys would outlive a crash for longer", |next| next.ttl(MINUTE / 10)),
        ("its keys are to stay", |next| next.min_hold(MINUTE)),
        ("other clocks", |next| next.clock_drift_factor(0.02)),
        ("a longer ttl", |next| next.ttl(MINUTE)),
    ];
    for (why, change) in changes {
        let redlock = client(&nodes(3));
        let first = redlock.lock("r").await.unwrap();
        let mine = value(&redlock);
        let second = tokio::spawn(change(redlock.lock("r")).into_future());
        sleep(MS).await;
        drop(first);
        let second = second.await.unwrap().unwrap();
        assert_ne!(value(&redlock), mine, "{why}");
        drop(second);
    }
}

#[tokio::test(start_paused = true)]
async fn a_min_hold_that_is_not_over_keeps_the_next_waiter_waiting() {
    let redlock = client(&nodes(3));
    let first = redlock.lock("r").min_hold(MINUTE / 2).await.unwrap();
    let begun = Instant::now();
    let second = waiting(&redlock, MINUTE).await;
    drop(first);
    let _second = second.await.unwrap().unwrap();
    assert!(begun.elapsed() >= MINUTE / 2 && begun.elapsed() < MINUTE / 2 + 100 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_renewal_is_not_confirmed_is_not_passed_on() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let first = redlock.lock("r").await.unwrap();
    let mine = value(&redlock);
    let second = waiting(&redlock, MINUTE).await;
    nodes.iter().for_each(MemoryNode::hang);
    first.extend(MINUTE / 2).await.unwrap_err();
    nodes.iter().for_each(MemoryNode::resume);
    drop(first);
    let _second = second.await.unwrap().unwrap();
    assert_ne!(value(&redlock), mine);
}

#[tokio::test(start_paused = true)]
async fn a_lost_hold_does_not_block_the_queue() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let lost = redlock.lock("r").auto_extend(false).await.unwrap();
    let next = waiting(&redlock, MINUTE).await;
    lost.lost().await;
    let next = next.await.unwrap().unwrap();
    assert!(next.is_valid() && !lost.is_valid());
    drop(lost);
    sleep(MS).await;
    assert!(next.is_valid() && redlock.try_lock("r").await.unwrap_err().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_goes_away_leaves_no_trace() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let first = redlock.lock("r").await.unwrap();
    let gone = waiting(&redlock, MINUTE).await;
    let next = waiting(&redlock, MINUTE).await;
    gone.abort();
    drop(first);
    drop(next.await.unwrap().unwrap());

    // The waiter has been given the lease already.
    let first = redlock.lock("r").await.unwrap();
    let mut gone = redlock.lock("r").into_future();
    assert!((&mut gone).now_or_never().is_none());
    drop(first);
    drop(gone);
    sleep(10 * MS).await;
    assert!(are_empty(&nodes));

    // The waiter is the front of the queue.
    let other = client(&nodes);
    let theirs = other.lock("r").await.unwrap();
    let front = waiting(&redlock, MINUTE).await;
    let next = waiting(&redlock, MINUTE).await;
    front.abort();
    drop(theirs);
    drop(timeout(100 * MS, next).await.unwrap().unwrap().unwrap());
    sleep(100 * MS).await;
    assert!(no_lines(&redlock) && no_lines(&other));
    assert!(are_empty(&nodes));
}

#[tokio::test(start_paused = true)]
async fn a_process_lets_others_in() {
    let nodes = nodes(5);
    let clients = [client(&nodes), client(&nodes), client(&nodes)];
    let turns: Vec<Arc<AtomicUsize>> = clients.iter().map(|_| Arc::default()).collect();
    let end = Instant::now() + Duration::from_secs(10);
    let mut tasks = Vec::new();
    for (process, redlock) in clients.iter().enumerate() {
        // One of the clients has a single task: it has to get its share, and to give the others
        // theirs.
        for _ in 0..if process == 0 { 1 } else { 4 } {
            let (redlock, turns) = (redlock.clone(), Arc::clone(&turns[process]));
            tasks.push(tokio::spawn(async move {
                while Instant::now() < end {
                    let begun = Instant::now();
                    let _guard = redlock.lock("r").await.unwrap();
                    assert!(begun.elapsed() < 250 * MS, "waited for {:?}", begun.elapsed());
                    sleep(MS).await;
                    turns.fetch_add(1, SeqCst);
                }
            }));
        }
    }
    join_all(tasks).await.into_iter().for_each(|task| task.unwrap());
    let turns: Vec<usize> = turns.iter().map(|turns| turns.load(SeqCst)).collect();
    let all: usize = turns.iter().sum();
    assert!(turns.iter().all(|turns| *turns >= all / 6), "{turns:?}");
    assert!(all > 7000, "{turns:?} in 10 s");
}

/// Another thread ends every hold just as this hold gets the lock.
#[tokio::test(start_paused = true)]
async fn a_hold_that_ends_before_its_queue_knows_it_does_not_block_the_queue() {
    let redlock = client(&nodes(3));
    let lease = {
        let guard = redlock.lock("r").await.unwrap();
        guard.hold().lease()
    };
    sleep(MINUTE).await;
    let client = redlock.client();
    let (key, terms) = (client.key("r"), client.settings.terms(&LockOptions::new()).unwrap());
    let reading = client.nodes.clock.read();
    let now = reading.now;
    let joined = client.queues.join(&key, Wants::new(&terms, false), now);
    let Joined::First(front) = joined else { panic!() };
    let hold = client.leases.hold(
        crate::resources::Resources::One("r".into()),
        lease,
        &terms,
        now,
        now,
        None,
    );
    assert!(client.leases.add(&hold, reading));
    drop(release::end_all(client));
    front.acquired(&hold, now);
    drop(LockGuard::new(client, hold));
    assert!(no_lines(&redlock));
    drop(redlock.try_lock("r").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_comes_back_to_its_queue_has_its_place_again_however_full_it_is() {
    let redlock = Redlock::builder().nodes(nodes(1)).max_waiters(2).build().unwrap();
    let queues = &redlock.client().queues;
    let wants = Wants::new(&redlock.client().settings.terms(&LockOptions::new()).unwrap(), false);
    let (key, now) = (Arc::from("line"), || redlock.client().nodes.clock.now());
    let Joined::First(back) = queues.rejoin(&key, wants, now()) else { panic!("it is empty") };
    let mut waiting = Vec::new();
    let mut left_at = now();
    for place in 0..3 {
        sleep(MS).await;
        if place == 1 {
            // It came here, and had a turn beside the front.
            left_at = now();
            sleep(MS).await;
        }
        match queues.join(&key, wants, now()) {
            Joined::Waiting(pending) => waiting.push(Box::pin(pending.turn(MINUTE))),
            _ => assert_eq!(place, 2, "there is room for two"),
        }
    }
    let Joined::Waiting(again) = queues.rejoin(&key, wants, left_at) else { panic!("no room") };
    waiting.insert(1, Box::pin(again.turn(MINUTE)));
    drop(back);
    for (place, turn) in waiting.into_iter().enumerate() {
        drop(turn.now_or_never().unwrap_or_else(|| panic!("{place}")).unwrap());
    }
    assert!(queues.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_closed_gives_no_turns_beside_its_queues() {
    let redlock = client(&nodes(1));
    let queues = &redlock.client().queues;
    let wants = Wants::new(&redlock.client().settings.terms(&LockOptions::new()).unwrap(), false);
    let (key, now) = (Arc::from("line"), redlock.client().nodes.clock.now());
    let _front = queues.rejoin(&key, wants, now);
    queues.close();
    for queue_name in [key, Arc::from("another")] {
        let joined = queues.rejoin(&queue_name, wants, now);
        assert!(matches!(joined, Joined::Refused(_)));
        assert!(queues.alone(&queue_name, now).is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_refused_beside_the_front_again_and_again_keeps_its_place() {
    let nodes = nodes(3);
    let (redlock, other) = (client(&nodes), client(&nodes));
    let _writer = other.lock("r").await.unwrap();
    for _ in 0..3 {
        tokio::spawn(redlock.lock("r").shared().wait(MINUTE).into_future());
        sleep(2 * MS).await;
    }
    let (queues, queue_name) =
        (&redlock.client().queues, crate::wait::queue_of_readers("redlock:r"));
    let next = queues.next_since(&queue_name).unwrap();
    for _ in 0..3 {
        queues.let_readers_in(&queue_name, 1, None);
        assert!(queues.next_since(&queue_name).unwrap() > next, "it asks");
        sleep(MS).await;
        assert_eq!(queues.next_since(&queue_name), Some(next), "it is back");
    }
}
