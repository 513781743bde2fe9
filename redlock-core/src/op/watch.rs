//! Has the nodes report when a lock may have become free.

use std::sync::Arc;

use crate::{
    client::Client,
    quorum::{Bell, ask, cast_all, quorum},
};

/// A bell on every node. Dropping this takes the bell down.
pub(crate) struct Watch {
    client: Arc<Client>,
    key: Arc<str>,
    bell: Arc<Bell>,
}

/// Hangs a bell on every node and asks for the state of the key. The question goes behind all that
/// was sent before, also behind the deletes of a failed attempt. Each question is good for one
/// push.
pub(crate) fn watch(client: &Arc<Client>, key: &Arc<str>) -> Watch {
    let bell = Bell::new(key, client.nodes.len(), &client.clock);
    // Before the question, because a push could come in between.
    for (index, node) in client.nodes.iter().enumerate() {
        node.listen(key, index, Arc::<Bell>::clone(&bell));
    }
    let watch = Watch { client: Arc::clone(client), key: Arc::clone(key), bell };
    let job = watch.bell.job();
    cast_all(ask(&client.nodes, &watch.bell, |_| Some(job.clone())));
    watch
}

impl Watch {
    /// Resolves when it is worth asking for the lock.
    pub(crate) async fn rung(&self) {
        self.bell.rung().await;
    }

    /// Whether a quorum of nodes will report a change.
    pub(crate) fn is_armed(&self) -> bool {
        let told = self.client.nodes.iter().filter(|node| node.tells_changes()).count();
        told.min(self.bell.known()) >= quorum(self.client.nodes.len())
    }

    /// Whether another client has done something since the bell was hung up.
    pub(crate) fn has_news(&self) -> bool {
        self.bell.has_news()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.bell.take_down();
        for node in &self.client.nodes {
            node.stop_listening(&self.key, &self.bell);
        }
    }
}
