//! Ending in order: bodies first, then their locks, then the clean-up (rule 13).

use std::{sync::Arc, time::Duration};

use crate::{
    client::Client,
    lease::Hold,
    node::NodeHandle,
    op::release,
    runtime::in_runtime,
    timer::{sleep, timeout_awake},
};

/// How long a shutdown waits for locks to go once their bodies were told.
/// Outside a runtime, where waiting is impossible, the background does the rest.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);

/// How often to ask the nodes whether they are done.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(5);

pub(crate) async fn shutdown(client: &Arc<Client>, grace: Duration) {
    client.ensure_moving(client.nodes.clock.now());
    client.close();
    if in_runtime() {
        // A guard whose lock is lost has nothing left to finish.
        let done = |hold: &Hold| hold.is_over() && !hold.is_leaving();
        let _ = timeout_awake(grace, client.leases.registry.until(done)).await;
    }
    // A bare guard's code may still run.
    release::end_all(client).keep();
    // An attempt that was in flight may still win, and has to release the lock first.
    let finished = finish(client, || !client.leases.has_in_flight());
    if in_runtime() {
        let _ = timeout_awake(RELEASE_LIMIT, finished).await;
    }
}

pub(crate) async fn release_all(client: &Arc<Client>) {
    client.ensure_moving(client.nodes.clock.now());
    let guards = release::end_all(client);
    if in_runtime() {
        let finished = async {
            guards.release().await;
            finish(client, || true).await;
        };
        let _ = timeout_awake(RELEASE_LIMIT, finished).await;
    }
}

/// Waits until the bodies that were told have gone, every release has asked the nodes, `all_here`
/// says that no more releases come, and every node that answers has confirmed. Does not wait where no
/// time passes.
async fn finish(client: &Client, all_here: impl Fn() -> bool) {
    client.leases.registry.until(|hold| !hold.is_leaving()).await;
    while !(all_here() && client.nodes.iter().all(NodeHandle::is_drained)) {
        sleep(DRAIN_POLL_INTERVAL).await;
        client.ensure_moving(client.nodes.clock.now());
        if !in_runtime() {
            // The runtime was shut down, and the pause was none: this would spin for ever.
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{IntoFuture, pending, poll_fn},
        task::Poll,
    };

    use futures_util::FutureExt;
    use tokio::{sync::oneshot, time::Instant};

    use super::*;
    use crate::{
        LockError, LockFuture, MemoryNode, Redlock, node::intercepted::far_away, timer::timeout,
    };

    const MIN_HOLD: Duration = Duration::from_secs(50);

    /// A client in the middle of an attempt: every node has the key and has not answered yet.
    async fn attempting(nodes: &[MemoryNode]) -> (Redlock, LockFuture) {
        let redlock = Redlock::builder().nodes(nodes).build().unwrap();
        drop(redlock.lock("warm").await.unwrap());
        let mut lock = redlock.lock("r").min_hold(MIN_HOLD).into_future();
        let waits = poll_fn(|cx| Poll::Ready(lock.poll_unpin(cx).is_pending())).await;
        assert!(waits);
        (redlock, lock)
    }

    fn keys(nodes: &[MemoryNode]) -> Vec<String> {
        nodes.iter().flat_map(MemoryNode::keys).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_under_way_lets_go_before_shutdown_returns() {
        let nodes: [_; 3] = std::array::from_fn(|_| MemoryNode::new());
        let (redlock, lock) = attempting(&nodes).await;
        let shutdown = tokio::spawn(async move { redlock.shutdown(Duration::ZERO).await });
        sleep(RELEASE_LIMIT / 2).await;
        assert!(!shutdown.is_finished(), "with {:?} on the nodes", keys(&nodes));
        let error = lock.await.unwrap_err();
        assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
        shutdown.await.unwrap();
        assert_eq!(keys(&nodes), [""; 0], "nothing ran: a min_hold has no reason to stay");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waits_for_the_first_connections_is_told_of_the_shutdown() {
        let node = MemoryNode::new();
        node.hang();
        let redlock = Redlock::builder().nodes([&node]).connect_timeout(MIN_HOLD).build().unwrap();
        let waiting = tokio::spawn(redlock.lock("r").into_future());
        let lease = Redlock::in_memory(1).lock("r").await.unwrap().into_lease();
        let adopts = redlock.clone();
        let adopting = tokio::spawn(async move { adopts.adopt(lease).await });
        sleep(RELEASE_LIMIT / 2).await;
        redlock.shutdown(Duration::ZERO).await;
        for waits in [waiting, adopting] {
            let error = timeout(RELEASE_LIMIT, waits).await.unwrap().unwrap().unwrap_err();
            assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
        }
    }

    /// All of its timers are over at once. The nodes have not answered yet.
    #[tokio::test(start_paused = true)]
    async fn a_process_that_stands_still_during_its_shutdown_sees_its_releases_through() {
        for all in [false, true] {
            let nodes: [_; 3] = std::array::from_fn(|_| MemoryNode::new());
            let far = nodes.iter().map(|node| far_away(node.name(), node, 4 * DRAIN_POLL_INTERVAL));
            let redlock = Redlock::builder().node_timeout(4 * RELEASE_LIMIT).over(far.collect());
            let client = Arc::clone(redlock.client());
            tokio::spawn(redlock.lock("r").run(async |_| pending::<()>().await));
            sleep(RELEASE_LIMIT).await;
            let ends = tokio::spawn(async move {
                if all {
                    redlock.release_all().await;
                } else {
                    redlock.shutdown(Duration::ZERO).await;
                }
            });
            sleep(DRAIN_POLL_INTERVAL).await;
            assert!(!client.nodes.iter().any(NodeHandle::is_drained), "deletes are on their way");
            tokio::time::advance(2 * RELEASE_LIMIT).await;
            ends.await.unwrap();
            assert!(client.nodes.iter().all(NodeHandle::is_drained), "release_all: {all}");
            assert_eq!(keys(&nodes), [""; 0], "release_all: {all}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_stands_still_during_its_shutdown_leaves_its_bodies_their_grace() {
        const PART: Duration = Duration::from_millis(50);
        let redlock = Redlock::in_memory(3);
        let (has_ended, end) = oneshot::channel();
        tokio::spawn(redlock.lock("r").run(async move |_| {
            // The stop ends the first of these alone.
            sleep(3 * PART).await;
            sleep(3 * PART).await;
            has_ended.send(()).unwrap();
        }));
        sleep(PART).await;
        let shutdown = tokio::spawn(async move { redlock.shutdown(20 * PART).await });
        sleep(PART).await;
        tokio::time::advance(40 * PART).await;
        shutdown.await.unwrap();
        assert_eq!(end.now_or_never(), Some(Ok(())), "the body was dropped");
    }

    #[tokio::test(start_paused = true)]
    async fn a_guard_whose_lock_is_lost_gets_no_grace() {
        let redlock = Redlock::in_memory(3);
        let _guard = redlock.lock("r").max_hold(RELEASE_LIMIT).await.unwrap();
        let begun = Instant::now();
        redlock.shutdown(MIN_HOLD).await;
        assert!(begun.elapsed() < 2 * RELEASE_LIMIT, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_is_not_polled_does_not_hold_shutdown_up_for_ever() {
        let nodes: [_; 3] = std::array::from_fn(|_| MemoryNode::new());
        let (redlock, lock) = attempting(&nodes).await;
        redlock.shutdown(Duration::ZERO).await;
        drop(lock);
        sleep(RELEASE_LIMIT).await;
        assert_eq!(keys(&nodes), [""; 0]);
    }

    /// The `SET` waited for the first connection and was sent on it. Its delete need not be
    /// repeated, so shutdown has nothing to wait for.
    #[tokio::test(start_paused = true)]
    async fn a_first_lock_that_was_released_holds_nothing_up() {
        for all in [false, true] {
            let nodes: [_; 3] = std::array::from_fn(|_| MemoryNode::new());
            // The node is connected when the other nodes have granted the lock.
            nodes[2].slow(DRAIN_POLL_INTERVAL);
            let redlock = Redlock::builder().nodes(&nodes).build().unwrap();
            redlock.lock("r").await.unwrap().release().await.unwrap();
            // By then the node has answered, too.
            sleep(10 * DRAIN_POLL_INTERVAL).await;
            assert_eq!(keys(&nodes), [""; 0]);
            let begun = Instant::now();
            if all {
                redlock.release_all().await;
            } else {
                redlock.shutdown(RELEASE_LIMIT / 2).await;
            }
            assert_eq!(begun.elapsed(), Duration::ZERO, "release_all: {all}");
        }
    }
}
