//! Tokens over nodes in memory, by a paused clock.

use std::{future::IntoFuture, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::join_all};
use tokio::time::{advance, sleep};

use crate::{
    FencingToken, LockError, LockGuard, LockHandle, MemoryNode, Redlock,
    node::{Action, Claim, Command, Draw, counter, intercepted::silent},
    testing::{are_empty, nodes},
};

const TTL: Duration = Duration::from_secs(10);

fn client(nodes: &[MemoryNode]) -> Redlock {
    Redlock::builder().nodes(nodes).ttl(TTL).build().unwrap()
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
    let nodes = nodes(5);
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

/// Sets the counters ahead of every clock, each by another amount, as after clients that asked at the
/// same moment. From now on the nodes count on from there.
fn set_apart(nodes: &[MemoryNode]) {
    let claim = Arc::new(Claim::new(&"redlock:r".into(), "earlier".to_owned()));
    for (node, ahead) in nodes.iter().zip([3, 1, 2]) {
        let draw = Draw { floor: u64::MAX, count: ahead * 1_000_000_000, life: counter::LIFE };
        let draws = Action::GrantFenced { ttl: TTL, draw };
        let commands = [draws, Action::Release { wakes: Default::default() }]
            .map(|action| Command { claim: Arc::clone(&claim), action });
        node.execute(&commands);
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_disagree_are_told_the_largest_number() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    drop(redlock.lock("warm").await.unwrap());
    for stopped in &nodes {
        set_apart(&nodes);
        let last = token(&redlock).await;
        stopped.hang();
        let next = token(&redlock).await;
        assert!(next > last, "{next} after {last}, without {}", stopped.name());
        stopped.resume();
        sleep(Duration::from_secs(1)).await;
    }
}

/// One node was away when the numbers were drawn, and one goes before it has confirmed its own.
#[tokio::test(start_paused = true)]
async fn a_confirmation_without_a_quorum_names_all_nodes_that_failed() {
    let nodes = nodes(3);
    set_apart(&nodes);
    let specs = nodes.iter().enumerate().map(|(number, node)| {
        let (name, goes) = (node.name(), (number == 1).then(|| node.clone()));
        silent(name, node, move |commands| {
            let confirms = commands.iter().any(|it| matches!(it.action, Action::Confirm(_)));
            goes.iter().filter(|_| confirms).for_each(MemoryNode::stop);
        })
    });
    let redlock = Redlock::builder().over(specs.collect());
    drop(redlock.lock("warm").await.unwrap());
    nodes[2].stop();
    sleep(Duration::from_millis(10)).await;
    let error = redlock.try_lock("r").fenced().await.unwrap_err();
    let LockError::NoQuorum { nodes: failed, .. } = &error else { panic!("{error}") };
    let mut failed: Vec<_> = failed.iter().map(|it| it.node.as_ref()).collect();
    failed.sort_unstable();
    assert_eq!(failed, [nodes[1].name(), nodes[2].name()]);
}

/// A node confirms a range if the range is what it gave last, to its last number.
#[tokio::test(start_paused = true)]
async fn nodes_that_disagree_are_told_the_largest_range() {
    const WAITERS: usize = 6;
    let nodes = nodes(3);
    let (ours, theirs) = (client(&nodes), client(&nodes));
    for stopped in &nodes {
        set_apart(&nodes);
        let guard = theirs.lock("r").await.unwrap();
        let waiting: Vec<_> = (0..WAITERS)
            .map(|_| {
                let redlock = ours.clone();
                tokio::spawn(async move { token(&redlock).await })
            })
            .collect();
        sleep(Duration::from_millis(20)).await;
        drop(guard);
        let tokens: Vec<_> = join_all(waiting).await.into_iter().map(Result::unwrap).collect();
        assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
        assert_eq!(tokens[1].get() - tokens[0].get(), 1, "of one range: {tokens:?}");
        stopped.hang();
        let next = token(&ours).await;
        assert!(Some(&next) > tokens.last(), "{next} after {tokens:?}");
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
    let nodes = nodes(3);
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
        assert!(are_empty(&nodes));
    }
}

/// Releases a lock that may pass to the next waiter, however long it was held.
fn pass_on(redlock: &Redlock, guard: LockGuard) {
    redlock.client().queues.begin_anew("redlock:r");
    drop(guard);
}

/// Drawing numbers also renews the lease, and a renewal counts within the validity that it renews
/// (rule 7). Here the task that draws them does not run until that has ended.
#[tokio::test(start_paused = true)]
async fn numbers_that_are_read_after_the_old_validity_do_not_count() {
    let redlock = client(&nodes(3));
    for (stands_still, is_late) in [(TTL / 2, false), (TTL * 4 / 5, true)] {
        let guard = redlock.lock("r").auto_extend(false).await.unwrap();
        let before = guard.hold().lease().claim;
        let mut next = Box::pin(redlock.lock("r").fenced().wait(TTL * 2).into_future());
        assert!((&mut next).now_or_never().is_none());
        sleep(TTL / 5).await;
        pass_on(&redlock, guard);
        assert!((&mut next).now_or_never().is_none(), "it draws numbers");
        sleep(Duration::from_millis(10)).await;
        advance(stands_still).await;
        let guard = next.await.unwrap();
        let is_another = guard.hold().lease().claim.value != before.value;
        assert_eq!(is_another, is_late, "after {stands_still:?}");
        guard.release().await.unwrap();
    }
}

/// The nodes hang as they are asked for numbers, until the waiter has no time left.
#[tokio::test(start_paused = true)]
async fn a_waiter_without_numbers_asks_no_more_when_its_time_is_over() {
    let nodes = nodes(3);
    let (redlock, timeout) = (client(&nodes), Duration::from_millis(50));
    for (wait, asks_again) in [(timeout, false), (timeout * 8, true)] {
        let guard = redlock.lock("r").await.unwrap();
        let waiting = tokio::spawn(redlock.lock("r").fenced().wait(wait).into_future());
        sleep(Duration::from_millis(1)).await;
        nodes.iter().for_each(MemoryNode::hang);
        pass_on(&redlock, guard);
        let error = waiting.await.unwrap().unwrap_err();
        let LockError::NoQuorum { attempts, nodes: failed, .. } = &error else { panic!("{error}") };
        // The first attempt is the wait in the queue, and the second one the question for numbers.
        assert_eq!((*attempts > 2, failed.len()), (asks_again, 3), "{error}");
        nodes.iter().for_each(MemoryNode::resume);
        sleep(TTL).await;
        assert!(are_empty(&nodes));
    }
}

/// A waiter gets a lease only if its keys are gone after a crash when the waiter expects that. Drawing
/// numbers lets the keys live for longer.
#[tokio::test(start_paused = true)]
async fn a_lease_that_drew_numbers_lives_as_long_as_its_keys() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let shorter = TTL * 17 / 20;
    let first = redlock.lock("r").auto_extend(false).await.unwrap();
    let second = tokio::spawn(redlock.lock("r").fenced().auto_extend(false).into_future());
    sleep(Duration::from_millis(1)).await;
    let third = tokio::spawn(redlock.lock("r").ttl(shorter).auto_extend(false).into_future());
    sleep(TTL / 5).await;
    let before = first.hold().lease().claim;
    pass_on(&redlock, first);
    let second = second.await.unwrap().unwrap();
    assert_eq!(second.hold().lease().claim.value, before.value, "the lease was passed on");
    assert!(nodes.iter().all(|node| node.remaining("redlock:r") > Some(shorter)));
    pass_on(&redlock, second);
    let _third = third.await.unwrap().unwrap();
    assert!(nodes.iter().all(|node| node.remaining("redlock:r") <= Some(shorter)));
}
