//! A turn that a client gives is its own, or that of another client. A node does not push to a client what that client
//! does: the answer names the waiter.

use super::*;
use crate::op::watch::Watch;

/// Whether a task reads, by its number and that of its turn.
type Reads = fn(u32, u32) -> bool;

/// Tasks of a client that hold the lock all the time.
fn holds(redlock: &Redlock, tasks: u32, hold: Duration, reads: Reads) -> Vec<JoinHandle<()>> {
    let task = |number| {
        let redlock = redlock.clone();
        tokio::spawn(async move {
            sleep(number * 7 * MS).await;
            for turn in 0.. {
                let request = redlock.lock("r").wait(5 * MINUTE);
                let request = if reads(number, turn) { request.shared() } else { request };
                let guard = request.await.unwrap();
                sleep(hold).await;
                guard.release().await.unwrap();
            }
        })
    };
    (0..tasks).map(task).collect()
}

/// The near clients have each turn that it is given used up before it has heard of the turn.
#[tokio::test(start_paused = true)]
async fn a_far_writer_gets_its_turns_beside_near_clients_that_read_and_write() {
    let all: [(&str, Reads); 4] = [
        ("all read", |_, _| true),
        ("every other task reads", |task, _| task % 2 == 0),
        ("three in four turns are for reading", |_, turn| turn % 4 > 0),
        ("all write", |_, _| false),
    ];
    for (what, reads) in all {
        for (clients, tasks) in [(1, 2), (1, 4), (2, 2), (4, 2)] {
            for hold in [MS, 5 * MS] {
                let nodes = nodes(3);
                let far = far_client(&nodes, 20 * MS);
                drop(far.lock("warm").await.unwrap());
                let near = (0..clients).map(|_| holds(&client(&nodes), tasks, hold, reads));
                let near: Vec<_> = near.flatten().collect();
                sleep(100 * MS).await;
                for _ in 0..10 {
                    let begun = Instant::now();
                    drop(far.lock("r").await.unwrap());
                    let took = begun.elapsed();
                    let told = || format!("{what}, {clients} clients of {tasks} tasks, {hold:?}");
                    assert!(took < 1000 * MS, "{}: {took:?}", told());
                }
                near.iter().for_each(|task| task.abort());
            }
        }
    }
}

/// A request that only tries has the request before it ask, which may be behind another client.
#[tokio::test(start_paused = true)]
async fn a_request_that_only_tries_takes_no_turn_through_the_request_before_it() {
    for is_next in [true, false] {
        let nodes = nodes(3);
        let [holder, other, ours] = [(); 3].map(|()| client(&nodes));
        for redlock in [&other, &ours] {
            drop(redlock.lock("warm").await.unwrap());
        }
        let held = holder.lock("r").await.unwrap();
        let mut ahead: Vec<_> = (0..if is_next { 1 } else { 2 }).map(|_| entry(&other)).collect();
        for entry in &mut ahead {
            assert!(matches!(entry.report().await, Report::At(_)));
        }
        let waits = waiting(&ours, MINUTE).await;
        sleep(10 * MS).await;
        drop(held);
        sleep(MS).await;
        assert_eq!(ahead[0].take_signal(), Some(Signal::Turn));
        let tries = || ours.try_lock("r").retry_delay(MS).into_future();
        for _ in 0..10 {
            assert!(tries().await.unwrap_err().is_held());
            sleep(MS).await;
        }
        assert!(!waits.is_finished());
        // Those before it have gone.
        drop(ahead);
        let begun = Instant::now();
        drop(waits.await.unwrap().unwrap());
        assert!(begun.elapsed() < 10 * MS, "{:?}", begun.elapsed());
    }
}

/// Tasks of a client without a quorum would pass the turn round without a pause.
#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_without_a_quorum_tells_no_task_of_its_own() {
    for (has_quorum, is_ours, told) in [
        (true, true, Some(Signal::Turn)),
        (false, true, None),
        (true, false, Some(Signal::Turn)),
        (false, false, Some(Signal::Turn)),
    ] {
        let nodes = nodes(3);
        let [holder, ours, theirs] = [(); 3].map(|()| client(&nodes));
        drop(theirs.lock("warm").await.unwrap());
        let first = with_turn(&holder, &ours).await;
        let mut next = entry(if is_ours { &ours } else { &theirs });
        assert!(matches!(next.report().await, Report::At(_)));
        if has_quorum {
            drop(first);
        } else {
            first.leave_to_others();
        }
        sleep(10 * MS).await;
        assert_eq!(next.take_signal(), told, "{has_quorum} {is_ours}");
    }
}

/// A watch of all nodes, and an entry that follows the lock.
async fn observed(redlock: &Redlock) -> (Watch, Entry) {
    let watch = watch(&redlock.client().nodes, &"redlock:r".into());
    let mut entry = entry(redlock);
    entry.report().await;
    entry.follow_lock(true);
    entry.report().await;
    (watch, entry)
}

/// A node reports the next change to a key, and not one of this client's own.
#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_when_a_reader_of_this_client_goes_before_another_one() {
    let nodes = nodes(3);
    let [ours, theirs] = [(); 2].map(|()| client(&nodes));
    let own = ours.lock("r").shared().await.unwrap();
    let other = theirs.lock("r").shared().await.unwrap();
    let (watch, mut entry) = observed(&ours).await;
    own.release().await.unwrap();
    sleep(10 * MS).await;
    assert!(!watch.is_free(), "the other has it");
    assert_eq!(entry.take_signal(), Some(Signal::Changed));
    entry.report().await;
    sleep(10 * MS).await;
    other.release().await.unwrap();
    assert!(timeout(10 * MS, watch.notified()).await.is_ok());
    assert_eq!(entry.take_signal(), Some(Signal::Turn));
}

/// What is left of a `min_hold` is a change of this client's own, too.
#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_when_this_client_leaves_the_key_for_the_rest_of_a_min_hold() {
    let nodes = nodes(3);
    let ours = client(&nodes);
    let held = ours.lock("r").min_hold(MINUTE).await.unwrap();
    let (watch, mut entry) = observed(&ours).await;
    held.release().await.unwrap();
    sleep(10 * MS).await;
    assert!(!watch.is_free(), "it is still held");
    entry.take_signal();
    nodes.iter().for_each(|node| assert!(node.remove("redlock:r")));
    assert!(timeout(10 * MS, watch.notified()).await.is_ok());
    assert_eq!(entry.take_signal(), Some(Signal::Changed));
}

/// The client with the turn has crashed. A node pushes nothing of this to the client that gave the turn.
#[tokio::test(start_paused = true)]
async fn a_task_hears_that_it_is_next_when_its_own_client_gives_the_turn() {
    for (holds_shared, waits_shared, most) in [(false, true, 0), (true, false, 110)] {
        let nodes = nodes(3);
        let [ours, theirs] = [(); 2].map(|()| client(&nodes));
        for redlock in [&ours, &theirs] {
            drop(redlock.lock("warm").await.unwrap());
        }
        let ask = |shared| if shared { ours.lock("r").shared() } else { ours.lock("r") };
        let held = ask(holds_shared).await.unwrap();
        let mut silent = entry(&theirs);
        assert!(matches!(silent.report().await, Report::At(_)));
        let waits = tokio::spawn(ask(waits_shared).into_future());
        sleep(10 * MS).await;
        let begun = Instant::now();
        held.release().await.unwrap();
        drop(waits.await.unwrap().unwrap());
        assert!(begun.elapsed() <= most * MS, "{holds_shared}: {:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_that_wait_for_the_locks_of_a_set_hear_of_their_turns_when_their_client_releases_it()
{
    let nodes = nodes(1);
    let ours = client(&nodes);
    let set = ours.lock_all(["a", "b"]).await.unwrap();
    let wait = |name| tokio::spawn(ours.lock(name).shared().into_future());
    let waits = [wait("a"), wait("b")];
    sleep(10 * MS).await;
    let begun = Instant::now();
    set.release().await.unwrap();
    for waits in waits {
        drop(waits.await.unwrap().unwrap());
    }
    assert!(begun.elapsed() < MS, "{:?}", begun.elapsed());
}

/// A waiter that hesitates waits for nothing else.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_waits_for_its_turn_alone_has_it_and_keeps_what_else_it_was_told() {
    let nodes = nodes(3);
    let [holder, other] = [(); 2].map(|()| client(&nodes));
    let held = holder.lock("r").await.unwrap();
    drop(other.lock("warm").await.unwrap());
    let mut waiter = entry(&other);
    assert!(matches!(waiter.report().await, Report::At(_)));
    waiter.follow_lock(true);
    waiter.report().await;
    assert!(waiter.turn().now_or_never().is_none());
    held.release().await.unwrap();
    timeout(MS, waiter.turn()).await.unwrap();
    assert!(waiter.has_turn() && waiter.had_turn());
    assert_eq!(waiter.take_signal(), Some(Signal::Changed));
}

/// The deletes of the lease have given that client the turn, and the `SET`s would be right behind them.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_too_late_for_its_lease_lets_the_client_go_first_that_was_woken() {
    let nodes = nodes(3);
    let [ours, other] = [client(&nodes), client(&nodes)];
    drop(other.lock("warm").await.unwrap());
    let guard = ours.lock("r").await.unwrap();
    let mut late = ours.lock("r").into_future().boxed();
    assert!(late.as_mut().now_or_never().is_none());
    let mut theirs = tokio::spawn(other.lock("r").into_future());
    sleep(5 * MS).await;
    drop(guard);
    sleep(15_000 * MS).await;
    assert!(!theirs.is_finished(), "the lease waits for the task");
    tokio::select! {
        biased;
        _ = late.as_mut() => panic!("it has taken the turn of the other client"),
        guard = &mut theirs => drop(guard.unwrap().unwrap()),
    }
    drop(late.await.unwrap());
}
