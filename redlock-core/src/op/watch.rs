//! Having the nodes tell when a lock may have become free.

use std::sync::Arc;

use crate::{
    client::Client,
    node::{Action, Claim, Job},
    quorum::{Bell, ask, cast_all},
};

/// A bell on every node. Dropped, it is taken down.
pub(crate) struct Watch<'a> {
    client: &'a Client,
    key: &'a Arc<str>,
    bell: Arc<Bell>,
}

/// Hangs up a bell and asks every node for the state of the key, behind all that was sent before:
/// the deletes after an attempt that failed, too. Each asking is good for one push.
pub(crate) fn watch<'a>(client: &'a Client, key: &'a Arc<str>) -> Watch<'a> {
    let bell = Bell::new(client.nodes.len(), &client.clock);
    // Before asking, or a push could come in between.
    for (index, node) in client.nodes.iter().enumerate() {
        node.watchers().add(key, index, &bell);
    }
    let watch = Watch { client, key, bell };
    let claim = Arc::new(Claim { key: Arc::clone(key), value: String::new() });
    let job = Job::new(&claim, Action::Watch);
    cast_all(ask(&client.nodes, &watch.bell, |_| Some(job.clone())));
    watch
}

impl Watch<'_> {
    /// Resolves when it is worth asking for the lock.
    pub(crate) async fn rung(&self) {
        self.bell.rung().await;
    }

    /// Whether somebody has done something since the bell was hung up.
    pub(crate) fn has_news(&self) -> bool {
        self.bell.has_news()
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.bell.take_down();
        for node in &self.client.nodes {
            node.watchers().remove(self.key, &self.bell);
        }
    }
}
