//! Which nodes clear a doubt, and where a missing key is set again.

use super::*;

/// It was asked for the lock while it was out of reach, and set the key after another client had held the lock.
#[tokio::test(start_paused = true)]
async fn row_09_a_node_that_had_not_confirmed_the_lock_clears_no_doubt() {
    for (is_released, confirms) in [(false, false), (false, true), (true, false), (true, true)] {
        let nodes = nodes(3);
        let (redlock, clock) = doubter(&nodes);
        drop(redlock.lock("warm").await.unwrap());
        if !confirms {
            nodes[2].slow(Duration::from_millis(200));
        }
        let guard = redlock.lock("r").await.unwrap();
        // The time for its answer passes, and its `SET` runs all the same.
        sleep(Duration::from_millis(500)).await;
        nodes[2].slow(Duration::ZERO);
        assert_eq!(nodes[2].keys(), ["redlock:r"]);
        assert!(nodes[1].remove("redlock:r"));
        clock.wall_ahead.store(JUMP, SeqCst);
        if is_released {
            let expected = if confirms { Released::Ours } else { Released::AlreadyLost };
            assert_eq!(guard.release().await.unwrap(), expected);
        } else {
            assert!(!guard.is_valid(), "in doubt");
            sleep(Duration::from_secs(1)).await;
            assert_eq!(guard.is_valid(), confirms);
        }
    }
}

/// The renewal was sent before the freeze. Its answers may be as late as the first ones.
#[tokio::test(start_paused = true)]
async fn row_09_a_node_that_confirms_in_the_doubt_clears_no_doubt() {
    for before_the_freeze in [false, true] {
        let nodes = nodes(3);
        let (redlock, clock) = doubter(&nodes);
        drop(redlock.lock("warm").await.unwrap());
        nodes[2].slow(Duration::from_millis(200));
        let guard = redlock.lock("r").await.unwrap();
        sleep(Duration::from_millis(500)).await;
        assert!(nodes[1].remove("redlock:r"));
        let answers_after = Duration::from_millis(20);
        nodes.iter().for_each(|node| node.slow(answers_after));
        let pause = if before_the_freeze { answers_after * 2 } else { answers_after / 2 };
        let freezes = async {
            sleep(pause).await;
            clock.wall_ahead.store(JUMP, SeqCst);
        };
        let (extended, ()) = tokio::join!(guard.extend(TTL), freezes);
        assert_eq!(extended.is_ok(), before_the_freeze, "{extended:?}");
        assert!(!guard.is_valid(), "in doubt");
        sleep(Duration::from_secs(1)).await;
        assert_eq!(guard.is_valid(), before_the_freeze);
    }
}

/// Another client may have the lock on the node by now.
#[tokio::test(start_paused = true)]
async fn row_09_a_key_that_is_missing_is_not_set_again_in_a_doubt() {
    for freezes in [false, true] {
        let nodes = nodes(3);
        let (redlock, clock) = doubter(&nodes);
        let guard = redlock.lock("r").await.unwrap();
        assert!(nodes[1].remove("redlock:r"));
        nodes[1].slow(Duration::from_millis(20));
        guard.extend(TTL).await.unwrap();
        if freezes {
            clock.wall_ahead.store(JUMP, SeqCst);
        }
        // Its answer, and what it was asked then.
        sleep(Duration::from_millis(45)).await;
        assert_eq!(nodes[1].keys().is_empty(), freezes);
    }
}

/// It does not help to clear the doubt. It has the lock again once others have cleared it.
#[tokio::test(start_paused = true)]
async fn row_09_a_node_that_never_had_the_lock_gets_it_when_the_doubt_is_cleared() {
    let nodes = nodes(3);
    nodes[2].stop();
    let (redlock, clock) = doubter(&nodes);
    let guard = redlock.lock("r").await.unwrap();
    nodes[2].start();
    sleep(Duration::from_secs(1)).await;
    assert!(nodes[2].keys().is_empty());
    clock.wall_ahead.store(JUMP, SeqCst);
    assert!(!guard.is_valid(), "in doubt");
    sleep(Duration::from_millis(50)).await;
    assert!(guard.is_valid());
    assert_eq!(nodes[2].keys(), ["redlock:r"]);
}
