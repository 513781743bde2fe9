//! Lines and bells over in-memory nodes on paused time.

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::{FutureExt, future::join_all};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{Joined, Lines, Wants};
use crate::{
    LockError, LockGuard, MemoryNode, Redlock, Released, lease::Hold, op::release,
    options::LockOptions,
};

const MINUTE: Duration = Duration::from_secs(60);
const MS: Duration = Duration::from_millis(1);

fn nodes(count: usize) -> Vec<MemoryNode> {
    (0..count).map(|_| MemoryNode::new()).collect()
}

/// One that is woken or waits in vain.
fn client(nodes: &[MemoryNode]) -> Redlock {
    Redlock::builder().nodes(nodes).wait(5 * MINUTE).retry_delay(MINUTE).build().unwrap()
}

type Waiting = JoinHandle<Result<LockGuard, LockError>>;

/// Somebody who waits, after everybody before.
async fn waiting(redlock: &Redlock, wait: Duration) -> Waiting {
    let waiting = tokio::spawn(redlock.lock("r").wait(wait).into_future());
    sleep(MS).await;
    assert!(!waiting.is_finished());
    waiting
}

fn value(redlock: &Redlock) -> String {
    let holds = redlock.client().registry.all();
    let hold = holds.last().unwrap();
    let state = hold.state.lock();
    state.lease.claim.value.clone()
}

fn no_lines(redlock: &Redlock) -> bool {
    redlock.client().lines.is_empty()
}

#[tokio::test(start_paused = true)]
async fn what_is_let_go_of_passes_to_the_next_without_a_word_to_the_nodes() {
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
    assert!(redlock.memory_nodes().iter().all(|node| node.keys().is_empty()));
    assert!(no_lines(&redlock));
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

#[tokio::test(start_paused = true)]
async fn a_lease_goes_on_only_if_it_is_as_good_as_a_new_one() {
    let minute = |redlock: &Redlock| redlock.lock("r").ttl(MINUTE).auto_extend(false);
    for (what, passes, age) in [("new", true, 0), ("two thirds", true, 19), ("less", false, 20)] {
        let redlock = client(&nodes(3));
        let first = minute(&redlock).await.unwrap();
        let mine = value(&redlock);
        // Not for the streak's sake.
        sleep(Duration::from_secs(age)).await;
        redlock.client().lines.begin_anew("redlock:r");
        let second = tokio::spawn(minute(&redlock).into_future());
        sleep(MS).await;
        drop(first);
        let _second = second.await.unwrap().unwrap();
        assert_eq!(value(&redlock) == mine, passes, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_suits_the_next_one_badly_is_not_passed_on() {
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
async fn a_min_hold_that_is_not_used_up_keeps_the_next_one_waiting() {
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
async fn who_has_lost_the_lock_does_not_stand_in_the_way() {
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
async fn who_goes_away_leaves_no_trace() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let first = redlock.lock("r").await.unwrap();
    let gone = waiting(&redlock, MINUTE).await;
    let next = waiting(&redlock, MINUTE).await;
    gone.abort();
    drop(first);
    drop(next.await.unwrap().unwrap());

    // With the lease in hand already.
    let first = redlock.lock("r").await.unwrap();
    let mut gone = redlock.lock("r").into_future();
    assert!((&mut gone).now_or_never().is_none());
    drop(first);
    drop(gone);
    sleep(10 * MS).await;
    assert!(nodes.iter().all(|node| node.keys().is_empty()));

    // At the head of the line.
    let other = client(&nodes);
    let theirs = other.lock("r").await.unwrap();
    let head = waiting(&redlock, MINUTE).await;
    let next = waiting(&redlock, MINUTE).await;
    head.abort();
    drop(theirs);
    drop(timeout(100 * MS, next).await.unwrap().unwrap().unwrap());
    sleep(100 * MS).await;
    assert!(no_lines(&redlock) && no_lines(&other));
    assert!(nodes.iter().all(|node| node.keys().is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_process_lets_others_in() {
    let nodes = nodes(5);
    let clients = [client(&nodes), client(&nodes), client(&nodes)];
    let turns: Vec<Arc<AtomicUsize>> = clients.iter().map(|_| Arc::default()).collect();
    let end = Instant::now() + Duration::from_secs(10);
    let mut tasks = Vec::new();
    for (process, redlock) in clients.iter().enumerate() {
        // One of them has a single task: it has to get its share, and to give the others theirs.
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

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_by_a_release_elsewhere() {
    let nodes = nodes(5);
    let (ours, theirs) = (client(&nodes), client(&nodes));
    let guard = theirs.lock("r").await.unwrap();
    let next = waiting(&ours, MINUTE).await;
    drop(guard);
    let guard = timeout(20 * MS, next).await.unwrap().unwrap().unwrap();

    // Renewed meanwhile, and deleted by hand.
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

#[tokio::test(start_paused = true)]
async fn shutdown_tells_all_who_wait_and_nothing_is_passed_on() {
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
    assert!(nodes.iter().all(|node| node.keys().is_empty()) && no_lines(&redlock));
}

#[tokio::test(start_paused = true)]
async fn those_behind_are_told_what_the_one_in_front_was() {
    let nodes = nodes(3);
    nodes.iter().for_each(MemoryNode::stop);
    let redlock = client(&nodes);
    let head = waiting(&redlock, MINUTE).await;
    let behind = redlock.lock("r").wait(10 * MS).await.unwrap_err();
    for error in [behind, redlock.try_lock("r").await.unwrap_err()] {
        let LockError::NoQuorum { nodes, attempts, .. } = &error else { panic!("{error}") };
        assert_eq!((nodes.len(), *attempts), (3, 1));
    }
    assert!(!head.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_line_has_an_end() {
    let nodes = nodes(3);
    let redlock = Redlock::builder().nodes(&nodes).max_waiters(2).build().unwrap();
    let _first = redlock.lock("r").await.unwrap();
    let waiters = [waiting(&redlock, MINUTE).await, waiting(&redlock, MINUTE).await];
    let error = redlock.lock("r").into_future().now_or_never().unwrap().unwrap_err();
    assert!(error.is_held(), "{error}");
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));

    // Whatever the nodes said last.
    let nodes = self::nodes(3);
    nodes.iter().for_each(MemoryNode::stop);
    let redlock = Redlock::builder().nodes(&nodes).max_waiters(1).build().unwrap();
    let _waiters = [waiting(&redlock, MINUTE).await, waiting(&redlock, MINUTE).await];
    let error = redlock.lock("r").into_future().now_or_never().unwrap().unwrap_err();
    assert!(error.is_held(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn no_delay_is_too_long_to_stand_in_line_with() {
    let nodes = nodes(3);
    let (ours, theirs) = (client(&nodes), client(&nodes));
    let guard = theirs.lock("r").await.unwrap();
    let head = waiting(&ours, MINUTE).await;
    let behind = ours.lock("r").retry_delay(Duration::MAX).retry_jitter(Duration::MAX);
    let behind = tokio::spawn(behind.into_future());
    sleep(MINUTE / 2).await;
    drop(guard);
    drop(head.await.unwrap().unwrap());
    drop(behind.await.unwrap().unwrap());
}

/// Two of three did not answer: nobody need have the lock, although one node says that somebody has.
#[tokio::test(start_paused = true)]
async fn whether_a_lock_is_held_does_not_hang_on_whose_time_runs_out_first() {
    let nodes = nodes(3);
    let _theirs = client(&nodes[..1]).lock("r").await.unwrap();
    let ours = client(&nodes);
    drop(ours.lock("warm").await.unwrap());
    nodes[1..].iter().for_each(MemoryNode::hang);
    let error = ours.try_lock("r").await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn time_in_line_counts_as_retries() {
    let redlock = client(&nodes(3));
    let _first = redlock.lock("r").await.unwrap();
    let begun = Instant::now();
    let error = redlock.lock("r").retry_count(3).retry_delay(MS * 100).await.unwrap_err();
    assert!(error.is_held(), "{error}");
    assert_eq!(begun.elapsed(), 300 * MS);
}

/// Somebody on another thread ends every hold just as this one arrives.
#[tokio::test(start_paused = true)]
async fn a_hold_that_ends_before_its_line_knows_it_does_not_stay_in_the_way() {
    let redlock = client(&nodes(3));
    let lease = {
        let guard = redlock.lock("r").await.unwrap();
        guard.hold().state.lock().lease.clone()
    };
    sleep(MINUTE).await;
    let client = redlock.client();
    let (key, terms) = (client.key("r"), client.settings.terms(&LockOptions::new()).unwrap());
    let joined = Lines::join(client, &key, Wants::new(&terms));
    let Joined::Now(Ok(head)) = joined else { panic!() };
    let hold = Arc::new(Hold::new(client, "r".into(), lease, &terms, client.clock.now()));
    assert!(client.registry.add(&hold));
    release::end_all(client, true);
    head.acquired(&hold);
    drop(LockGuard::new(hold));
    assert!(no_lines(&redlock));
    drop(redlock.try_lock("r").await.unwrap());
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
    // So that the line stands back.
    sleep(25 * MS).await;
    drop(guard);
    let begun = Instant::now();
    let guard = redlock.lock("r").wait(MS).await;
    assert!(guard.is_err() || begun.elapsed() <= MS, "taken after {:?}", begun.elapsed());
}

/// Behind a head, what was heard long ago is no answer; what was heard just now is one.
#[tokio::test(start_paused = true)]
async fn who_does_not_wait_has_a_fresh_answer_at_once() {
    let nodes = nodes(3);
    let (ours, theirs) = (client(&nodes), client(&nodes));
    let guard = theirs.lock("r").await.unwrap();
    let head = ours.lock("r").retry_delay(200 * MS).retry_jitter(MINUTE);
    let head = tokio::spawn(head.into_future());
    for after in [10, 10, 199, 200, 250, 1000, 1000] {
        sleep(after * MS).await;
        let begun = Instant::now();
        let error = ours.lock("r").wait(Duration::ZERO).retry_delay(200 * MS).await.unwrap_err();
        assert!(error.is_held() && begun.elapsed() < 2 * MS, "{error} {:?}", begun.elapsed());
    }
    drop(guard);
    drop(head.await.unwrap().unwrap());
}

/// What the head before has heard is no newer for being handed on.
#[tokio::test(start_paused = true)]
async fn an_answer_that_was_handed_on_is_as_old_as_it_was() {
    let nodes = nodes(3);
    let (ours, theirs) = (client(&nodes), client(&nodes));
    let _guard = theirs.lock("r").await.unwrap();
    let head = waiting(&ours, MINUTE).await;
    let _next = waiting(&ours, MINUTE).await;
    sleep(MINUTE / 4).await;
    head.abort();
    sleep(MS).await;
    nodes.iter().for_each(MemoryNode::stop);
    sleep(MS).await;
    let error = ours.lock("r").wait(Duration::ZERO).retry_delay(200 * MS).await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
}

/// Not either when the turn that he is given comes with it.
#[tokio::test(start_paused = true)]
async fn who_does_not_wait_does_not_inherit_an_old_answer() {
    let nodes = nodes(3);
    let (ours, theirs) = (client(&nodes), client(&nodes));
    let _guard = theirs.lock("r").await.unwrap();
    let head = waiting(&ours, MINUTE).await;
    sleep(MINUTE / 4).await;
    nodes.iter().for_each(MemoryNode::hang);
    let asking = ours.lock("r").wait(Duration::ZERO).retry_delay(200 * MS);
    let asking = tokio::spawn(asking.into_future());
    sleep(MS).await;
    head.abort();
    let error = asking.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
}

/// Who does not stand back does not find out whether anybody else wants the lock.
#[tokio::test(start_paused = true)]
async fn who_does_not_wait_may_not_keep_the_lock_for_longer() {
    let redlock = client(&nodes(3));
    for _ in 0..400 {
        let guard = redlock.try_lock("r").await.unwrap();
        sleep(MS).await;
        drop(guard);
    }
    assert_eq!(format!("{:?}", redlock.client().lines).matches("span: 20ms").count(), 1);
}
