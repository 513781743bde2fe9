//! The end of a runtime, as the connection of a node sees it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use futures_util::future::{BoxFuture, FutureExt};

use super::{Command, Connection, Connector, NodeSpec, Opened, Reply, Sender, Watchers};
use crate::{MemoryNode, NodeError, Redlock};

/// A node whose earlier answers are all there at the look with this number. It counts the looks.
#[derive(Clone)]
struct Slow {
    node: MemoryNode,
    heard_at: usize,
    looks: Arc<AtomicUsize>,
}

/// Its connection, or what sends on it.
struct To<T> {
    inner: T,
    slow: Slow,
}

impl Connector for Slow {
    fn connect(&self, watchers: &Arc<Watchers>) -> BoxFuture<'_, Result<Opened, NodeError>> {
        let watchers = Arc::clone(watchers);
        async move {
            let (inner, identity) = self.node.connect(&watchers).await?;
            let connection: Box<dyn Connection> = Box::new(To { inner, slow: self.clone() });
            Ok((connection, identity))
        }
        .boxed()
    }
}

impl Connection for To<Box<dyn Connection>> {
    fn sender(&self) -> Arc<dyn Sender> {
        Arc::new(To { inner: self.inner.sender(), slow: self.slow.clone() })
    }

    fn tells(&self) -> bool {
        self.inner.tells()
    }

    fn ping(&mut self) -> BoxFuture<'static, Result<(), NodeError>> {
        self.inner.ping()
    }

    fn closed(&mut self) -> BoxFuture<'static, NodeError> {
        self.inner.closed()
    }
}

impl Sender for To<Arc<dyn Sender>> {
    fn send(&self, commands: Vec<Command>) -> BoxFuture<'static, Vec<Result<Reply, NodeError>>> {
        self.inner.send(commands)
    }

    fn has_heard_out(&self) -> bool {
        self.slow.looks.fetch_add(1, SeqCst) + 1 == self.slow.heard_at
    }

    fn wakes_reader(&self) -> bool {
        self.inner.wakes_reader()
    }
}

/// How often a runtime that ends looks for the answers.
fn looks(heard_at: usize) -> usize {
    let slow = Slow { node: MemoryNode::new(), heard_at, looks: Arc::default() };
    let spec = NodeSpec { name: "n".into(), connector: Arc::new(slow.clone()) };
    let redlock = Redlock::builder().over(vec![spec]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { drop(redlock.lock("r").await.unwrap()) });
    assert_eq!(slow.looks.load(SeqCst), 0, "the runtime goes on");
    drop(runtime);
    slow.looks.load(SeqCst)
}

/// Rule 12: a connection that closes before that may undo the last deletes.
#[test]
fn a_runtime_ends_once_its_nodes_have_answered() {
    assert_eq!(looks(1), 1);
    assert_eq!(looks(3), 3);
}

#[test]
fn a_runtime_ends_without_the_answers_of_a_node_that_hangs() {
    assert!(looks(usize::MAX) > 1);
}
