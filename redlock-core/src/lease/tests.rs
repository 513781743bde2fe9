//! Holds over in-memory nodes on paused time.

mod min_hold;
mod restarts;

use std::{sync::Arc, time::Duration};

use tokio::{
    runtime::{self, Runtime},
    time::{Instant, advance, sleep, timeout},
};

use crate::{
    LockError, LockGuard, LostReason, MemoryNode, Redlock, Released, Restarts,
    node::NodeSpec,
    pools,
    testing::{are_empty, nodes},
};

const TTL: Duration = Duration::from_secs(9);

fn client(nodes: &[MemoryNode]) -> Redlock {
    Redlock::builder().nodes(nodes).ttl(TTL).build().unwrap()
}

/// The time that it took to get the lock does not count.
#[tokio::test(start_paused = true)]
async fn max_hold_begins_with_the_hold() {
    let redlock = Redlock::in_memory(3);
    redlock.memory_nodes().iter().for_each(|node| node.slow(Duration::from_millis(20)));
    let request = redlock.lock("r").max_hold(Duration::from_millis(10));
    request.run(async |lock| assert!(lock.is_valid())).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lock_renews_itself_for_many_ttls() {
    let nodes = nodes(5);
    let redlock = client(&nodes);
    let guard = redlock.lock("r").await.unwrap();
    for _ in 0..100 {
        advance(Duration::from_secs(1)).await;
        sleep(Duration::from_millis(20)).await;
        assert!(guard.is_valid());
        assert!(nodes[0].remaining("redlock:r").is_some());
    }
    assert_eq!((guard.votes(), guard.release().await.unwrap()), (5, Released::Ours));
    assert!(are_empty(&nodes));
}

/// A clock that may be wrong by much leaves little of the ttl.
#[tokio::test(start_paused = true)]
async fn a_lock_with_a_large_drift_factor_is_renewed_in_time() {
    let ms = Duration::from_millis;
    for (ttl, slow) in [
        // A renewal at a third of this ttl would come back too late.
        (ms(600), ms(49)),
        // A third of this validity is less than the time after which a renewal without an answer is repeated.
        (ms(150), ms(25)),
    ] {
        let nodes = nodes(3);
        let redlock = client(&nodes);
        drop(redlock.lock("warm-up").await.unwrap());
        nodes.iter().for_each(|node| node.slow(slow));
        let guard = redlock.lock("r").ttl(ttl).clock_drift_factor(0.6).await.unwrap();
        sleep(ms(6000)).await;
        assert!(guard.is_valid(), "{ttl:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_renewal_keeps_the_old_deadline_and_deletes_nothing() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let guard = redlock.lock("r").await.unwrap();
    nodes.iter().take(2).for_each(MemoryNode::hang);
    let error = guard.extend(TTL).await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    assert!(guard.is_valid());
    nodes.iter().for_each(MemoryNode::resume);
    sleep(Duration::from_secs(3)).await;
    guard.extend(TTL).await.unwrap();
    assert_eq!(nodes[0].keys(), ["redlock:r"]);
}

/// A renewal with an unknown outcome is tried again at once, not at the next third of the ttl, for
/// as long as time is left.
#[tokio::test(start_paused = true)]
async fn an_unknown_renewal_is_tried_again_until_the_deadline() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let guard = redlock.lock("r").await.unwrap();
    nodes.iter().take(2).for_each(MemoryNode::hang);
    let sent = || guard.hold().lease().renewal_sent;
    let (mut last, mut renewals) = (sent(), 0);
    while guard.is_valid() {
        sleep(Duration::from_millis(10)).await;
        renewals += usize::from(sent() != last);
        last = sent();
    }
    // From a third of the ttl on, a renewal is sent after 4 to 6 % of it, as chance has it.
    assert!((11..=17).contains(&renewals), "{renewals}");
    nodes.iter().for_each(MemoryNode::resume);
}

/// Two thirds of the nodes are a single server. The answers of that server alone renew nothing and
/// set nothing again.
/// The connections are cut while each renewal is on its way, if one that failed is sent again after a twentieth of the
/// ttl.
#[tokio::test(start_paused = true)]
async fn renewals_do_not_keep_step_with_what_cuts_the_connections() {
    const TTL: Duration = Duration::from_secs(4);
    let nodes = nodes(3);
    let redlock = Redlock::builder().nodes(&nodes).ttl(TTL).restarts(Restarts::Trusted);
    let redlock = redlock.build().unwrap();
    let guard = redlock.lock("r").await.unwrap();
    nodes.iter().for_each(|node| node.slow(TTL / 800));
    sleep(TTL / 3 + TTL / 2000).await;
    for _ in 0..100 {
        nodes.iter().for_each(MemoryNode::stop);
        nodes.iter().for_each(MemoryNode::start);
        let cut = Instant::now();
        while cut.elapsed() < TTL / 20 - TTL / 400 {
            // The nodes are well, and connected again at once.
            let _ = redlock.try_lock("other").await;
            sleep(TTL / 800).await;
        }
        sleep((TTL / 20).saturating_sub(cut.elapsed())).await;
        assert!(guard.is_valid());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_under_two_names_renews_and_heals_nothing_by_itself() {
    let nodes = nodes(2);
    let alias = |name: &str| NodeSpec { name: name.into(), connector: Arc::new(nodes[0].clone()) };
    let specs = vec![alias("a"), alias("also-a"), nodes[1].spec()];
    let redlock = Redlock::builder().ttl(TTL).restarts(Restarts::Trusted).over(specs);
    let guard = redlock.lock("r").await.unwrap();
    assert_eq!(guard.votes(), 2);
    nodes[1].stop();
    let begun = Instant::now();
    assert!(matches!(guard.extend(TTL).await, Err(LockError::NoQuorum { .. })));
    timeout(10 * TTL, guard.lost()).await.expect("one server renews it for ever");
    assert!(begun.elapsed() <= TTL);
    drop(guard);

    // The key is gone from the server, and must not come back through the server's other name.
    nodes[1].start();
    sleep(Duration::from_secs(2)).await;
    let guard = redlock.lock("r").await.unwrap();
    assert!(nodes[0].remove("redlock:r"));
    assert!(guard.extend(TTL).await.is_err());
    sleep(TTL / 10).await;
    assert!(nodes[0].keys().is_empty());
}

/// Three of five nodes have lost the lock. The slower of them answer after the other nodes have
/// failed.
#[tokio::test(start_paused = true)]
async fn a_renewal_is_settled_by_the_nodes_that_can_still_decide_it() {
    let nodes = nodes(5);
    let redlock = client(&nodes);
    let guard = redlock.lock("r").await.unwrap();
    sleep(Duration::from_millis(10)).await;
    nodes[..3].iter().for_each(|node| assert!(node.remove("redlock:r")));
    nodes[1..3].iter().for_each(|node| node.slow(Duration::from_millis(20)));
    nodes[3..].iter().for_each(MemoryNode::stop);
    sleep(Duration::from_millis(1)).await;
    let error = guard.extend(TTL).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::Refused, .. }), "{error}");
}

/// A node refuses, another fails, and the third still decides.
#[tokio::test(start_paused = true)]
async fn a_release_is_settled_by_the_nodes_that_can_still_confirm_it() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let guard = redlock.lock("r").await.unwrap();
    sleep(Duration::from_millis(10)).await;
    assert!(nodes[0].remove("redlock:r"));
    nodes[1].stop();
    nodes[2].slow(Duration::from_millis(20));
    sleep(Duration::from_millis(1)).await;
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
}

#[tokio::test(start_paused = true)]
async fn a_lock_deleted_on_a_majority_is_lost_at_the_next_renewal() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let outcome = redlock
        .lock("r")
        .run(async |_| {
            nodes.iter().take(2).for_each(MemoryNode::clear);
            std::future::pending::<()>().await;
        })
        .await;
    let Err(LockError::Lost { reason, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(reason, LostReason::Refused);
    sleep(Duration::from_secs(1)).await;
    assert!(nodes[2].keys().is_empty(), "what was left is released");
}

#[tokio::test(start_paused = true)]
async fn keys_are_expected_to_live_as_long_as_a_lost_answer_may_have_made_them() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let guard = redlock.lock("r").await.unwrap();
    nodes.iter().take(2).for_each(MemoryNode::hang);
    guard.extend(3 * TTL).await.unwrap_err();
    let lives = nodes[2].remaining("redlock:r").unwrap();
    let expired_by = guard.hold().lease().expired_by;
    assert!(expired_by.since(redlock.client().nodes.clock.now()) >= lives, "{lives:?}");
}

#[tokio::test(start_paused = true)]
async fn max_hold_ends_a_lock_that_would_renew_for_ever() {
    let redlock = client(&nodes(3));
    let max = Duration::from_secs(60);
    let begun = Instant::now();
    let outcome = redlock.lock("r").max_hold(max).run(async |_| sleep(2 * max).await).await;
    let Err(LockError::Lost { reason, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(reason, LostReason::MaxHold);
    assert!(begun.elapsed() >= max && begun.elapsed() < max + Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_lost_a_lock_is_not_its_holder() {
    let nodes = nodes(3);
    let (redlock, other) = (client(&nodes), client(&nodes));
    let lost = redlock.lock("r").auto_extend(false).await.unwrap();
    lost.lost().await;
    let _guard = other.lock("r").await.unwrap();
    let LockError::Held { by_this_client, .. } = redlock.try_lock("r").await.unwrap_err() else {
        panic!("it is held");
    };
    assert!(!by_this_client);
}

#[tokio::test(start_paused = true)]
async fn shutdown_drops_bodies_before_it_releases() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let running = tokio::spawn({
        let redlock = redlock.clone();
        async move { redlock.lock("r").run(async |_| std::future::pending::<()>().await).await }
    });
    while redlock.held().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    redlock.shutdown(Duration::from_secs(1)).await;
    assert!(are_empty(&nodes));
    let outcome = timeout(Duration::from_secs(1), running).await.unwrap().unwrap();
    let Err(LockError::Lost { reason, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(reason, LostReason::Shutdown);
    let error = redlock.lock("r").await.unwrap_err();
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_late_set_on_a_hung_node_is_cleaned_up_when_it_resumes() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    drop(redlock.lock("warm").await.unwrap());
    nodes.iter().for_each(MemoryNode::hang);
    let error = redlock.try_lock("r").await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    sleep(Duration::from_millis(500)).await;
    nodes.iter().for_each(MemoryNode::resume);
    sleep(Duration::from_secs(3)).await;
    for node in &nodes {
        assert!(node.keys().is_empty(), "{node:?}: {:?}", node.keys());
    }
    let _ = redlock.lock("r").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_panic_goes_through_after_the_release() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let body = tokio::spawn({
        let redlock = redlock.clone();
        async move { redlock.lock("r").run(async |_| panic!("the body's own")).await }
    });
    assert!(body.await.unwrap_err().is_panic());
    assert!(are_empty(&nodes));
}

#[tokio::test(start_paused = true)]
async fn the_current_lock_is_the_innermost_one_of_the_body() {
    let redlock = client(&nodes(3));
    assert!(crate::LockHandle::current().is_none());
    let inner = redlock
        .lock("outer")
        .run(async |_| redlock.lock("inner").run(async |_| crate::LockHandle::current()).await)
        .await;
    assert_eq!(inner.unwrap().unwrap().unwrap().resource(), "inner");
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_last_lock_was_lost_goes_with_its_last_user() {
    for lost in [false, true] {
        let redlock = client(&nodes(3));
        let weak = Arc::downgrade(redlock.client());
        let guard = redlock.lock("r").auto_extend(false).await.unwrap();
        if lost {
            guard.lost().await;
        }
        drop(guard);
        drop(redlock);
        sleep(10 * TTL).await;
        assert_eq!(weak.strong_count(), 0, "lost: {lost}");
        // The other tasks are those of the in-memory nodes.
        let metrics = runtime::Handle::current().metrics();
        assert_eq!(metrics.num_alive_tasks(), 0, "lost: {lost}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_state_is_kept_of_a_released_lock() {
    let redlock = client(&nodes(1));
    for number in 0..10 {
        drop(redlock.lock(number.to_string()).await.unwrap());
    }
    assert!(redlock.client().leases.registry.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_under_way_does_not_undo_an_extension() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let guard = redlock.lock("r").await.unwrap();
    nodes.iter().for_each(|node| node.slow(Duration::from_millis(10)));
    sleep(TTL / 3 - Duration::from_millis(5)).await;
    guard.extend(3 * TTL).await.unwrap();
    sleep(Duration::from_millis(50)).await;
    assert_eq!(guard.hold().renewal_ttl(), 3 * TTL);
}

fn runtime() -> Runtime {
    runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Until the lock has been renewed this often. Real time, because the runtimes of this test end in
/// real time.
fn assert_renewed(guard: &LockGuard, times: usize) {
    for _ in 0..times {
        let confirmed = || guard.hold().lease().confirmed;
        let before = confirmed();
        let limit = std::time::Instant::now() + Duration::from_secs(30);
        while confirmed() == before {
            assert!(guard.is_valid() && std::time::Instant::now() < limit);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The tasks of the nodes run where the nodes were used first. The renewing task runs where the
/// holder is.
#[test]
fn a_hold_of_joined_pools_outlives_the_runtime_of_their_nodes() {
    let (first, second) = (runtime(), runtime());
    let names = ["joined-a", "joined-b", "joined-c"];
    for name in names {
        let builder = Redlock::builder().nodes(nodes(1)).node_timeout(Duration::from_secs(3));
        let pool = builder.build().unwrap();
        first.block_on(async { drop(pool.lock("warm").await.unwrap()) });
        pools::install(name, pool).unwrap();
    }
    let joined = pools::quorum_of(names).unwrap();
    let ttl = Duration::from_secs(9);
    let guard = second.block_on(async { joined.lock("r").ttl(ttl).await.unwrap() });
    assert_renewed(&guard, 1);
    drop(first);
    assert_renewed(&guard, 2);
    second.block_on(guard.release()).unwrap();
}
