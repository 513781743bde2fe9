//! Readers, permits, and locks that pass to another client.

use std::time::Duration;

use redlock_core::{LockState, NodeStatus};

use super::{
    LOCK, extend_and_release, request, request_behind,
    world::{Ask, EITHER, Mood, NODE_TIMEOUT, RESOURCE, Start, World, client, in_every_way, poll},
};

const READER: Ask = |it| it.lock(RESOURCE).shared();
const PERMIT: Ask = |it| it.lock(RESOURCE).permits(1);

#[tokio::test(start_paused = true)]
async fn a_reader() {
    request(&EITHER, READER, LOCK).await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_behind_a_writer_of_the_same_client() {
    request_behind(LOCK, READER, LOCK).await;
}

/// The writer has raised a barrier on the nodes.
#[tokio::test(start_paused = true)]
async fn a_writer_behind_readers() {
    in_every_way(Start::Warm, async |world, polls| {
        let guard = World::hold_as(READER(&world.client)).await;
        world.asks = READER;
        world.trouble().await;
        let ended = poll(polls, world.client.lock(RESOURCE)).await;
        drop(guard);
        if world.moods.iter().all(|mood| matches!(mood, Mood::Answers | Mood::Refuses)) {
            // A barrier that stays would expire after five seconds.
            tokio::time::sleep(2 * NODE_TIMEOUT).await;
            let other = client(&world.nodes).build().unwrap();
            drop(other.try_lock(RESOURCE).shared().await.expect("no barrier stays"));
        }
        ended
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn extend_and_release_a_reader() {
    extend_and_release(READER, LOCK).await;
}

#[tokio::test(start_paused = true)]
async fn a_permit() {
    request(&EITHER, PERMIT, PERMIT).await;
}

#[tokio::test(start_paused = true)]
async fn a_permit_where_another_is_free() {
    let one_of_two: Ask = |it| it.lock(RESOURCE).permits(2);
    request(&[Start::Warm], one_of_two, one_of_two).await;
}

#[tokio::test(start_paused = true)]
async fn a_permit_behind_a_holder_of_the_same_client() {
    request_behind(PERMIT, PERMIT, PERMIT).await;
}

#[tokio::test(start_paused = true)]
async fn extend_and_release_a_permit() {
    extend_and_release(PERMIT, PERMIT).await;
}

/// The names of the clients that have the lock on some node.
async fn holders(world: &World) -> Vec<String> {
    let status = client(&world.nodes).build().unwrap().inspect(RESOURCE).await.unwrap();
    let holder = |node: &NodeStatus| match &node.state {
        LockState::Held { holder, .. } => holder.clone(),
        _ => None,
    };
    status.nodes().iter().filter_map(holder).collect()
}

/// Keys that were taken over are deleted. The others stay as they are, those of a lock on its way, and
/// expire.
#[tokio::test(start_paused = true)]
async fn adopt() {
    const SHORT: Duration = Duration::from_secs(10);
    const GIVER: &str = "giver";
    for start in EITHER {
        in_every_way(start, async |world, polls| {
            let giver = client(&world.nodes).client_name(GIVER).build().unwrap();
            let guard = World::hold_as(giver.lock(RESOURCE).ttl(SHORT)).await;
            let lease = guard.into_lease();
            world.trouble().await;
            let ended = poll(polls, world.client.adopt(lease)).await;
            world.relief();
            // Before it would expire by itself.
            let cleaned_up = tokio::time::timeout(SHORT / 2, async {
                while world.owes().await || holders(world).await.iter().any(|it| it != GIVER) {
                    tokio::time::sleep(NODE_TIMEOUT).await;
                }
            });
            cleaned_up.await.expect("the client that adopts has cleaned up");
            ended
        })
        .await;
    }
}
