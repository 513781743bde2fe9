//! What a task does with its whole client.

use std::{
    future::IntoFuture,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use futures_util::future::join_all;
use tokio::task::JoinSet;

use super::{
    super::{plan::Cancel, report::Oddity, world::ms},
    Worker,
    cancel::cancellable,
};

/// The first key of each client that only its bursts take.
const BURST: usize = 1000;

impl Worker {
    pub(super) async fn release_all(&self) {
        self.say(42, 0, || "releases all".to_owned());
        // The caller of `release_all` has stopped the code under bare guards.
        self.world.ledger.end_guards(self.client.number);
        self.client.cleared.fetch_add(1, Relaxed);
        let all = self.client.redlocks();
        let all = all.iter().map(redlock_core::Redlock::release_all);
        self.bounded("release_all", 2000, join_all(all)).await;
    }

    pub(super) async fn shutdown(&self, grace: u64) {
        self.say(43, grace, || format!("shuts down within {grace} ms"));
        self.client.closed.store(true, Relaxed);
        self.client.cleared.fetch_add(1, Relaxed);
        let all = self.client.redlocks();
        let all = all.iter().map(|redlock| redlock.shutdown(ms(grace)));
        self.bounded("shutdown", grace + 2000, join_all(all)).await;
        let bodies = self.world.ledger.bodies(self.client.number);
        if bodies > 0 {
            self.violation(format!("{bodies} bodies run on after shutdown (rule 13)"));
        }
    }

    /// Asks for `count` locks that no other client wants at once, and gives each request up after a
    /// moment.
    pub(super) async fn burst(&self, count: usize, cancel: Option<Cancel>) {
        self.say(45, count as u64, || format!("asks for {count} locks at once: {cancel:?}"));
        let first = BURST * (1 + self.client.number);
        let redlock = &self.client.redlock();
        let mut calls = JoinSet::new();
        for number in 0..count {
            let request = redlock.lock(format!("k{}", first + number)).wait(ms(0));
            calls.spawn(self.client.life.process.inside(async move {
                // A guard is dropped at once.
                drop(cancellable(request.into_future(), cancel).await);
            }));
        }
        while calls.join_next().await.is_some() {}
    }

    /// Asks for `count` locks at once, `times` times, while its runtime is blocked until after the answers
    /// have come.
    pub(super) async fn block(&self, count: usize, times: usize) {
        for _ in 0..times {
            self.world.log.odd(Oddity::Blocked);
            let timeout = self.world.plan.settings.node_timeout;
            let client = Arc::clone(&self.client);
            // Once the commands have left.
            self.world.later(1, move |world| {
                world.stop(&client);
                world.later(timeout + timeout / 2, move |world| world.resume(&client));
            });
            self.burst(count, None).await;
        }
    }

    pub(super) fn replace(&self, pool: usize) {
        self.say(47, pool as u64, || format!("replaces pool {pool}"));
        self.world.replace(&self.client, pool);
    }

    pub(super) async fn health(&self) {
        let settings = self.world.plan.settings;
        let limit = settings.connect_timeout + 2 * settings.node_timeout;
        let healths = self.bounded("health", limit, self.client.redlock().health()).await;
        self.say(44, 0, || format!("{healths:?}"));
    }
}
