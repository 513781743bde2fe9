//! Tokens over nodes in memory, by a paused clock.

use std::time::Duration;

use tokio::time::sleep;

use crate::{FencingToken, LockGuard, LockHandle, MemoryNode, Redlock, node::counter};

const TTL: Duration = Duration::from_secs(10);

fn client(nodes: &[MemoryNode]) -> Redlock {
    Redlock::builder().nodes(nodes).ttl(TTL).build().unwrap()
}

fn nodes<const N: usize>() -> [MemoryNode; N] {
    std::array::from_fn(|_| MemoryNode::new())
}

async fn fenced(redlock: &Redlock) -> LockGuard {
    redlock.lock("r").fenced().await.unwrap()
}

async fn token(redlock: &Redlock) -> FencingToken {
    let guard = fenced(redlock).await;
    let token = guard.fencing_token().unwrap();
    guard.release().await.unwrap();
    token
}

#[tokio::test(start_paused = true)]
async fn a_token_is_on_guard_handle_and_body_and_only_where_it_was_asked_for() {
    let redlock = Redlock::in_memory(3);
    let guard = redlock.lock("r").await.unwrap();
    assert_eq!((guard.fencing_token(), guard.handle().fencing_token()), (None, None));
    guard.release().await.unwrap();

    let guard = fenced(&redlock).await;
    let (token, handle) = (guard.fencing_token(), guard.handle());
    assert!(token.is_some() && handle.fencing_token() == token);
    guard.release().await.unwrap();
    assert_eq!(handle.fencing_token(), token, "also afterwards");

    let seen = redlock.lock("r").fenced().run(async |lock: &LockHandle| {
        (lock.fencing_token(), LockHandle::current().and_then(|lock| lock.fencing_token()))
    });
    let (given, current) = seen.await.unwrap();
    assert!(given > token && current == given);
    let tried = redlock.try_lock("r").fenced().await.unwrap();
    assert!(tried.fencing_token() > given);
}

#[tokio::test(start_paused = true)]
async fn tokens_grow_over_clients_and_whatever_happens_to_a_minority() {
    let nodes = nodes::<5>();
    let clients = [client(&nodes), client(&nodes)];
    let mut last = token(&clients[0]).await;
    let mut grows = async || {
        for redlock in &clients {
            let next = token(redlock).await;
            assert!(next > last, "{next} after {last}");
            last = next;
        }
    };
    grows().await;
    for first in 0..5 {
        let two = [&nodes[first], &nodes[(first + 1) % 5]];
        two.iter().for_each(|node| node.stop());
        grows().await;
        two.iter().for_each(|node| node.start());
        sleep(Duration::from_secs(61)).await;
        grows().await;
        let key = counter::key("redlock:r");
        two.iter().for_each(|node| assert!(node.remove(&key), "a counter under this key"));
        grows().await;
    }
    for node in &nodes {
        node.restart_empty();
        grows().await;
        sleep(Duration::from_secs(61)).await;
        grows().await;
    }
    // Longer than counters live.
    sleep(Duration::from_secs(2 * 24 * 60 * 60)).await;
    grows().await;
}

/// Lets the first client split the nodes, so that their counters differ.
async fn split(nodes: &[MemoryNode], redlock: &Redlock) {
    // Numbers that were drawn, and not given to any holder.
    for (index, node) in nodes.iter().enumerate() {
        let alone = Redlock::builder().nodes([node]).ttl(TTL).build().unwrap();
        for _ in 0..=index {
            token(&alone).await;
        }
    }
    drop(redlock.health().await);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_disagree_are_told_the_largest_number() {
    let nodes = nodes::<3>();
    let redlock = client(&nodes);
    // No time passes: the nodes count on, each from where it is.
    split(&nodes, &redlock).await;
    let mut last = token(&redlock).await;
    for stopped in &nodes {
        stopped.hang();
        let next = token(&redlock).await;
        assert!(next > last, "{next} after {last}");
        last = next;
        stopped.resume();
        sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_passes_from_task_to_task_has_a_larger_token_each_time() {
    let redlock = Redlock::in_memory(3);
    let guard = fenced(&redlock).await;
    let mut last = guard.fencing_token();
    let waiting: Vec<_> = (0..40)
        .map(|_| {
            let redlock = redlock.clone();
            tokio::spawn(async move {
                let guard = fenced(&redlock).await;
                let token = guard.fencing_token();
                sleep(Duration::from_millis(1)).await;
                drop(guard);
                token
            })
        })
        .collect();
    sleep(Duration::from_millis(5)).await;
    drop(guard);
    for task in waiting {
        let token = task.await.unwrap();
        assert!(token.is_some() && token > last, "{token:?} after {last:?}");
        last = token;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_passes_between_tasks_with_and_without_tokens() {
    let redlock = Redlock::in_memory(3);
    let mut guard = redlock.lock("r").await.unwrap();
    let mut last = None;
    for fenced in [true, true, false, true, false, false, true] {
        let waiting = tokio::spawn({
            let request = redlock.lock("r");
            async move { if fenced { request.fenced().await } else { request.await } }
        });
        sleep(Duration::from_millis(1)).await;
        drop(guard);
        guard = waiting.await.unwrap().unwrap();
        assert_eq!(guard.fencing_token().is_some(), fenced);
        assert!(!fenced || guard.fencing_token() > last);
        last = guard.fencing_token().or(last);
    }
}

/// A minority has lost the key when new numbers are drawn, and then a majority.
#[tokio::test(start_paused = true)]
async fn numbers_are_drawn_again_only_from_a_quorum_that_has_the_lock() {
    let nodes = nodes::<3>();
    let redlock = client(&nodes);
    for lost in 1..=3 {
        let guard = redlock.lock("r").await.unwrap();
        let waiting = tokio::spawn({
            let redlock = redlock.clone();
            async move { fenced(&redlock).await }
        });
        sleep(Duration::from_millis(1)).await;
        nodes[..lost].iter().for_each(|node| assert!(node.remove("redlock:r")));
        // Another client may have the lock meanwhile.
        let other = Redlock::builder().nodes(&nodes[..lost]).build().unwrap();
        let theirs = other.try_lock("r").fenced().await.unwrap();
        drop(guard);
        sleep(Duration::from_millis(1)).await;
        let is_held = redlock.held().len() == 1;
        assert_eq!(is_held, lost == 1, "{lost} of 3 nodes have lost the key");
        drop(theirs);
        drop(waiting.await.unwrap());
        sleep(Duration::from_secs(2)).await;
        assert!(nodes.iter().all(|node| node.keys().is_empty()));
    }
}
