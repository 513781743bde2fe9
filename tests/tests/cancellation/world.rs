//! Three nodes that misbehave in every combination, and what has to be true of them in the end.

use std::time::Duration;

use redlock_core::{Builder, LockGuard, LockRequest, MemoryNode, Redlock, Released, Restarts};
use redlock_tests::{poll_times, within};

pub(crate) const RESOURCE: &str = "job";
const KEY: &str = "redlock:job";

/// Far longer than any run, so that no key just runs out.
pub(crate) const TTL: Duration = Duration::from_secs(24 * 60 * 60);
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_millis(50);

/// How a node treats a client that asks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
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
pub(crate) enum Start {
    Cold,
    Warm,
}

pub(crate) const EITHER: [Start; 2] = [Start::Cold, Start::Warm];

/// How a client asks for a lock.
pub(crate) type Ask = fn(&Redlock) -> LockRequest;

pub(crate) fn client<'a>(nodes: impl IntoIterator<Item = &'a MemoryNode>) -> Builder {
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
}

/// Three nodes, and what goes on with them.
pub(crate) struct World {
    pub(crate) nodes: [MemoryNode; 3],
    pub(crate) moods: [Mood; 3],
    pub(crate) client: Redlock,
    /// The keys of another client, each on one node alone.
    foreign: Vec<(Redlock, LockGuard)>,
    /// How those clients hold the lock.
    pub(crate) asks: Ask,
}

impl World {
    async fn new(moods: [Mood; 3], start: Start) -> Self {
        let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
        let client = client(&nodes).build().unwrap();
        let asks: Ask = |it| it.lock(RESOURCE);
        let world = Self { nodes, moods, client, foreign: Vec::new(), asks };
        if start == Start::Warm {
            drop(world.hold("warm-up").await);
            world.cleaned_up().await;
        }
        world
    }

    /// Takes a lock on all three nodes, before the trouble begins.
    pub(crate) async fn hold(&self, resource: &str) -> LockGuard {
        Self::hold_as(self.client.lock(resource)).await
    }

    /// Gets what is asked for from all three nodes.
    pub(crate) async fn hold_as(request: LockRequest) -> LockGuard {
        let guard = request.await.unwrap();
        within("all votes", async {
            while guard.votes() < 3 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        guard
    }

    pub(crate) async fn trouble(&mut self) {
        for (node, mood) in self.nodes.iter().zip(self.moods) {
            match mood {
                Mood::Answers => {}
                Mood::Refuses => {
                    for key in node.keys().iter().filter(|it| it.starts_with(KEY)) {
                        node.remove(key);
                    }
                    let other = client([node]).build().unwrap();
                    let guard = (self.asks)(&other).await.unwrap();
                    self.foreign.push((other, guard));
                }
                Mood::Fails => node.stop(),
                Mood::Hangs => node.hang(),
                Mood::Late => node.slow(3 * NODE_TIMEOUT),
            }
        }
    }

    pub(crate) fn relief(&mut self) {
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

    /// Whether the client has to delete something yet.
    pub(crate) async fn owes(&self) -> bool {
        self.client.health().await.iter().any(|node| node.pending_cleanups > 0)
    }

    /// Returns once no node has a key and no client owes a node a delete.
    pub(crate) async fn cleaned_up(&self) {
        within("clean-up", async {
            loop {
                if !self.owes().await && self.nodes.iter().all(|node| node.keys().is_empty()) {
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
        let next = client(&self.nodes).build().unwrap();
        let guard = next.lock(RESOURCE).wait(Duration::from_secs(10)).await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Ours);
    }
}

/// Up to this many polls each is tried. Past that a future only looks again whether it is done,
/// every few milliseconds, and the steps double.
const EVERY: usize = 12;

/// Every combination of moods, and for each every number of polls, until the future ends.
pub(crate) async fn in_every_way(
    start: Start,
    mut act: impl AsyncFnMut(&mut World, usize) -> bool,
) {
    for first in MOODS {
        for second in MOODS {
            for third in MOODS {
                let moods = [first, second, third];
                let mut polls = 0;
                loop {
                    let mut world = World::new(moods, start).await;
                    // The output of a test is shown when it fails.
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
pub(crate) async fn poll<F: IntoFuture>(times: usize, future: F) -> bool {
    within("the future", poll_times(times, future.into_future())).await.is_some()
}
