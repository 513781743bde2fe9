//! Every public future, dropped at each of its awaits, over nodes that answer, refuse, fail, hang
//! and answer late, in every combination of the five over three nodes: no key is left behind, and
//! the lock can be had again (rule 6).
//!
//! The nodes are in this process and time is tokio's, paused: what takes hours takes none.

use std::{future::pending, rc::Rc, time::Duration};

use redlock_core::{LockError, LockGuard, LockHandle, MemoryNode, Redlock, Released, Restarts};
use redlock_tests::{poll_times, within};

const RESOURCE: &str = "job";
const KEY: &str = "redlock:job";

/// A set with the resource that other clients hold on some nodes.
const SET: [&str; 3] = ["also", RESOURCE, "too"];

/// Far longer than any run, so that no key just runs out.
const TTL: Duration = Duration::from_secs(24 * 60 * 60);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

/// How a node treats a client that asks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Answers,
    /// Another client has the lock there.
    Refuses,
    /// Connections break and are refused.
    Fails,
    /// It takes commands, and runs them when it goes on.
    Hangs,
    /// It runs commands after every client has given them up.
    Late,
}

const MOODS: [Mood; 5] = [Mood::Answers, Mood::Refuses, Mood::Fails, Mood::Hangs, Mood::Late];

/// Whether the client has its connections before the trouble begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Cold,
    Warm,
}

fn client<'a>(nodes: impl IntoIterator<Item = &'a MemoryNode>) -> Redlock {
    Redlock::builder()
        .nodes(nodes)
        .ttl(TTL)
        .max_ttl(TTL)
        .node_timeout(NODE_TIMEOUT)
        .connect_timeout(2 * NODE_TIMEOUT)
        .retry_delay(NODE_TIMEOUT)
        .wait(3 * NODE_TIMEOUT)
        // They keep their data when they fail.
        .restarts(Restarts::Trusted)
        .build()
        .unwrap()
}

/// Three nodes, and what goes on with them.
struct World {
    nodes: [MemoryNode; 3],
    moods: [Mood; 3],
    client: Redlock,
    /// The keys of another client, each on one node alone.
    foreign: Vec<(Redlock, LockGuard)>,
}

impl World {
    async fn new(moods: [Mood; 3], start: Start) -> Self {
        let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
        let client = client(&nodes);
        let world = Self { nodes, moods, client, foreign: Vec::new() };
        if start == Start::Warm {
            drop(world.hold("warm-up").await);
            world.cleaned_up().await;
        }
        world
    }

    /// Takes a lock on all three nodes, before the trouble begins.
    async fn hold(&self, resource: &str) -> LockGuard {
        self.hold_all(&[resource]).await
    }

    async fn hold_all(&self, resources: &[&str]) -> LockGuard {
        let guard = self.client.lock_all(resources.iter().copied()).await.unwrap();
        within("all votes", async {
            while guard.votes() < 3 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        guard
    }

    async fn trouble(&mut self) {
        for (node, mood) in self.nodes.iter().zip(self.moods) {
            match mood {
                Mood::Answers => {}
                Mood::Refuses => {
                    node.remove(KEY);
                    let somebody = client([node]);
                    let guard = somebody.lock(RESOURCE).await.unwrap();
                    self.foreign.push((somebody, guard));
                }
                Mood::Fails => node.stop(),
                Mood::Hangs => node.hang(),
                Mood::Late => node.slow(3 * NODE_TIMEOUT),
            }
        }
    }

    fn relief(&mut self) {
        for (node, mood) in self.nodes.iter().zip(self.moods) {
            match mood {
                Mood::Answers | Mood::Refuses => {}
                Mood::Fails => node.start(),
                Mood::Hangs => node.resume(),
                Mood::Late => node.slow(Duration::ZERO),
            }
        }
        self.foreign.clear();
    }

    /// Returns once no node has a key and no client owes a node a delete.
    async fn cleaned_up(&self) {
        within("clean-up", async {
            loop {
                let owed: usize =
                    self.client.health().await.iter().map(|node| node.pending_cleanups).sum();
                if owed == 0 && self.nodes.iter().all(|node| node.keys().is_empty()) {
                    return;
                }
                tokio::time::sleep(5 * NODE_TIMEOUT).await;
            }
        })
        .await;
    }

    /// The trouble is over: nothing is left, nothing comes, and the lock can be had.
    async fn end_as_new(mut self) {
        self.relief();
        self.cleaned_up().await;
        tokio::time::sleep(10 * NODE_TIMEOUT).await;
        let keys: Vec<_> = self.nodes.iter().map(MemoryNode::keys).collect();
        assert!(keys.iter().all(Vec::is_empty), "came back: {keys:?}");
        let next = client(&self.nodes);
        let guard = next.lock(RESOURCE).wait(Duration::from_secs(10)).await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Ours);
    }
}

/// Up to this many polls each is tried. Past that a future only looks again whether it is done,
/// every few milliseconds, and the steps double.
const EVERY: usize = 12;

/// Every combination of moods, and for each every number of polls, until the future ends.
async fn in_every_way(start: Start, mut act: impl AsyncFnMut(&mut World, usize) -> bool) {
    for first in MOODS {
        for second in MOODS {
            for third in MOODS {
                let moods = [first, second, third];
                let mut polls = 0;
                loop {
                    let mut world = World::new(moods, start).await;
                    // Said when the test fails.
                    println!("{moods:?}, {start:?}, {polls} polls");
                    let ended = act(&mut world, polls).await;
                    world.end_as_new().await;
                    if ended {
                        break;
                    }
                    polls += if polls < EVERY { 1 } else { polls };
                }
                assert!(polls > 0, "never dropped before its end");
            }
        }
    }
}

/// Polls the future this often; whether it ended.
async fn poll<F: IntoFuture>(times: usize, future: F) -> bool {
    within("the future", poll_times(times, future.into_future())).await.is_some()
}

async fn lock(start: Start) {
    in_every_way(start, async |world, polls| {
        world.trouble().await;
        poll(polls, world.client.lock(RESOURCE)).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn lock_from_the_first_connection_on() {
    lock(Start::Cold).await;
}

#[tokio::test(start_paused = true)]
async fn lock_over_open_connections() {
    lock(Start::Warm).await;
}

#[tokio::test(start_paused = true)]
async fn try_lock() {
    for start in [Start::Cold, Start::Warm] {
        in_every_way(start, async |world, polls| {
            world.trouble().await;
            poll(polls, world.client.try_lock(RESOURCE)).await
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn lock_all() {
    for start in [Start::Cold, Start::Warm] {
        in_every_way(start, async |world, polls| {
            world.trouble().await;
            poll(polls, world.client.lock_all(SET)).await
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn lock_all_with_a_token() {
    in_every_way(Start::Warm, async |world, polls| {
        world.trouble().await;
        poll(polls, world.client.lock_all(SET).fenced()).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn lock_all_behind_a_task_of_the_same_client() {
    in_every_way(Start::Warm, async |world, polls| {
        let guard = world.hold(RESOURCE).await;
        world.trouble().await;
        let ended = poll(polls, world.client.lock_all(SET)).await;
        drop(guard);
        ended
    })
    .await;
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
    in_every_way(Start::Cold, async |world, polls| {
        let guard = world.hold_all(&SET).await;
        world.trouble().await;
        let extended = poll(polls, guard.extend(TTL)).await;
        let released = poll(polls, guard.release()).await;
        extended && released
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn health() {
    for start in [Start::Cold, Start::Warm] {
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
