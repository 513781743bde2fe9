//! Every public future, dropped at each of its awaits, over nodes that answer, refuse, fail, hang
//! and answer late, in every combination of the five over three nodes: no key is left behind, and
//! the lock can be had again (rule 6).
//!
//! The nodes are in this process and time is tokio's, paused: what takes hours takes none.

mod several;
mod world;

use std::{future::pending, rc::Rc, time::Duration};

use redlock_core::{LockError, LockGuard, LockHandle, Redlock};
use redlock_tests::within;
use world::{Ask, EITHER, Mood, NODE_TIMEOUT, RESOURCE, Start, TTL, World, in_every_way, poll};

/// A set with the resource that other clients hold on some nodes.
const RESOURCES: [&str; 3] = ["also", RESOURCE, "too"];

/// A request, over nodes where other clients ask for what `others` says.
async fn request(starts: &[Start], ask: Ask, others: Ask) {
    for start in starts {
        in_every_way(*start, async |world, polls| {
            world.asks = others;
            world.trouble().await;
            poll(polls, ask(&world.client)).await
        })
        .await;
    }
}

/// A request of a client that has the first lock already.
async fn request_behind(held: Ask, ask: Ask, others: Ask) {
    in_every_way(Start::Warm, async |world, polls| {
        let guard = World::hold_as(held(&world.client)).await;
        world.asks = others;
        world.trouble().await;
        let ended = poll(polls, ask(&world.client)).await;
        drop(guard);
        ended
    })
    .await;
}

/// An extension, then the release.
async fn extend_and_release(held: Ask, others: Ask) {
    in_every_way(Start::Cold, async |world, polls| {
        let guard = World::hold_as(held(&world.client)).await;
        world.asks = others;
        world.trouble().await;
        let extended = poll(polls, guard.extend(TTL)).await;
        let released = poll(polls, guard.release()).await;
        extended && released
    })
    .await;
}

const LOCK: Ask = |it| it.lock(RESOURCE);
const SET: Ask = |it| it.lock_all(RESOURCES);

#[tokio::test(start_paused = true)]
async fn lock_from_the_first_connection_on() {
    request(&[Start::Cold], LOCK, LOCK).await;
}

#[tokio::test(start_paused = true)]
async fn lock_over_open_connections() {
    request(&[Start::Warm], LOCK, LOCK).await;
}

#[tokio::test(start_paused = true)]
async fn try_lock() {
    request(&EITHER, |it| it.try_lock(RESOURCE), LOCK).await;
}

#[tokio::test(start_paused = true)]
async fn lock_all() {
    request(&EITHER, SET, LOCK).await;
}

#[tokio::test(start_paused = true)]
async fn lock_all_with_a_token() {
    request(&[Start::Warm], |it| it.lock_all(RESOURCES).fenced(), LOCK).await;
}

#[tokio::test(start_paused = true)]
async fn lock_all_behind_a_task_of_the_same_client() {
    request_behind(LOCK, SET, LOCK).await;
}

#[tokio::test(start_paused = true)]
async fn run() {
    in_every_way(Start::Warm, async |world, polls| {
        // The body's own awaits as well, before and after the trouble reaches its lock.
        let client = world.client.clone();
        let body = async |_: &LockHandle| {
            tokio::task::yield_now().await;
            world.trouble().await;
            tokio::time::sleep(NODE_TIMEOUT).await;
        };
        poll(polls, client.lock(RESOURCE).run(body)).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn run_in_trouble() {
    in_every_way(Start::Warm, async |world, polls| {
        world.trouble().await;
        let body = async |_: &LockHandle| tokio::task::yield_now().await;
        poll(polls, world.client.lock(RESOURCE).run(body)).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn extend() {
    in_every_way(Start::Cold, async |world, polls| {
        let guard = world.hold(RESOURCE).await;
        world.trouble().await;
        let ended = poll(polls, guard.extend(TTL)).await;
        let taken = world.moods.iter().filter(|mood| **mood == Mood::Refuses).count();
        assert!(taken >= 2 || guard.is_valid(), "an extension that was dropped ends nothing");
        ended
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn release() {
    in_every_way(Start::Cold, async |world, polls| {
        let guard = world.hold(RESOURCE).await;
        world.trouble().await;
        poll(polls, guard.release()).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn extend_and_release_a_set() {
    extend_and_release(SET, LOCK).await;
}

#[tokio::test(start_paused = true)]
async fn health() {
    for start in EITHER {
        in_every_way(start, async |world, polls| {
            world.trouble().await;
            poll(polls, world.client.health()).await
        })
        .await;
    }
}

/// A bare guard, and a body that goes on until it is dropped, with whether it was.
async fn holders(world: &World) -> (LockGuard, tokio::task::JoinHandle<Result<(), LockError>>) {
    let guard = world.hold(RESOURCE).await;
    let (started, start) = tokio::sync::oneshot::channel();
    let request = world.client.lock("body");
    let body = tokio::spawn(async move {
        let body = async |_: &LockHandle| {
            let _ = started.send(());
            pending().await
        };
        request.run(body).await
    });
    start.await.unwrap();
    (guard, body)
}

#[tokio::test(start_paused = true)]
async fn release_all() {
    in_every_way(Start::Cold, async |world, polls| {
        let (guard, body) = holders(world).await;
        world.trouble().await;
        let ended = poll(polls, world.client.release_all()).await;
        assert!(!ended || !guard.is_valid());
        world.relief();
        // Holders that were told end by themselves. A future that was never polled has told no
        // holder.
        if polls == 0 {
            world.client.release_all().await;
        }
        let outcome = within("the body", body).await.unwrap();
        assert!(outcome.unwrap_err().is_lost());
        ended
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn shutdown() {
    in_every_way(Start::Cold, async |world, polls| {
        let (guard, body) = holders(world).await;
        world.trouble().await;
        let ended = poll(polls, world.client.shutdown(NODE_TIMEOUT)).await;
        if polls > 0 {
            let error = world.client.try_lock("new").await.unwrap_err();
            assert!(matches!(error, LockError::ShuttingDown { .. }), "{error:?}");
        }
        world.relief();
        // The rest of the shutdown does not happen. A second shutdown makes up for it.
        world.client.shutdown(Duration::ZERO).await;
        assert!(!guard.is_valid());
        let outcome = within("the body", body).await.unwrap();
        assert!(outcome.unwrap_err().is_lost());
        ended
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn connect() {
    in_every_way(Start::Cold, async |world, polls| {
        world.trouble().await;
        let nodes = Rc::new(world.nodes.clone());
        poll(polls, Redlock::connect(nodes.iter())).await
    })
    .await;
}
