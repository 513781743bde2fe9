//! Permits of one resource, over in-memory nodes.

mod found;
mod outages;
mod pauses;
mod together;
mod turns;

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::future::{join_all, try_join_all};
use tokio::time::{Instant, sleep, timeout};

use super::{
    Granted,
    fronts::Fronts,
    request::Request,
    retries::Chance,
    testing::{permit_request, terms},
    wait_terms::Pause,
};
use crate::{
    LockError, LockGuard, LockHandle, MemoryNode, Redlock, Released, Restarts,
    client::Client,
    clock::Moment,
    node::{
        Action, Listens, counter,
        intercepted::{far_away, intercepted},
        queue_keys,
    },
    options::LockOptions,
    resources::Resources,
    testing::{are_empty, nodes},
    wait::{Entry, FailedAttempt, Front, Joined, Report, Signal, queue_node},
};

const TTL: Duration = Duration::from_secs(9);
const SECOND: Duration = Duration::from_secs(1);

fn client(nodes: &[MemoryNode]) -> Redlock {
    Redlock::builder().nodes(nodes).ttl(TTL).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn so_many_hold_a_resource_and_no_more() {
    let nodes = nodes(3);
    let clients = [client(&nodes), client(&nodes)];
    for _ in 0..20 {
        let mut held = Vec::new();
        for number in 0..5 {
            // One attempt is enough, whichever permits are left.
            held.push(clients[number % 2].try_lock("r").permits(5).await.unwrap());
        }
        for client in &clients {
            assert!(client.try_lock("r").permits(5).await.unwrap_err().is_held());
        }
        let plain = clients[0].try_lock("r").await.unwrap();
        assert_eq!(plain.release().await.unwrap(), Released::Ours, "another name");
        let one = held.pop().unwrap();
        assert_eq!(one.release().await.unwrap(), Released::Ours);
        sleep(6 * SECOND).await;
        held.push(clients[1].try_lock("r").permits(5).await.unwrap());
        for guard in held {
            assert_eq!(guard.release().await.unwrap(), Released::Ours);
        }
        sleep(6 * SECOND).await;
    }
    assert!(are_empty(&nodes));
}

/// Whether the first node keeps the queue of the permits of this resource.
fn is_kept_by_first(client: &Redlock, name: &str) -> bool {
    let slot = queue_keys::permit(&client.client().key(name), 0);
    queue_node(&client.client().nodes, &slot) == Some(0)
}

/// A client that knows the nodes, and the only permit of the resource, which another client has.
async fn none_left(nodes: &[MemoryNode]) -> (Redlock, LockGuard) {
    let (ours, theirs) = (client(nodes), client(nodes));
    drop(ours.lock("warm").await.unwrap());
    let held = theirs.lock("r").permits(1).await.unwrap();
    (ours, held)
}

/// Waits after an attempt that failed now, and that was made because of `last`.
async fn pauses(
    request: &mut Request<'_>,
    front: &mut Front,
    failure: &FailedAttempt,
    last: Option<Chance>,
    end: Moment,
) -> Chance {
    let pause = Pause { begun: request.now(), end, failure: Some(failure), last };
    request.chance(front, pause).await.unwrap()
}

async fn joins_queue(request: &mut Request<'_>, front: &mut Front) -> Chance {
    let end = request.begun + 60 * SECOND;
    let chance = pauses(request, front, &FailedAttempt::full(), None, end).await;
    assert_eq!(chance, Chance::Free, "it looks whether a permit is free");
    chance
}

/// To the node that sits out all permits look free. A request that asked it would try one number after
/// the other.
#[tokio::test(start_paused = true)]
async fn a_free_permit_is_found_while_the_queue_node_sits_out() {
    const COUNT: u32 = 100;
    let nodes = nodes(3);
    let [holder, waiter, other] = [client(&nodes), client(&nodes), client(&nodes)];
    for client in [&holder, &waiter, &other] {
        drop(client.lock("warm").await.unwrap());
    }
    nodes[0].restart_empty();
    sleep(SECOND).await;
    let mut names = (0..1000).map(|number| format!("r{number}"));
    let name = names.find(|it| is_kept_by_first(&other, it)).unwrap();
    let permit = |it: &Redlock| it.lock(&name).permits(COUNT);
    let mut held = try_join_all((0..COUNT).map(|_| permit(&holder).into_future())).await.unwrap();
    let now = other.client().nodes.clock.now();
    assert!(other.client().nodes[0].why_no_vote(now).is_some(), "it sits out");
    let waiting = tokio::spawn(permit(&waiter).wait(60 * SECOND).into_future());
    sleep(SECOND / 100).await;
    drop(held.pop());
    let taken = timeout(SECOND / 100, waiting).await.unwrap().unwrap().unwrap();
    taken.release().await.unwrap();
    drop(permit(&other).wait(Duration::ZERO).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_permit_of_a_holder_that_crashed_is_free_after_its_ttl() {
    let nodes = nodes(3);
    let (one, other) = (client(&nodes), client(&nodes));
    let _alive = other.lock("r").permits(2).await.unwrap();
    let _crashed = one.lock("r").permits(2).auto_extend(false).await.unwrap();
    let begun = Instant::now();
    let next = other.lock("r").permits(2).wait(60 * SECOND).await.unwrap();
    assert!(begun.elapsed() < TTL + 3 * SECOND, "{:?}", begun.elapsed());
    assert!(next.is_valid());
}

/// The node that knows which permits are free is down.
#[tokio::test(start_paused = true)]
async fn permits_are_had_without_any_one_node() {
    for down in 0..3 {
        let nodes = nodes(3);
        let redlock = client(&nodes);
        drop(redlock.lock("warm").await.unwrap());
        nodes[down].hang();
        let asked = (0..3).map(|_| redlock.lock("r").permits(3).wait(60 * SECOND).into_future());
        let held = try_join_all(asked).await.unwrap();
        assert_eq!(held.len(), 3);
        assert!(redlock.try_lock("r").permits(3).await.is_err());
    }
}

/// Another number would be refused as well, as late as the first.
#[tokio::test(start_paused = true)]
async fn a_request_for_a_permit_asks_once_where_no_quorum_answers() {
    let mut waited = Vec::new();
    for permits in [false, true] {
        let nodes = nodes(3);
        let redlock = client(&nodes);
        drop(redlock.lock("warm").await.unwrap());
        nodes[1..].iter().for_each(MemoryNode::hang);
        let begun = Instant::now();
        let request = redlock.try_lock("r");
        let error = if permits { request.permits(9) } else { request }.await.unwrap_err();
        assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
        waited.push(begun.elapsed());
    }
    assert_eq!(waited[0], waited[1]);
}

#[tokio::test(start_paused = true)]
async fn what_permits_cannot_have_is_refused() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    for request in [
        redlock.lock("r").permits(3).fenced(),
        redlock.lock("r").permits(3).shared(),
        redlock.lock("r").permits(0),
        redlock.lock("r").permits(1025),
        redlock.lock_all(["r", "s"]).permits(3),
    ] {
        let error = request.await.unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error}");
    }
    let lead = redlock.lead("r").permits(3);
    let error = lead.run::<(), _, _>(|_| async { std::ops::ControlFlow::Break(()) }).await;
    assert!(matches!(error, Err(LockError::Config { .. })), "{error:?}");
    let lease = redlock.lock("r").permits(3).await.unwrap().into_lease();
    assert!(client(&nodes).adopt(lease).await.unwrap_err().is_lost());
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_joined_by_permits_and_not_by_locks() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let inside = async |_: &LockHandle| {
        let permit = redlock.lock("r").permits(1).run(async |_: &LockHandle| ()).await;
        let bare = redlock.lock("r").permits(1).wait(60 * SECOND).await.map(drop);
        let plain = redlock.try_lock("r").await.map(|guard| guard.votes());
        (permit.is_ok(), bare.is_ok(), plain.unwrap() >= 2)
    };
    assert_eq!(redlock.lock("r").permits(1).run(inside).await.unwrap(), (true, false, true));
}

/// An application names its locks as it likes.
#[tokio::test(start_paused = true)]
async fn a_lock_whose_name_ends_like_a_permit_is_a_plain_lock() {
    for name in ["doc:permit:1", "{doc}:permit:1", "doc:{redlock:doc}:permit:1"] {
        let nodes = nodes(3);
        let redlock = client(&nodes);
        let inside = async |_: &LockHandle| {
            let joined = redlock.lock(name).run(async |_: &LockHandle| ()).await;
            let bare = redlock.lock(name).wait(60 * SECOND).await.map(drop);
            let lead = redlock.lead(name);
            let lead = lead.run::<(), _, _>(async |_| std::ops::ControlFlow::Break(()));
            let lead = timeout(60 * SECOND, lead).await;
            (joined.is_ok(), bare.is_ok(), lead.is_ok_and(|led| led.is_err()))
        };
        let begun = Instant::now();
        let joined = redlock.lock(name).run(inside).await.unwrap();
        assert_eq!((joined, begun.elapsed()), ((true, false, true), Duration::ZERO), "{name}");
        let lease = redlock.lock(name).await.unwrap().into_lease();
        drop(client(&nodes).adopt(lease).await.unwrap());
    }
    let [key, next] = ["redlock:doc:permit:1", "redlock:doc:permit:2"];
    assert_eq!(queue_keys::queue(key), format!("{key}:{{{key}}}:queue"));
    assert_eq!(counter::key(next), format!("{next}:{{{next}}}:fence"));
}

#[tokio::test(start_paused = true)]
async fn a_request_for_a_permit_that_is_dropped_at_any_await_leaves_nothing() {
    for (held, polls) in
        [false, true].into_iter().flat_map(|held| (0..16).map(move |it| (held, it)))
    {
        let nodes = nodes(3);
        let redlock = client(&nodes);
        drop(redlock.lock("warm").await.unwrap());
        let holder = if held { Some(redlock.lock("r").permits(1).await.unwrap()) } else { None };
        nodes.iter().for_each(|node| node.slow(Duration::from_millis(3)));
        let asking = redlock.lock("r").permits(1).into_future();
        let _ = timeout(Duration::from_millis(polls), asking).await;
        drop(holder);
        sleep(SECOND).await;
        assert!(are_empty(&nodes), "{held} {polls}");
        drop(client(&nodes).try_lock("r").permits(1).await.unwrap());
    }
}
