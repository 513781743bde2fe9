//! Has the nodes report when a lock may have become free.

use std::sync::Arc;

use crate::{
    node::{NodeHandle, deliver},
    quorum::{FreeSignal, Nodes, ask},
};

/// A listener on every node. Dropping this removes the listeners.
pub(crate) struct Watch {
    nodes: Arc<Nodes>,
    key: Arc<str>,
    signal: Arc<FreeSignal>,
}

/// Registers a listener on every node and asks for the state of the key. The question goes behind
/// all earlier commands, also behind the deletes of a failed attempt. Each question is good for one
/// push.
pub(crate) fn watch(nodes: &Arc<Nodes>, key: &Arc<str>) -> Watch {
    let signal = FreeSignal::new(key, nodes.len(), &nodes.clock);
    // The listener is registered before the question, because a push could come in between.
    for (index, node) in nodes.iter().enumerate() {
        node.listen(key, index, Arc::<FreeSignal>::clone(&signal));
    }
    let watch = Watch { nodes: Arc::clone(nodes), key: Arc::clone(key), signal };
    let job = watch.signal.job();
    deliver(ask(nodes, &watch.signal, nodes.clock.now(), |_| Some(Arc::clone(&job))));
    watch
}

impl Watch {
    /// Whether it watches this key.
    pub(crate) fn is_for(&self, key: &str) -> bool {
        *self.key == *key
    }

    /// Resolves when it is worth asking for the lock.
    pub(crate) async fn notified(&self) {
        self.signal.notified().await;
    }

    /// Resolves when a node has pushed a change and it is worth asking for the lock.
    pub(crate) async fn told(&self) {
        self.signal.told().await;
    }

    /// Resolves when the lock is free on this node.
    pub(crate) async fn freed_on(&self, node: usize) {
        self.signal.freed_on(node).await;
    }

    /// Whether the lock is free on a quorum of nodes, and not only about to expire.
    pub(crate) fn is_free(&self) -> bool {
        self.signal.is_free()
    }

    /// Whether a quorum of nodes will report a change.
    pub(crate) fn is_armed(&self) -> bool {
        let reports =
            |(index, node): &(usize, &NodeHandle)| node.has_pushes() && self.signal.knows(*index);
        self.nodes.iter().enumerate().filter(reports).count() >= self.nodes.quorum()
    }

    /// Whether another client has done something since the listeners were registered.
    pub(crate) fn has_news(&self) -> bool {
        self.signal.has_news()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.signal.stop();
        for node in self.nodes.iter() {
            node.stop_listening(&self.key, &self.signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        Redlock,
        node::{
            Action, NodeSpec,
            intercepted::{intercepted, without_pushes},
        },
    };

    /// A node that pushes the change of a key while the client that watches it still asks.
    fn eager(name: &str) -> NodeSpec {
        intercepted(name, |sender, watchers, commands| {
            for command in commands.iter().filter(|it| it.action == Action::Watch) {
                watchers.changed(&command.claim.key);
            }
            sender.send(commands)
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_right_behind_the_question_is_heard() {
        let redlock = Redlock::builder().over(vec![eager("a"), eager("b"), eager("c")]);
        drop(redlock.lock("warm").await.unwrap());
        tokio::time::sleep(Duration::from_millis(10)).await;
        let watch = watch(&redlock.client().nodes, &"k".into());
        assert!(watch.has_news() && watch.signal.is_free(), "all three pushed at once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_is_armed_by_nodes_that_have_answered_and_push() {
        for (pushing, armed) in [(3, true), (2, true), (1, false), (0, false)] {
            let nodes = crate::testing::nodes(3);
            let specs = nodes.iter().enumerate().map(|(number, node)| {
                if number < pushing { node.spec() } else { without_pushes(node.name(), node) }
            });
            let redlock = Redlock::builder().over(specs.collect());
            drop(redlock.lock("warm").await.unwrap());
            let watch = watch(&redlock.client().nodes, &"k".into());
            assert!(!watch.is_armed(), "no node has answered");
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert!((0..3).all(|node| watch.signal.knows(node)));
            assert_eq!(watch.is_armed(), armed, "{pushing}");
        }
    }

    /// A node that sits out is asked again when it votes, which may be in an hour (rule 18).
    #[tokio::test(start_paused = true)]
    async fn watches_that_nothing_waits_for_do_not_pile_up_at_a_node_that_sits_out() {
        let nodes = crate::testing::nodes(3);
        let redlock = Redlock::builder().nodes(&nodes).build().unwrap();
        drop(redlock.lock("warm").await.unwrap());
        nodes[0].restart_empty();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let waits = watch(&redlock.client().nodes, &"k".into());
        let mut gone = Vec::new();
        for _ in 0..2000 {
            let watch = watch(&redlock.client().nodes, &"k".into());
            tokio::time::sleep(Duration::from_millis(1)).await;
            gone.push(Arc::downgrade(&watch.signal));
        }
        let kept = gone.iter().filter(|it| it.upgrade().is_some()).count();
        assert!(kept <= 128, "{kept}");
        let known = || (0..3).filter(|node| waits.signal.knows(*node)).count();
        assert_eq!(known(), 2);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(known(), 3, "the others were kept");
        assert_eq!(gone.iter().filter(|it| it.upgrade().is_some()).count(), 0);
    }
}
