//! Bad days of nodes, of the network and of the caller: what a user sees, and that nothing is
//! left behind.

use std::{
    future::{Future, IntoFuture, poll_fn},
    pin::pin,
    task::Poll,
    time::{Duration, Instant},
};

use redlock_core::{LockError, LockHandle, LostReason, NodeErrorKind, Redlock, Released};
use redlock_tests::{Flow, LIMIT, Nodes, Proxy, wait_until, within};

const SECOND: Duration = Duration::from_secs(1);

/// The longest ttl, so that no test passes because keys ran out.
const LONG: Duration = Duration::from_secs(60);

async fn wait_until_empty(nodes: &Nodes) {
    wait_until("no node has a key", async || nodes.are_empty()).await;
}

/// A client under which a node that restarted sits out for no longer than this (rule 16).
fn brief(nodes: &Nodes) -> Redlock {
    let client = nodes.client().node_timeout(SECOND / 2);
    client.ttl(2 * SECOND).max_ttl(2 * SECOND).build().unwrap()
}

#[tokio::test]
async fn a_killed_minority_stops_nothing() {
    let nodes = Nodes::start(5);
    let client = nodes.client().build().unwrap();
    nodes.warm_up(&client).await;
    nodes[0].kill();
    nodes[1].kill();
    let guard = client.lock("job").await.unwrap();
    wait_until("the others hold the lock", async || guard.votes() == 3).await;
    guard.extend(LONG).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
}

#[tokio::test]
async fn a_service_starts_while_a_minority_is_dead() {
    let nodes = Nodes::start(5);
    nodes[0].kill();
    nodes[1].kill();
    let client = within("connect", Redlock::connect(nodes.urls())).await.unwrap();
    let guard = client.lock("job").await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
}

#[tokio::test]
async fn no_quorum_names_the_nodes_that_failed_and_why() {
    let nodes = Nodes::start(5);
    let client = nodes.client().build().unwrap();
    nodes.warm_up(&client).await;
    let dead = &nodes[..3];
    dead.iter().for_each(|node| node.kill());
    // The connections break first; from then on the reason is that nobody takes new ones.
    wait_until("the reason is told", async || {
        let error = client.try_lock("job").await.unwrap_err();
        assert!(error.is_unavailable() && error.retry_after().is_some(), "{error:?}");
        let text = error.to_string();
        let LockError::NoQuorum { nodes: failed, granted, quorum, .. } = error else {
            panic!("{error:?}")
        };
        assert_eq!((quorum, granted <= 2), (3, true));
        for node in dead {
            assert!(text.contains(&node.address()), "{text}");
            assert!(failed.iter().any(|failed| *failed.node == *node.address()), "{failed:?}");
        }
        assert!(nodes[3..].iter().all(|node| !text.contains(&node.address())), "{text}");
        failed.iter().all(|failed| {
            failed.kind == NodeErrorKind::Down && failed.reason.to_lowercase().contains("refused")
        })
    })
    .await;
    wait_until("the others have no key", async || {
        nodes[3..].iter().all(|node| node.keys().is_empty())
    })
    .await;
}

#[tokio::test]
async fn a_node_that_was_killed_and_restarted_is_used_again() {
    let nodes = Nodes::start(3);
    let client = brief(&nodes);
    nodes.warm_up(&client).await;
    nodes[0].kill();
    let guard = client.lock("job").await.unwrap();
    wait_until("the others hold the lock", async || guard.votes() == 2).await;
    guard.release().await.unwrap();
    nodes[0].start_again();
    // Returns once every node votes.
    nodes.warm_up(&client).await;
}

#[tokio::test]
async fn a_majority_that_was_killed_and_restarted_is_used_again() {
    let nodes = Nodes::start(3);
    let client = brief(&nodes);
    nodes.warm_up(&client).await;
    nodes[..2].iter().for_each(|node| node.kill());
    assert!(client.try_lock("job").await.unwrap_err().is_unavailable());
    nodes[..2].iter().for_each(|node| node.start_again());
    let guard = client.lock("job").wait(LIMIT).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
}

#[tokio::test]
async fn a_hung_minority_adds_no_wait() {
    let nodes = Nodes::start(5);
    // Far longer than all of the work below: one wait for a hung node would show.
    let timeout = 15 * SECOND;
    let client = nodes.client().node_timeout(timeout).ttl(LONG).build().unwrap();
    nodes.warm_up(&client).await;
    nodes[..2].iter().for_each(|node| node.pause());
    let start = Instant::now();
    for _ in 0..10 {
        let guard = client.lock("job").await.unwrap();
        guard.extend(LONG).await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Ours);
    }
    assert!(start.elapsed() < timeout, "somebody waited for a hung node");
    nodes[..2].iter().for_each(|node| node.resume());
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn a_hung_majority_is_no_quorum_and_keeps_no_key_when_it_goes_on() {
    let nodes = Nodes::start(5);
    let client = nodes.client().node_timeout(SECOND / 2).ttl(LONG).build().unwrap();
    nodes.warm_up(&client).await;
    nodes[..3].iter().for_each(|node| node.pause());
    let error = within("try_lock", client.try_lock("job")).await.unwrap_err();
    let LockError::NoQuorum { nodes: failed, .. } = &error else { panic!("{error:?}") };
    assert_eq!(failed.len(), 3, "{error}");
    assert!(failed.iter().all(|failed| failed.kind == NodeErrorKind::Timeout), "{error}");
    // They now run the SETs that were sent to them, long after everybody gave up.
    nodes[..3].iter().for_each(|node| node.resume());
    wait_until_empty(&nodes).await;
    wait_until("the lock can be had", async || client.try_lock("job").await.is_ok()).await;
}

#[tokio::test]
async fn a_partitioned_holder_is_told_and_its_body_is_dropped() {
    let nodes = Nodes::start(3);
    let proxies: Vec<_> = nodes.iter().map(|node| Proxy::start(node.port())).collect();
    let holder = Redlock::builder()
        .nodes(proxies.iter().map(Proxy::url))
        .node_timeout(SECOND / 2)
        .ttl(2 * SECOND)
        .build()
        .unwrap();
    let other = nodes.client().build().unwrap();
    let guard = holder.lock("bare").wait(LIMIT).await.unwrap();
    let (started, start) = tokio::sync::oneshot::channel();
    let body = tokio::spawn({
        let holder = holder.clone();
        async move {
            let body = async |_: &LockHandle| {
                started.send(()).unwrap();
                std::future::pending::<()>().await;
            };
            holder.lock("body").wait(LIMIT).run(body).await
        }
    });
    start.await.unwrap();

    proxies.iter().for_each(|proxy| proxy.both(Flow::Hold));
    within("lost()", guard.lost()).await;
    assert!(!guard.is_valid());
    let error = within("the body", body).await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::Expired, .. }), "{error:?}");

    // Somebody else takes over, and what the old holder still sends does not take it away.
    let next = other.lock("bare").wait(LIMIT).await.unwrap();
    proxies.iter().for_each(|proxy| proxy.both(Flow::Pass));
    drop(guard);
    wait_until("only the new holder's key is left", async || {
        nodes.iter().all(|node| node.keys() == ["redlock:bare"])
    })
    .await;
    assert_eq!(next.release().await.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn a_lock_that_others_deleted_is_lost_at_its_renewal() {
    let nodes = Nodes::start(3);
    let client = nodes.client().build().unwrap();
    nodes.warm_up(&client).await;
    let guard = client.lock("job").await.unwrap();
    wait_until("all nodes hold the lock", async || guard.votes() == 3).await;
    nodes.iter().for_each(|node| drop(node.command(&["DEL", "redlock:job"])));
    let error = guard.extend(LONG).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::Refused, .. }), "{error:?}");
    within("lost()", guard.lost()).await;
    assert!(nodes.are_empty(), "a lost lock is not set again");
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
}

#[tokio::test]
async fn a_release_never_deletes_what_is_somebody_elses() {
    let nodes = Nodes::start(3);
    let client = nodes.client().build().unwrap();
    let guard = client.lock("job").await.unwrap();
    for node in nodes.iter() {
        node.command(&["SET", "redlock:job", "somebody-else", "PX", "60000"]);
    }
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
    for node in nodes.iter() {
        assert_eq!(node.get("redlock:job").as_deref(), Some("somebody-else"));
    }
}

/// Polls the future this often at most; `None` when it was dropped before it ended.
async fn poll_times<F: Future>(times: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = times;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// Drops what `make` makes after one poll, after two, and so on until it ends by itself.
async fn drop_after_every_poll<F: Future>(mut make: impl AsyncFnMut() -> F) -> F::Output {
    for times in 0..10_000 {
        let future = make().await;
        if let Some(output) = within("a future", poll_times(times, future)).await {
            return output;
        }
    }
    panic!("the future does not end");
}

#[tokio::test]
async fn a_dropped_future_leaves_no_key_wherever_it_is_dropped() {
    let nodes = Nodes::start(3);
    let client = nodes.client().ttl(LONG).build().unwrap();
    // Cold as well: the first of these opens the connections.
    let guard = drop_after_every_poll(async || client.lock("lock").into_future()).await.unwrap();
    drop(guard);
    wait_until_empty(&nodes).await;

    let body = async |_: &LockHandle| tokio::task::yield_now().await;
    drop_after_every_poll(async || client.lock("run").wait(LIMIT).run(body)).await.unwrap();
    wait_until_empty(&nodes).await;

    let released =
        drop_after_every_poll(async || client.lock("release").wait(LIMIT).await.unwrap().release())
            .await;
    assert_eq!(released.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;

    let guard = client.lock("extend").await.unwrap();
    drop_after_every_poll(async || guard.extend(LONG)).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn a_future_dropped_while_its_commands_are_on_the_way_leaves_no_key() {
    let nodes = Nodes::start(3);
    let proxies: Vec<_> = nodes.iter().map(|node| Proxy::start(node.port())).collect();
    let client = Redlock::builder()
        .nodes(proxies.iter().map(Proxy::url))
        .node_timeout(2 * SECOND)
        .ttl(LONG)
        .build()
        .unwrap();
    nodes.warm_up(&client).await;
    let delay = Duration::from_millis(5);
    proxies.iter().for_each(|proxy| proxy.both(Flow::Delay(delay)));
    for milliseconds in 0..=12 {
        let limit = Duration::from_millis(milliseconds);
        let _ = tokio::time::timeout(limit, client.try_lock(format!("job:{milliseconds}"))).await;
    }
    wait_until_empty(&nodes).await;

    // The requests arrive, nobody ever hears of it.
    proxies.iter().for_each(|proxy| proxy.both(Flow::Pass));
    nodes.warm_up(&client).await;
    proxies.iter().for_each(|proxy| proxy.replies(Flow::Discard));
    let lock = tokio::spawn(client.try_lock("unheard").into_future());
    wait_until("the SETs have run", async || nodes.holding("redlock:unheard") == 3).await;
    lock.abort();
    proxies.iter().for_each(|proxy| proxy.replies(Flow::Pass));
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn cut_and_closed_connections_are_replaced() {
    let nodes = Nodes::start(3);
    let proxies: Vec<_> = nodes.iter().map(|node| Proxy::start(node.port())).collect();
    let client = Redlock::builder()
        .nodes(proxies.iter().map(Proxy::url))
        .node_timeout(2 * SECOND)
        .build()
        .unwrap();
    nodes.warm_up(&client).await;
    let guard = client.lock("job").await.unwrap();
    for end in [Proxy::cut, Proxy::close] {
        proxies.iter().for_each(end);
        // All nodes vote again, and the lock held meanwhile is still ours.
        wait_until("the lock is confirmed on new connections", async || {
            guard.extend(LONG).await.is_ok()
        })
        .await;
    }
    assert!(guard.is_valid());
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    nodes.warm_up(&client).await;
}

#[tokio::test]
async fn replies_that_come_byte_by_byte_are_understood() {
    let nodes = Nodes::start(3);
    let proxies: Vec<_> = nodes.iter().map(|node| Proxy::start(node.port())).collect();
    proxies.iter().for_each(|proxy| proxy.both(Flow::PerByte));
    let client = Redlock::builder()
        .nodes(proxies.iter().map(Proxy::url))
        .node_timeout(5 * SECOND)
        .connect_timeout(10 * SECOND)
        .build()
        .unwrap();
    let guard = client.lock("job").await.unwrap();
    guard.extend(LONG).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
}

#[tokio::test]
async fn a_guard_dropped_outside_the_runtime_releases() {
    let nodes = Nodes::start(3);
    let client = nodes.client().ttl(LONG).build().unwrap();
    let guard = client.lock("job").await.unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn a_panic_releases_and_goes_on() {
    let nodes = Nodes::start(3);
    let client = nodes.client().ttl(LONG).build().unwrap();
    let guard = client.lock("guard").await.unwrap();
    let task = tokio::spawn(async move {
        let _guard = guard;
        panic!("while a guard is held");
    });
    assert!(task.await.unwrap_err().is_panic());
    wait_until_empty(&nodes).await;

    let run = tokio::spawn({
        let client = client.clone();
        async move {
            client.lock("run").run(async |_: &LockHandle| panic!("in a body")).await.unwrap();
        }
    });
    let panic = run.await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"in a body"));
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn a_body_keeps_its_result_when_the_release_finds_no_quorum() {
    let nodes = Nodes::start(3);
    let client = nodes.client().build().unwrap();
    let result = client.lock("job").run(async |_: &LockHandle| {
        nodes.iter().for_each(|node| node.kill());
        7
    });
    assert_eq!(within("run", result).await.unwrap(), 7);
}
