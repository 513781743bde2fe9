//! The events of nodes that come and go.

use super::*;

/// Servers close what is idle, and operators kill connections: the next one is there in no time.
#[tokio::test(start_paused = true)]
async fn a_connection_that_is_closed_at_rest_is_not_warned_of() {
    let events = Events::record();
    let node = MemoryNode::new();
    let redlock = client(std::slice::from_ref(&node));
    for life in [5 * MS, 2000 * MS] {
        for _ in 0..30 {
            drop(redlock.lock("r").await.unwrap());
            sleep(life).await;
            node.stop();
            node.start();
            sleep(100 * MS).await;
        }
    }
    // Never used, and closed after a while.
    for _ in 0..30 {
        sleep(1000 * MS).await;
        node.stop();
        node.start();
    }
    sleep(100 * MS).await;
    assert_eq!(events.warnings(), [""; 0]);
    assert!(redlock.try_lock("r").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stays_down_is_warned_of_once() {
    let events = Events::record();
    let node = MemoryNode::new();
    let redlock = client(std::slice::from_ref(&node));
    drop(redlock.lock("r").await.unwrap());
    for warnings in 1..3 {
        sleep(100 * MS).await;
        node.stop();
        sleep(60_000 * MS).await;
        let told = events.warnings();
        assert_eq!(told.len(), warnings, "{told:?}");
        assert!(told[warnings - 1].contains("connection refused"), "{told:?}");
        node.start();
        sleep(5000 * MS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_at_work_is_warned_of() {
    let events = Events::record();
    let node = MemoryNode::new();
    let redlock = client(std::slice::from_ref(&node));
    drop(redlock.lock("r").await.unwrap());
    sleep(100 * MS).await;
    node.slow(20 * MS);
    let (error, ()) = tokio::join!(redlock.try_lock("s"), async {
        sleep(5 * MS).await;
        node.stop();
        node.start();
    });
    error.unwrap_err();
    sleep(1000 * MS).await;
    assert!(events.warned_of(&["node down", "stopped"]), "{:?}", events.warnings());
}

/// A node that breaks each connection before it has answered anything is in trouble, though each can be
/// opened.
#[tokio::test(start_paused = true)]
async fn a_node_that_keeps_no_connection_is_warned_of() {
    let events = Events::record();
    let node = MemoryNode::new();
    let redlock = client(std::slice::from_ref(&node));
    assert!(redlock.health().await[0].is_up());
    for _ in 0..10 {
        node.stop();
        node.start();
        sleep(100 * MS).await;
    }
    assert!(events.warned_of(&["node down"]), "{:?}", events.warnings());
}

/// Its connections are opened all right, and it answers each command too late.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_too_slow_for_its_timeout_is_warned_of_once() {
    let events = Events::record();
    let node = MemoryNode::new();
    let redlock = client(std::slice::from_ref(&node));
    let times = || events.warnings().iter().filter(|it| it.contains("node down")).count();
    node.slow(60 * MS);
    // The more seldom it is asked, the longer a connection lasts.
    for pause in [10_000 * MS, 1000 * MS, 100 * MS] {
        for _ in 0..100 {
            redlock.try_lock("r").await.unwrap_err();
            sleep(pause).await;
        }
        assert_eq!(times(), 1, "{pause:?}: {:?}", events.warnings());
    }
    node.slow(Duration::ZERO);
    sleep(2000 * MS).await;
    drop(redlock.lock("r").wait(5000 * MS).await.unwrap());
    sleep(1000 * MS).await;
    node.stop();
    sleep(1000 * MS).await;
    drop(redlock.try_lock("r").await.unwrap_err());
    assert_eq!(times(), 2, "{:?}", events.warnings());
}

/// What was said to be down is said to be up, once it answers: a ping as well.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_silent_is_said_to_be_up_at_its_first_answer() {
    for pings in [true, false] {
        let events = Events::record_traces();
        let node = MemoryNode::new();
        let redlock = client(std::slice::from_ref(&node));
        let last = || {
            let told = events.traces();
            let said = |it: &&String| it.contains("node up") || it.contains("node down");
            told.iter().rfind(said).cloned().unwrap_or_default()
        };
        drop(redlock.try_lock("r").await.unwrap());
        sleep(100 * MS).await;
        node.slow(60 * MS);
        // With pings nothing is owed, which the next connection would be asked.
        for _ in 0..40 {
            assert!(!redlock.health().await[0].is_up());
            sleep(100 * MS).await;
        }
        assert!(last().contains("node down"), "{:?}", events.traces());
        // A connection that lasts, and is closed at rest, in between.
        node.slow(Duration::ZERO);
        sleep(5000 * MS).await;
        node.stop();
        node.start();
        sleep(5000 * MS).await;
        if pings {
            assert!(redlock.health().await[0].is_up());
        } else {
            drop(redlock.try_lock("r").await.unwrap());
        }
        assert!(last().contains("node up"), "{:?}", events.traces());
    }
}

#[tokio::test(start_paused = true)]
async fn a_ping_that_ends_with_its_connection_is_no_answer() {
    let events = Events::record_traces();
    let node = MemoryNode::new();
    let redlock = client(std::slice::from_ref(&node));
    node.slow(60 * MS);
    for _ in 0..40 {
        assert!(!redlock.health().await[0].is_up());
        sleep(100 * MS).await;
    }
    let ups = || events.traces().iter().filter(|it| it.contains("node up")).count();
    assert_eq!(ups(), 1, "{:?}", events.traces());
    node.slow(20 * MS);
    sleep(5000 * MS).await;
    let (health, ()) = tokio::join!(redlock.health(), async {
        sleep(5 * MS).await;
        node.stop();
        node.start();
    });
    assert!(!health[0].is_up() && ups() == 1, "{:?}", events.traces());
}
