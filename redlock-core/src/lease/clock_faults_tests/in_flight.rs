//! The process, or its machine, stands still while commands or a lease are on their way.

use super::*;

/// Checks that a lock is refused when `freeze` happens between the questions and the answers.
async fn refused_through(freeze: impl FnOnce(&ManualClock)) -> (Redlock, Vec<MemoryNode>) {
    let nodes = nodes(3);
    let (redlock, clock) = doubter(&nodes);
    redlock.lock("warm").await.unwrap().release().await.unwrap();
    nodes.iter().for_each(|node| node.slow(Duration::from_millis(10)));
    let asking = tokio::spawn(redlock.try_lock("r").into_future());
    sleep(Duration::from_millis(5)).await;
    freeze(&clock);
    let error = asking.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("came too late"), "{error}");
    (redlock, nodes)
}

/// The process was stopped between its SETs and their answers (rule 4).
#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_too_late_is_no_quorum() {
    let (_redlock, nodes) = refused_through(|clock| clock.sleep(TTL)).await;
    sleep(Duration::from_millis(100)).await;
    assert!(are_empty(&nodes));
}

/// The machine was frozen in between. Only the wall clock shows it.
#[tokio::test(start_paused = true)]
async fn a_grant_that_came_through_a_freeze_is_not_relied_on() {
    let (redlock, _) = refused_through(|clock| clock.wall_ahead.store(JUMP, SeqCst)).await;
    assert!(redlock.try_lock("r").await.unwrap().is_valid());
}

/// The process was stopped past the deadline while a renewal was in flight, and reads the answers
/// before any task has looked at the clock. Another client may have had the lock meanwhile (rule
/// 7).
#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_read_after_the_deadline_counts_for_nothing() {
    let nodes = nodes(3);
    let (redlock, clock) = doubter(&nodes);
    let guard = redlock.lock("r").auto_extend(false).await.unwrap();
    sleep(TTL * 2 / 3).await;
    nodes[2].remove("redlock:r");
    nodes.iter().for_each(|node| node.slow(Duration::from_millis(10)));
    let extending = tokio::spawn({
        let (client, hold) = (redlock.client().clone(), guard.hold().clone());
        async move { crate::op::extend::extend(&client, &hold, TTL).await }
    });
    sleep(Duration::from_millis(5)).await;
    clock.sleep(TTL / 2);
    let error = extending.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::Expired, .. }), "{error}");
    assert!(!guard.is_valid());
    sleep(Duration::from_millis(20)).await;
    assert!(nodes[2].keys().is_empty(), "and it heals nothing");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_passed_on_through_a_freeze_is_not_relied_on() {
    let (redlock, clock) = doubter(&nodes(3));
    let first = redlock.lock("r").await.unwrap();
    let mut next = redlock.lock("r").into_future();
    assert!((&mut next).now_or_never().is_none());
    drop(first);
    // The next waiter has been given the lease, and has not looked yet.
    clock.wall_ahead.store(JUMP, SeqCst);
    assert!(next.await.unwrap().is_valid());
}

/// The doubt took the numbers, so that the lease is renewed as it is passed on.
#[tokio::test(start_paused = true)]
async fn row_09_a_lease_that_draws_new_numbers_forgets_what_the_clock_did_before() {
    let (redlock, clock) = doubter(&nodes(3));
    let first = redlock.lock("r").fenced().await.unwrap();
    let full = first.validity();
    clock.wall_ahead.store(JUMP, SeqCst);
    assert!(!first.is_valid());
    sleep(Duration::from_millis(10)).await;
    assert!(first.is_valid(), "a quorum has renewed it");
    let mut next = redlock.lock("r").fenced().into_future();
    assert!((&mut next).now_or_never().is_none());
    clock.wall_ahead.store(JUMP + 80_000_000, SeqCst);
    drop(first);
    assert_eq!(next.await.unwrap().validity(), full);
}

/// The process was stopped after the guard was dropped and before the node's task ran. The delete
/// has waited too long to be sent as it is, and is owed at once (rule 5).
#[tokio::test(start_paused = true)]
async fn a_release_that_a_stopped_process_could_not_send_is_sent_when_it_goes_on() {
    let nodes = nodes(3);
    let (redlock, clock) = doubter(&nodes);
    drop(redlock.lock("r").await.unwrap());
    clock.sleep(Duration::from_secs(1));
    sleep(Duration::from_secs(2)).await;
    assert!(are_empty(&nodes));
}
