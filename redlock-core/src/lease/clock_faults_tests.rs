//! Rows 9 and 20 of the fault table: clocks that stop, jump or run at another rate, over in-memory
//! nodes on paused time. The other rows are in `tests/tests/faults`, where clocks are real.

mod in_flight;
mod voters;

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::FutureExt;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    LockError, LostReason, MemoryNode, Redlock, Released,
    clock::manual::ManualClock,
    testing::{are_empty, nodes},
};

const TTL: Duration = Duration::from_secs(9);

fn doubter(nodes: &[MemoryNode]) -> (Redlock, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let redlock = Redlock::builder().nodes(nodes).ttl(TTL).clock(Arc::clone(&clock) as _);
    (redlock.build().unwrap(), clock)
}

/// Well past the drift allowance of `TTL`.
const JUMP: i64 = 5_000_000_000;

#[tokio::test(start_paused = true)]
async fn row_09_a_wall_clock_that_jumps_ahead_is_a_doubt_that_a_quorum_clears() {
    let nodes = nodes(3);
    let (redlock, clock) = doubter(&nodes);
    let guard = redlock.lock("r").await.unwrap();
    assert!(guard.is_valid());
    clock.wall_ahead.store(JUMP, SeqCst);
    assert!(!guard.is_valid(), "in doubt");
    sleep(Duration::from_millis(10)).await;
    assert!(guard.is_valid(), "a quorum has renewed it");
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
}

/// A clock that was set back by 20 s and then missed 15 s leads by 5 s less than before.
const SET_BACK: i64 = -20_000_000_000;
const AFTER_THE_FREEZE: i64 = SET_BACK + 15_000_000_000;

#[tokio::test(start_paused = true)]
async fn row_09_a_clock_that_is_set_back_does_not_hide_a_freeze() {
    let (redlock, clock) = doubter(&nodes(3));
    let guard = redlock.lock("r").auto_extend(false).await.unwrap();
    sleep(Duration::from_millis(10)).await;
    clock.wall_ahead.store(SET_BACK, SeqCst);
    // The test does not ask for the validity. The client looks at the clock by itself.
    sleep(Duration::from_millis(100)).await;
    clock.wall_ahead.store(AFTER_THE_FREEZE, SeqCst);
    assert!(!guard.is_valid(), "in doubt");
    sleep(Duration::from_millis(10)).await;
    assert!(guard.is_valid(), "a quorum has renewed it");
    sleep(Duration::from_secs(1)).await;
    assert!(guard.is_valid(), "and it stays so");
}

#[tokio::test(start_paused = true)]
async fn row_09_a_judgement_sees_that_a_clock_is_set_back() {
    let (redlock, clock) = doubter(&nodes(3));
    let guard = redlock.lock("r").await.unwrap();
    let before = guard.validity();
    clock.wall_ahead.store(SET_BACK, SeqCst);
    assert_eq!(guard.validity(), before, "no doubt by itself");
    clock.wall_ahead.store(AFTER_THE_FREEZE, SeqCst);
    assert!(!guard.is_valid(), "in doubt");
}

/// The hold is judged by the round that its deadline counts from, not by the round that took the
/// lock.
#[tokio::test(start_paused = true)]
async fn row_09_a_renewal_forgets_what_the_clock_did_before_it() {
    let (redlock, clock) = doubter(&nodes(3));
    let guard = redlock.lock("r").await.unwrap();
    let before = guard.validity();
    clock.wall_ahead.store(80_000_000, SeqCst);
    assert_eq!(before - guard.validity(), Duration::from_millis(80));
    // Its renewal is due, and its validity is that of its first moment.
    sleep(TTL / 3).await;
    let moment = Duration::from_millis(100);
    assert!(before - guard.validity() < moment, "{:?}", guard.validity());
    let before = guard.validity();
    clock.wall_ahead.store(160_000_000, SeqCst);
    assert_eq!(before - guard.validity(), Duration::from_millis(80), "and no doubt");
}

/// Neither of the freezes is a doubt, and both together are more than the allowance for drift.
#[tokio::test(start_paused = true)]
async fn row_09_a_clock_that_is_set_back_between_two_freezes_hides_neither() {
    const FREEZE: i64 = 60_000_000;
    let (redlock, clock) = doubter(&nodes(3));
    let guard = redlock.lock("r").auto_extend(false).await.unwrap();
    let before = guard.validity();
    clock.wall_ahead.store(FREEZE, SeqCst);
    assert_eq!(before - guard.validity(), Duration::from_millis(60));
    clock.wall_ahead.store(SET_BACK, SeqCst);
    assert_eq!(before - guard.validity(), Duration::from_millis(60), "nothing more comes off");
    clock.wall_ahead.store(SET_BACK + FREEZE, SeqCst);
    assert!(!guard.is_valid(), "in doubt");
}

/// A doubt is cleared by a quorum alone, in a round that started after the freeze.
#[tokio::test(start_paused = true)]
async fn row_09_a_clock_that_is_set_back_clears_no_doubt() {
    let nodes = nodes(3);
    let (redlock, clock) = doubter(&nodes);
    let guard = redlock.lock("r").await.unwrap();
    nodes.iter().for_each(|node| node.slow(Duration::from_millis(10)));
    let early = tokio::spawn({
        let (client, hold) = (redlock.client().clone(), guard.hold().clone());
        async move { crate::op::extend::extend(&client, &hold, TTL).await }
    });
    sleep(Duration::from_millis(5)).await;
    clock.wall_ahead.store(JUMP, SeqCst);
    assert!(!guard.is_valid(), "in doubt");
    clock.wall_ahead.store(0, SeqCst);
    assert!(!guard.is_valid(), "still in doubt");
    sleep(Duration::from_millis(7)).await;
    assert!(!early.is_finished() && !guard.is_valid(), "that was asked before");
    sleep(Duration::from_millis(4)).await;
    assert!(guard.is_valid(), "a quorum has renewed it");
    early.await.unwrap().unwrap();
    assert!(guard.is_valid() && guard.validity() > TTL / 2, "the extension, too, was asked anew");
}

/// The drift allowance is for clocks that run at other rates. Time that a clock has missed comes
/// off the validity, and must not use up the same milliseconds.
#[tokio::test(start_paused = true)]
async fn row_09_time_that_a_clock_missed_comes_off_the_validity() {
    let (redlock, clock) = doubter(&nodes(3));
    let guard = redlock.lock("r").auto_extend(false).await.unwrap();
    let before = guard.validity();
    clock.wall_ahead.store(80_000_000, SeqCst);
    assert_eq!(before - guard.validity(), Duration::from_millis(80), "and no doubt");
    let begun = Instant::now();
    guard.lost().await;
    let left = before - Duration::from_millis(80);
    assert!(begun.elapsed().abs_diff(left) < Duration::from_secs(1), "{:?}", begun.elapsed());
    guard.extend(TTL).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn row_09_a_doubt_that_no_quorum_clears_is_a_loss() {
    let nodes = nodes(3);
    let (redlock, clock) = doubter(&nodes);
    let guard = redlock.lock("r").await.unwrap();
    nodes.iter().take(2).for_each(MemoryNode::hang);
    clock.wall_ahead.store(JUMP, SeqCst);
    assert!(!guard.is_valid());
    let begun = Instant::now();
    guard.lost().await;
    assert!(begun.elapsed() < Duration::from_millis(200), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn row_09_a_body_is_not_polled_while_in_doubt_and_goes_on_after() {
    let nodes = nodes(3);
    let (redlock, clock) = doubter(&nodes);
    let polled = Arc::new(AtomicBool::new(false));
    let body = {
        let (clock, polled) = (Arc::clone(&clock), Arc::clone(&polled));
        async move |lock: &crate::LockHandle| {
            nodes.iter().for_each(MemoryNode::hang);
            clock.wall_ahead.store(JUMP, SeqCst);
            let early = tokio::spawn({
                let (polled, nodes) = (Arc::clone(&polled), nodes.clone());
                async move {
                    sleep(Duration::from_millis(40)).await;
                    let early = polled.load(SeqCst);
                    nodes.iter().for_each(MemoryNode::resume);
                    early
                }
            });
            sleep(Duration::from_millis(10)).await;
            polled.store(true, SeqCst);
            assert!(lock.is_valid());
            early.await.unwrap()
        }
    };
    let early = redlock.lock("r").run(body).await.unwrap();
    assert!(!early, "the body ran on while its lock was in doubt");
}

#[tokio::test(start_paused = true)]
async fn row_09_a_machine_that_slept_has_lost_what_ran_out_meanwhile() {
    let (redlock, clock) = doubter(&nodes(3));
    let guard = redlock.lock("r").await.unwrap();
    let waiting = tokio::spawn(guard.lost());
    sleep(Duration::from_millis(10)).await;
    assert!(guard.is_valid() && !waiting.is_finished());
    // Tokio's timers have not moved: this is what `Instant` shows after a suspend.
    clock.sleep(TTL);
    assert!(!guard.is_valid(), "before anything else has run");
    guard.lost().await;
    timeout(TTL, waiting).await.unwrap().unwrap();
    let error = guard.extend(TTL).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::Expired, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn row_09_a_body_is_not_polled_once_its_machine_has_slept() {
    let (redlock, clock) = doubter(&nodes(3));
    let body = async |_: &crate::LockHandle| {
        clock.sleep(TTL);
        tokio::task::yield_now().await;
        panic!("polled without a valid lock");
    };
    let outcome: Result<(), _> = redlock.lock("r").run(body).await;
    let Err(LockError::Lost { reason, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(reason, LostReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn row_09_a_task_that_waits_for_the_loss_is_told_within_a_second_of_waking_up() {
    let (redlock, clock) = doubter(&nodes(3));
    let guard = redlock.lock("r").await.unwrap();
    let waiting = tokio::spawn(guard.lost());
    sleep(Duration::from_millis(10)).await;
    clock.sleep(TTL);
    timeout(Duration::from_secs(1), waiting).await.unwrap().unwrap();

    let nodes = nodes(3);
    let (redlock, clock) = doubter(&nodes);
    let guard = redlock.lock("r").await.unwrap();
    let waiting = tokio::spawn(guard.lost());
    sleep(Duration::from_millis(10)).await;
    nodes.iter().for_each(MemoryNode::hang);
    clock.wall_ahead.store(JUMP, SeqCst);
    let limit = Duration::from_secs(1) + 2 * Duration::from_millis(50);
    timeout(limit, waiting).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn row_09_a_doubt_does_not_put_the_end_off() {
    let nodes = nodes(3);
    let (redlock, clock) = doubter(&nodes);
    let guard = redlock.lock("r").auto_extend(false).await.unwrap();
    let left = Duration::from_millis(20);
    sleep(guard.validity() - left).await;
    nodes.iter().for_each(MemoryNode::hang);
    clock.wall_ahead.store(JUMP, SeqCst);
    assert!(!guard.is_valid(), "in doubt");
    timeout(left + Duration::from_millis(2), guard.lost()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn row_09_a_lock_that_a_quorum_still_had_at_its_release_was_ours() {
    let nodes = nodes(3);
    let (redlock, clock) = doubter(&nodes);
    let guard = redlock.lock("r").await.unwrap();
    clock.wall_ahead.store(JUMP, SeqCst);
    assert_eq!(guard.release().await.unwrap(), Released::Ours, "NTP has set the clock, no more");

    let guard = redlock.lock("r").await.unwrap();
    clock.wall_ahead.store(2 * JUMP, SeqCst);
    nodes.iter().take(2).for_each(MemoryNode::clear);
    let begun = Instant::now();
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
    assert!(begun.elapsed() < Duration::from_millis(50), "{:?}", begun.elapsed());
}

/// The node that says first that it does not have the lock never had it.
#[tokio::test(start_paused = true)]
async fn row_09_a_lock_in_doubt_was_ours_although_one_node_never_had_it() {
    let nodes = nodes(3);
    let (redlock, clock) = doubter(&nodes);
    drop(redlock.lock("warm").await.unwrap());
    nodes[0].stop();
    let guard = redlock.lock("r").auto_extend(false).await.unwrap();
    nodes[1].slow(Duration::from_millis(1));
    nodes[2].slow(Duration::from_millis(20));
    clock.wall_ahead.store(JUMP, SeqCst);
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
}

/// Of two nodes that say nothing of it, one is down and the other has lost the key.
#[tokio::test(start_paused = true)]
async fn row_09_a_release_in_doubt_waits_for_the_answers_of_a_quorum() {
    for (is_kept, released) in [(true, Released::Ours), (false, Released::AlreadyLost)] {
        let nodes = nodes(5);
        let (redlock, clock) = doubter(&nodes);
        let guard = redlock.lock("r").auto_extend(false).await.unwrap();
        sleep(Duration::from_millis(1)).await;
        nodes[..2].iter().for_each(MemoryNode::stop);
        let lost = if is_kept { 2..2 } else { 2..3 };
        nodes[lost].iter().for_each(MemoryNode::clear);
        nodes[3..].iter().for_each(|node| node.slow(Duration::from_millis(10)));
        sleep(Duration::from_millis(1)).await;
        clock.wall_ahead.store(JUMP, SeqCst);
        assert_eq!(guard.release().await.unwrap(), released);
    }
}

/// As a time service does that corrects a clock little by little: no single look finds a jump.
#[tokio::test(start_paused = true)]
async fn row_09_a_lock_is_lost_in_time_on_a_clock_that_is_slewed() {
    let nodes = nodes(3);
    let (redlock, clock) = doubter(&nodes);
    let guard = redlock.lock("r").auto_extend(false).await.unwrap();
    let lost = tokio::spawn(guard.lost());
    for _ in 0..70 {
        sleep(Duration::from_millis(50)).await;
        clock.wall_ahead.fetch_add(1_000_000, SeqCst);
    }
    sleep(guard.validity() - Duration::from_millis(2)).await;
    assert!(guard.is_valid() && !lost.is_finished());
    sleep(Duration::from_millis(30)).await;
    assert!(!guard.is_valid() && lost.is_finished());
}

/// Whether the nodes still have the lock at the last moment at which its holder relies on it,
/// when their clocks run at this rate.
async fn outlives_its_validity(rate: f64) -> bool {
    let nodes = nodes(3);
    nodes.iter().for_each(|node| node.clock_rate(rate));
    let client = || Redlock::builder().nodes(&nodes).ttl(TTL).clock_drift_factor(0.01).build();
    let (redlock, other) = (client().unwrap(), client().unwrap());
    let guard = redlock.lock("r").auto_extend(false).await.unwrap();
    while guard.validity() > Duration::from_millis(1) {
        sleep(guard.validity() - Duration::from_millis(1)).await;
    }
    assert!(guard.is_valid());
    other.try_lock("r").await.is_err()
}

#[tokio::test(start_paused = true)]
async fn row_20_clocks_within_the_drift_factor_keep_a_lock_for_all_of_its_validity() {
    for rate in [0.98, 0.991, 1.0, 1.009, 1.01] {
        assert!(outlives_its_validity(rate).await, "at {rate}");
    }
    assert!(!outlives_its_validity(1.02).await, "the factor would not be needed");
}

/// The deadline of a long extension counts from before the freeze, and the keys no longer live as
/// long as that.
#[tokio::test(start_paused = true)]
async fn row_09_a_cleared_doubt_leaves_no_more_than_the_renewal_gave() {
    let nodes = nodes(3);
    let (redlock, clock) = doubter(&nodes);
    let guard = redlock.lock("r").await.unwrap();
    guard.extend(Duration::from_secs(60)).await.unwrap();
    guard.extend(TTL).await.unwrap();
    assert!(guard.validity() > Duration::from_secs(55), "an extension never shortens");
    clock.wall_ahead.store(JUMP, SeqCst);
    assert!(!guard.is_valid());
    sleep(Duration::from_millis(10)).await;
    assert!(guard.is_valid(), "a quorum has renewed it");
    assert!(guard.validity() <= TTL, "{:?}", guard.validity());
}
