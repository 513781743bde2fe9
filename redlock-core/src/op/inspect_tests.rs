//! Looking at locks and taking them away, on nodes in this process.

use std::{future::IntoFuture, time::Duration};

use tokio::time::{Instant, sleep};

use crate::{
    LockError, LockState, LostReason, MemoryNode, NodeErrorKind, Redlock, Released,
    node::intercepted, testing::nodes,
};

const SECOND: Duration = Duration::from_secs(1);

fn client(name: &str, nodes: &[MemoryNode]) -> Redlock {
    Redlock::builder().nodes(nodes).client_name(name).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_operator_sees_the_holder_and_the_clients_that_wait_in_order() {
    let nodes = nodes(3);
    let [holder, operator] = ["holder", "operator"].map(|name| client(name, &nodes));
    let free = operator.inspect("r").await.unwrap();
    assert_eq!((free.holder(), free.remaining()), (None, Duration::ZERO));
    assert!(free.nodes().iter().all(|it| matches!(it.state, LockState::Free)));

    let guard = holder.lock("r").await.unwrap();
    let mut waiting = Vec::new();
    for name in ["one", "two", "three"] {
        let request = client(name, &nodes).lock("r").wait(60 * SECOND);
        waiting.push(tokio::spawn(async move { request.await.map(drop) }));
        sleep(SECOND).await;
    }
    let status = operator.inspect("r").await.unwrap();
    assert_eq!(status.holder(), Some("holder"));
    assert_eq!(status.remaining(), 27 * SECOND);
    assert_eq!(status.nodes().len(), 3);
    let names: Vec<_> = status.waiting().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["one", "two", "three"]);
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    drop(guard);
    sleep(10 * SECOND).await;
    let free = operator.inspect("r").await.unwrap();
    assert!(free.holder().is_none() && free.waiting().is_empty(), "{free:?}");
}

#[tokio::test(start_paused = true)]
async fn nodes_that_do_not_answer_are_told_as_such() {
    let nodes = nodes(3);
    let [holder, operator] = ["holder", "operator"].map(|name| client(name, &nodes));
    let _guard = holder.lock("r").await.unwrap();
    assert!(operator.inspect("r").await.unwrap().holder().is_some());
    nodes[1].hang();
    nodes[2].stop();
    sleep(SECOND).await;
    let begun = Instant::now();
    let status = operator.inspect("r").await.unwrap();
    assert!(begun.elapsed() <= 200 * SECOND / 1000, "{:?}", begun.elapsed());
    assert_eq!(status.holder(), None, "one node is no quorum");
    let [LockState::Held { .. }, LockState::Unknown { error: late, .. }, LockState::Unknown { .. }] =
        [0, 1, 2].map(|it| status.nodes()[it].state.clone())
    else {
        panic!("{status:?}");
    };
    assert_eq!(late.kind, NodeErrorKind::Timeout);
    let refused = operator.force_release("r").await.unwrap_err();
    assert!(matches!(refused, LockError::NoQuorum { granted: 1, .. }), "{refused}");
    assert!(operator.inspect("").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_taken_away_frees_when_its_time_is_over() {
    let nodes = nodes(3);
    let [holder, operator, next] = ["holder", "operator", "next"].map(|it| client(it, &nodes));
    let guard = holder.lock("r").ttl(9 * SECOND).await.unwrap();
    let begun = Instant::now();
    operator.force_release("r").await.unwrap();
    assert!(guard.is_valid() && next.try_lock("r").await.is_err(), "the holder still works");
    let taken = next.lock("r").wait(60 * SECOND).await.unwrap();
    assert!(!guard.is_valid(), "two hold it");
    assert!(begun.elapsed() >= 8 * SECOND && begun.elapsed() < 10 * SECOND);
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
    assert!(taken.is_valid());
    // A free lock stays free.
    operator.force_release("other").await.unwrap();
    assert!(next.try_lock("other").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_holder_learns_at_its_next_renewal_that_the_lock_was_taken_away() {
    let nodes = nodes(3);
    let [holder, operator] = ["holder", "operator"].map(|name| client(name, &nodes));
    for now in [false, true] {
        let lost = holder.lock("r").ttl(9 * SECOND).run(async |_| {
            let taken_away = if now {
                operator.force_release_now("r").await
            } else {
                operator.force_release("r").await
            };
            taken_away.unwrap();
            sleep(4 * SECOND).await;
        });
        let lost = lost.await.unwrap_err();
        let LockError::Lost { reason, .. } = &lost else { panic!("{lost}") };
        assert_eq!(*reason, LostReason::Refused);
        sleep(20 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_deleted_goes_to_the_next_waiter_at_once() {
    let nodes = nodes(3);
    let [holder, operator, next] = ["holder", "operator", "next"].map(|it| client(it, &nodes));
    let _guard = holder.lock("r").await.unwrap();
    let waits = tokio::spawn(next.lock("r").wait(60 * SECOND).into_future());
    sleep(SECOND).await;
    let begun = Instant::now();
    operator.force_release_now("r").await.unwrap();
    let taken = waits.await.unwrap().unwrap();
    assert!(begun.elapsed() < SECOND / 100, "{:?}", begun.elapsed());
    // The holder may do this itself. Its own waiters are woken as well.
    let waits = tokio::spawn(operator.lock("r").wait(60 * SECOND).into_future());
    sleep(SECOND).await;
    let begun = Instant::now();
    operator.force_release_now("r").await.unwrap();
    drop(waits.await.unwrap().unwrap());
    assert!(begun.elapsed() < SECOND / 100, "{:?}", begun.elapsed());
    drop(taken);
}

/// A node does not push the turn to the client that has caused it.
#[tokio::test(start_paused = true)]
async fn a_permit_that_is_taken_away_goes_to_the_next_task_at_once() {
    let nodes = nodes(3);
    let [ours, theirs] = ["ours", "theirs"].map(|it| client(it, &nodes));
    for holder in [&ours, &theirs] {
        let _held = holder.lock("r").permits(1).await.unwrap();
        let waits = tokio::spawn(ours.lock("r").permits(1).wait(60 * SECOND).into_future());
        sleep(SECOND).await;
        let begun = Instant::now();
        ours.force_release_now("r:{redlock:r}:permit:0").await.unwrap();
        drop(waits.await.unwrap().unwrap());
        assert!(begun.elapsed() < SECOND / 100, "{:?}", begun.elapsed());
    }
}

/// The command line asks with its first call. The permit is taken away between two reports of the waiter.
#[tokio::test(start_paused = true)]
async fn a_client_that_was_never_connected_passes_on_what_it_takes_away() {
    let nodes = nodes(3);
    let [ours, theirs] = ["ours", "theirs"].map(|it| client(it, &nodes));
    let _held = theirs.lock("r").permits(1).await.unwrap();
    for _ in 0..3 {
        let waits = tokio::spawn(ours.lock("r").permits(1).wait(60 * SECOND).into_future());
        sleep(SECOND / 2).await;
        let begun = Instant::now();
        let operator = client("operator", &nodes);
        operator.force_release_now("r:{redlock:r}:permit:0").await.unwrap();
        let _next = waits.await.unwrap().unwrap();
        assert!(begun.elapsed() < SECOND / 100, "{:?}", begun.elapsed());
    }
}

/// They stand in the same queue between clients.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_taken_away_goes_to_the_next_task_whether_it_reads_or_writes() {
    for (held, waits) in [(false, true), (true, false), (false, false)] {
        let nodes = nodes(3);
        let [ours, theirs] = ["ours", "theirs"].map(|it| client(it, &nodes));
        let ask = |it: &Redlock, shared| if shared { it.lock("r").shared() } else { it.lock("r") };
        drop(ours.lock("warm").await.unwrap());
        let _held = ask(&theirs, held).await.unwrap();
        let waiting = tokio::spawn(ask(&ours, waits).wait(60 * SECOND).into_future());
        sleep(SECOND / 500).await;
        let begun = Instant::now();
        ours.force_release_now("r").await.unwrap();
        drop(waiting.await.unwrap().unwrap());
        assert!(begun.elapsed() < SECOND / 500, "{held} {waits}: {:?}", begun.elapsed());
    }
}

/// It does not watch the lock yet.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_relies_on_its_turn_gets_it_when_the_lock_is_deleted() {
    let nodes = nodes(3);
    let [holder, operator, next] = ["holder", "operator", "next"].map(|it| client(it, &nodes));
    for client in [&operator, &next] {
        drop(client.lock("warm").await.unwrap());
    }
    // Each node keeps the queues of some of them.
    for resource in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let _guard = holder.lock(resource).await.unwrap();
        let waits = tokio::spawn(next.lock(resource).wait(60 * SECOND).into_future());
        sleep(SECOND / 500).await;
        let begun = Instant::now();
        operator.force_release_now(resource).await.unwrap();
        drop(waits.await.unwrap().unwrap());
        assert!(begun.elapsed() < SECOND / 500, "{:?}", begun.elapsed());
    }
}

/// A client of two servers, the first of which has two names.
fn with_an_alias(nodes: &[MemoryNode]) -> Redlock {
    let alias = intercepted::slow_to_connect("alias", &nodes[0], SECOND / 100);
    let specs = vec![nodes[0].spec(), nodes[1].spec(), alias];
    Redlock::builder().over(specs)
}

/// While a client connects to a server under a second name, nothing shows yet that it is the same server
/// (rule 16).
#[tokio::test(start_paused = true)]
async fn a_server_with_two_names_is_counted_once() {
    let nodes = nodes(2);
    let _guard = client("holder", &nodes[..1]).lock("r").await.unwrap();
    let operator = with_an_alias(&nodes);
    let status = operator.inspect("r").await.unwrap();
    assert_eq!(status.holder(), None, "one server is no quorum: {status:?}");
    let [LockState::Held { .. }, LockState::Free, LockState::Unknown { error, .. }] =
        [0, 1, 2].map(|it| status.nodes()[it].state.clone())
    else {
        panic!("{status:?}");
    };
    assert_eq!(error.kind, NodeErrorKind::Twin);
    // It is known now, and is not asked.
    nodes[0].hang();
    let status = operator.inspect("r").await.unwrap();
    let LockState::Unknown { error, .. } = &status.nodes()[2].state else { panic!("{status:?}") };
    assert_eq!(error.kind, NodeErrorKind::Twin);
}

/// A holder that still has a quorum must not pass for one that has lost its lock.
#[tokio::test(start_paused = true)]
async fn a_lock_is_not_taken_away_from_a_server_with_two_names_alone() {
    for at_once in [false, true] {
        let nodes = nodes(2);
        let operator = with_an_alias(&nodes);
        operator.client().ready().await.unwrap();
        nodes[1].hang();
        let taken_away = if at_once {
            operator.force_release_now("r").await
        } else {
            operator.force_release("r").await
        };
        let Err(LockError::NoQuorum { nodes, .. }) = taken_away else { panic!("{taken_away:?}") };
        let kinds: Vec<_> = nodes.iter().map(|error| error.kind).collect();
        assert_eq!(kinds, [NodeErrorKind::Timeout, NodeErrorKind::Twin]);
    }
}
