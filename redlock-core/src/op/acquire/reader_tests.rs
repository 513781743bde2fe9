//! Readers and writers of one lock, over in-memory nodes.

mod fairness;
mod joining;
mod refused;

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::future::{join_all, try_join_all};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::barrier::Barrier;
use crate::{
    LockError, LockHandle, LostReason, MemoryNode, Redlock, Released, Restarts,
    node::{
        Action, Command,
        intercepted::{far_away, intercepted, overheard, without_pushes},
    },
    testing::{are_empty, nodes},
};

const TTL: Duration = Duration::from_secs(9);
const SECOND: Duration = Duration::from_secs(1);

fn client(nodes: &[MemoryNode]) -> Redlock {
    Redlock::builder().nodes(nodes).ttl(TTL).restarts(Restarts::Trusted).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn readers_hold_a_lock_together_and_exclude_writers() {
    let nodes = nodes(3);
    let clients = [client(&nodes), client(&nodes)];
    let ask = |number: usize| clients[number % 2].lock("r").shared().into_future();
    let readers = try_join_all((0..10).map(ask)).await.unwrap();
    assert!(readers.iter().all(|reader| reader.is_valid() && reader.votes() >= 2));
    for client in &clients {
        assert!(client.try_lock("r").await.unwrap_err().is_held());
        assert!(client.try_lock("r").fenced().await.unwrap_err().is_held());
        assert!(client.lock_all(["r", "s"]).wait(SECOND).await.unwrap_err().is_held());
    }
    for (number, reader) in readers.into_iter().enumerate() {
        assert!(clients[0].try_lock("r").await.is_err(), "{number} of 10 have gone");
        assert_eq!(reader.release().await.unwrap(), Released::Ours);
    }
    sleep(SECOND).await;
    assert!(are_empty(&nodes));
    let writer = clients[0].lock("r").await.unwrap();
    assert!(clients[1].try_lock("r").shared().await.unwrap_err().is_held());
    assert!(clients[0].try_lock("r").shared().await.unwrap_err().is_held());
    drop(writer);
}

#[tokio::test(start_paused = true)]
async fn a_reader_is_told_that_a_writer_of_its_own_client_has_the_lock() {
    let nodes = nodes(3);
    let (redlock, other) = (client(&nodes), client(&nodes));
    let _writer = redlock.lock("r").await.unwrap();
    for (client, is_own) in [(&redlock, true), (&other, false)] {
        for wait in [Duration::ZERO, SECOND] {
            let error = client.lock("r").shared().wait(wait).await.unwrap_err();
            let LockError::Held { by_this_client, .. } = error else { panic!("{error}") };
            assert_eq!(by_this_client, is_own, "{wait:?}");
        }
        // From the second time on, a writer of the other client waits for the lock and does not have it.
        tokio::spawn(other.lock("r").wait(60 * SECOND).into_future());
        sleep(SECOND).await;
    }
}

/// Each has an expiry of its own: that of a reader that crashed does not keep the others.
#[tokio::test(start_paused = true)]
async fn a_reader_that_is_not_renewed_expires_alone() {
    let nodes = nodes(3);
    let (one, other) = (client(&nodes), client(&nodes));
    let crashed = one.lock("r").shared().auto_extend(false).await.unwrap();
    let alive = other.lock("r").shared().await.unwrap();
    crashed.lost().await;
    sleep(100 * TTL).await;
    assert!(alive.is_valid() && alive.votes() == 3);
    assert_eq!(alive.release().await.unwrap(), Released::Ours);
    let writer = other.lock("r").await.unwrap();
    assert!(writer.is_valid());
    assert_eq!(crashed.release().await.unwrap(), Released::AlreadyLost);
    assert!(writer.is_valid() && writer.votes() == 3);
}

#[tokio::test(start_paused = true)]
async fn a_lock_whose_only_reader_crashed_is_free_after_its_ttl() {
    let nodes = nodes(3);
    let crashed = client(&nodes).lock("r").shared().auto_extend(false).await.unwrap();
    let begun = Instant::now();
    drop(client(&nodes).lock("r").wait(10 * TTL).await.unwrap());
    assert!(begun.elapsed() <= TTL + SECOND, "{:?}", begun.elapsed());
    drop(crashed);
}

#[tokio::test(start_paused = true)]
async fn readers_that_waited_for_a_writer_get_the_lock_together() {
    let nodes = nodes(3);
    let clients = [client(&nodes), client(&nodes)];
    let writer = clients[0].lock("r").await.unwrap();
    let together = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
    let reading = (0..8).map(|number| {
        let (request, together) = (clients[number % 2].lock("r").shared(), Arc::clone(&together));
        tokio::spawn(async move {
            let reader = request.wait(60 * SECOND).await.unwrap();
            together.1.fetch_max(together.0.fetch_add(1, SeqCst) + 1, SeqCst);
            sleep(20 * SECOND).await;
            together.0.fetch_sub(1, SeqCst);
            drop(reader);
        })
    });
    let reading: Vec<_> = reading.collect();
    sleep(5 * SECOND).await;
    assert_eq!(together.0.load(SeqCst), 0);
    drop(writer);
    let begun = Instant::now();
    join_all(reading).await.into_iter().for_each(|it| it.unwrap());
    assert_eq!(together.1.load(SeqCst), 8);
    assert!(begun.elapsed() < 25 * SECOND, "{:?}", begun.elapsed());
    sleep(SECOND).await;
    assert!(are_empty(&nodes));
}

/// One after the other would be a round trip for each. The first of them joins the queue between the clients before
/// the others come, or after them.
#[tokio::test(start_paused = true)]
async fn the_readers_of_a_client_get_a_lock_within_few_round_trips() {
    const ROUND_TRIP: Duration = Duration::from_millis(20);
    for pause in [Duration::ZERO, ROUND_TRIP * 4] {
        let nodes = nodes(5);
        nodes.iter().for_each(|node| node.slow(ROUND_TRIP));
        let (redlock, other) = (client(&nodes), client(&nodes));
        let writer = other.lock("r").await.unwrap();
        let read = || redlock.lock("r").shared().wait(60 * SECOND).into_future();
        let mut reading = vec![tokio::spawn(read())];
        sleep(pause).await;
        reading.extend((1..100).map(|_| tokio::spawn(read())));
        sleep(SECOND).await;
        drop(writer);
        let begun = Instant::now();
        let readers = join_all(reading).await;
        assert!(begun.elapsed() < 12 * ROUND_TRIP, "{:?}", begun.elapsed());
        assert_eq!(readers.into_iter().filter(|it| it.as_ref().unwrap().is_ok()).count(), 100);
        sleep(SECOND).await;
        assert!(are_empty(&nodes) && redlock.client().queues.is_empty());
    }
}

/// The client stood in the queue before the writer came. Its readers of that time have its place there.
#[tokio::test(start_paused = true)]
async fn readers_of_one_client_that_came_before_a_writer_go_before_it_and_hardly_any_later_ones() {
    const MANY: u32 = 100;
    let nodes = nodes(5);
    nodes.iter().for_each(|node| node.slow(Duration::from_millis(5)));
    let clients: [_; 3] = std::array::from_fn(|_| client(&nodes));
    let held = clients[0].lock("r").await.unwrap();
    let inside = Arc::new(AtomicU32::new(0));
    let read = |_| {
        let (request, inside) = (clients[1].lock("r").shared(), Arc::clone(&inside));
        tokio::spawn(async move {
            let guard = request.wait(60 * SECOND).await.unwrap();
            inside.fetch_add(1, SeqCst);
            sleep(SECOND).await;
            drop(guard);
        })
    };
    let mut reading: Vec<_> = (0..MANY).map(read).collect();
    sleep(SECOND).await;
    let writing = tokio::spawn(clients[2].lock("r").wait(60 * SECOND).into_future());
    sleep(SECOND).await;
    reading.extend((0..MANY).map(read));
    sleep(SECOND).await;
    drop(held);
    let writer = writing.await.unwrap().unwrap();
    // The writer hears that it is next, and keeps the later ones out.
    let inside = inside.load(SeqCst);
    assert!((MANY..MANY + 5).contains(&inside), "{inside}");
    drop(writer);
    join_all(reading).await.into_iter().for_each(|it| it.unwrap());
}

/// A reader that is let in beside the front, and is refused because a writer waits, goes back to where it was.
#[tokio::test(start_paused = true)]
async fn a_reader_that_asked_beside_the_front_keeps_its_place_and_its_room() {
    const MS: Duration = Duration::from_millis(1);
    let nodes = nodes(3);
    let far = nodes.iter().map(|node| far_away(node.name(), node, 10 * MS)).collect();
    let redlock = Redlock::builder().ttl(TTL).max_waiters(4).over(far);
    let other = client(&nodes);
    let writer = other.lock("r").await.unwrap();
    let read = || {
        let request = redlock.lock("r").shared().wait(60 * SECOND).into_future();
        tokio::spawn(async move {
            let guard = request.await.map_err(|error| error.is_held())?;
            sleep(SECOND).await;
            drop(guard);
            Ok::<_, bool>(())
        })
    };
    let mut early = Vec::new();
    for _ in 0..4 {
        early.push(read());
        sleep(SECOND).await;
    }
    drop(writer);
    // The first reader has the lock, and the node says that no client waits. Then a writer comes.
    sleep(32 * MS).await;
    let writing = tokio::spawn(other.lock("r").wait(60 * SECOND).into_future());
    sleep(4 * MS).await;
    let late: Vec<_> = (0..4).map(|_| read()).collect();
    sleep(5 * SECOND).await;
    drop(writing.await.unwrap().unwrap());
    // A reader that is refused is told that other tasks are before it.
    for early in join_all(early).await {
        assert_eq!(early.unwrap(), Ok(()), "its room was given to a later one");
    }
    late.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_reader_is_healed_and_lost_like_any_holder() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let readers = [
        redlock.lock("r").shared().await.unwrap(),
        client(&nodes).lock("r").shared().await.unwrap(),
    ];
    for node in &nodes {
        node.restart_empty();
        sleep(TTL).await;
    }
    assert!(readers.iter().all(|reader| reader.is_valid() && reader.votes() == 3));
    nodes.iter().for_each(MemoryNode::clear);
    let writer = client(&nodes).lock("r").await.unwrap();
    for reader in &readers {
        timeout(TTL, reader.lost()).await.unwrap();
    }
    assert!(writer.is_valid());
    drop(readers);
    sleep(SECOND).await;
    assert_eq!(writer.release().await.unwrap(), Released::Ours);
}

#[tokio::test(start_paused = true)]
async fn an_operator_takes_a_lock_from_its_readers() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let readers =
        [redlock.lock("r").shared().await.unwrap(), redlock.lock("r").shared().await.unwrap()];
    let status = redlock.inspect("r").await.unwrap();
    assert_eq!(status.holder(), None);
    assert!(status.remaining() > TTL - SECOND);
    redlock.force_release("r").await.unwrap();
    for reader in &readers {
        timeout(TTL, reader.lost()).await.unwrap();
        let error = reader.extend(TTL).await.unwrap_err();
        assert!(matches!(error, LockError::Lost { reason: LostReason::Refused, .. }), "{error}");
    }
    sleep(TTL).await;
    let reader = redlock.lock("r").shared().await.unwrap();
    redlock.force_release_now("r").await.unwrap();
    drop(redlock.try_lock("r").await.unwrap());
    drop(reader);
}

#[tokio::test(start_paused = true)]
async fn a_min_hold_keeps_a_reader() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    drop(redlock.lock("r").shared().min_hold(20 * SECOND).await.unwrap());
    sleep(15 * SECOND).await;
    assert!(redlock.try_lock("r").await.unwrap_err().is_held());
    drop(redlock.try_lock("r").shared().await.unwrap());
    sleep(6 * SECOND).await;
    drop(redlock.try_lock("r").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn readers_join_each_other_and_writers_and_a_writer_does_not_join_readers() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let inside = async |_: &LockHandle| {
        let begun = Instant::now();
        let writes = redlock.lock("r").wait(60 * SECOND).run(async |_: &LockHandle| ()).await;
        let reads = redlock.lock("r").shared().run(async |_: &LockHandle| ()).await;
        let bare = redlock.lock("r").shared().wait(60 * SECOND).await.map(drop);
        assert_eq!(begun.elapsed(), Duration::ZERO);
        (writes.is_ok(), reads.is_ok(), bare.is_ok())
    };
    assert_eq!(redlock.lock("r").shared().run(inside).await.unwrap(), (false, true, false));
    assert_eq!(redlock.lock("r").run(inside).await.unwrap(), (true, true, false));
}

#[tokio::test(start_paused = true)]
async fn what_readers_cannot_have_is_refused() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    for request in [redlock.lock("r").shared().fenced(), redlock.lock_all(["r", "s"]).shared()] {
        let error = request.await.unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error}");
    }
    let error = redlock
        .lead("r")
        .shared()
        .run::<(), _, _>(|_| async { std::ops::ControlFlow::Break(()) })
        .await
        .unwrap_err();
    assert!(matches!(error, LockError::Config { .. }), "{error}");

    let lease = redlock.lock("r").shared().await.unwrap().into_lease();
    assert!(client(&nodes).adopt(lease).await.unwrap_err().is_lost());
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_dropped_at_any_await_leaves_nothing() {
    for (held, polls) in
        [false, true].into_iter().flat_map(|held| (0..12).map(move |it| (held, it)))
    {
        let nodes = nodes(3);
        let redlock = client(&nodes);
        drop(redlock.lock("warm").await.unwrap());
        let writer = if held { Some(redlock.lock("r").await.unwrap()) } else { None };
        nodes.iter().for_each(|node| node.slow(Duration::from_millis(3)));
        let reading = redlock.lock("r").shared().into_future();
        let _ = timeout(Duration::from_millis(polls), reading).await;
        drop(writer);
        sleep(SECOND).await;
        assert!(are_empty(&nodes), "{held} {polls}");
        drop(client(&nodes).try_lock("r").await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn no_queue_is_kept_of_readers_that_have_gone() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let reader = redlock.lock("r").shared().await.unwrap();
    assert!(redlock.client().queues.is_empty(), "readers do not stand in each other's way");
    drop(reader);
    let writer = redlock.lock("r").await.unwrap();
    let waiting = [redlock.lock("r").shared(), redlock.lock("r").shared()]
        .map(|request| tokio::spawn(request.wait(2 * SECOND).into_future()));
    for waiting in waiting {
        assert!(waiting.await.unwrap().unwrap_err().is_held());
    }
    drop(writer);
    assert!(redlock.client().queues.is_empty());
}

/// The reader shares its lock at once while the set waits for the other one, unless the set keeps it out.
#[tokio::test(start_paused = true)]
async fn a_set_gets_its_turn_beside_a_reader_that_comes_again_at_once() {
    let nodes = nodes(5);
    nodes.iter().for_each(|node| node.slow(Duration::from_micros(300)));
    let clients = [(); 3].map(|()| Redlock::builder().nodes(&nodes).build().unwrap());
    for client in &clients {
        drop(client.lock("warm").await.unwrap());
    }
    let [reader, writer, set] = clients;
    let reads = tokio::spawn(async move {
        for turn in 0.. {
            let _guard = reader.lock("a").shared().await.unwrap();
            sleep(Duration::from_micros(3000 + turn * 7919 % 4000)).await;
        }
    });
    let writes = tokio::spawn(async move {
        for turn in 0.. {
            let _guard = writer.lock("b").await.unwrap();
            sleep(Duration::from_millis(40 + turn * 17 % 40)).await;
        }
    });
    sleep(SECOND).await;
    for _ in 0..10 {
        let begun = Instant::now();
        drop(set.lock_all(["a", "b"]).await.unwrap());
        assert!(begun.elapsed() < SECOND / 3, "{:?}", begun.elapsed());
        sleep(SECOND / 10).await;
    }
    reads.abort();
    writes.abort();
}
