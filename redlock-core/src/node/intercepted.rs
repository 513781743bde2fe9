//! A node in memory whose commands a test sees before the node does.

use std::{sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, FutureExt};
use tokio::time::sleep;

use super::{Command, Connection, Connector, NodeSpec, Opened, Reply, Sender, Watchers};
use crate::{MemoryNode, NodeError};

type Answers = BoxFuture<'static, Vec<Result<Reply, NodeError>>>;
type OnSend = dyn Fn(&Arc<dyn Sender>, &Watchers, Vec<Command>) -> Answers + Send + Sync;

/// A new node with this name. Each batch of commands goes to `on_send`, with the sender that it is for and
/// the listeners to changes of keys.
pub(crate) fn intercepted(
    name: &str,
    on_send: impl Fn(&Arc<dyn Sender>, &Watchers, Vec<Command>) -> Answers + Send + Sync + 'static,
) -> NodeSpec {
    let connector = Intercepted { node: MemoryNode::new(), on_send: Arc::new(on_send) };
    NodeSpec { name: name.into(), connector: Arc::new(connector) }
}

/// This node as a client sees it that is so far away, one way. What the node pushes comes at once.
pub(crate) fn far_away(name: &str, node: &MemoryNode, delay: Duration) -> NodeSpec {
    let on_send =
        move |sender: &Arc<dyn Sender>, _: &Watchers, commands: Vec<Command>| -> Answers {
            let sender = Arc::clone(sender);
            // A task: commands leave while earlier ones are on their way.
            let answered = tokio::spawn(async move {
                sleep(delay).await;
                let answers = sender.send(commands).await;
                sleep(delay).await;
                answers
            });
            async move { answered.await.unwrap_or_default() }.boxed()
        };
    let connector = Intercepted { node: node.clone(), on_send: Arc::new(on_send) };
    NodeSpec { name: name.into(), connector: Arc::new(connector) }
}

struct Intercepted {
    node: MemoryNode,
    on_send: Arc<OnSend>,
}

/// A connection, or what sends on it.
struct Tapped<T> {
    inner: T,
    watchers: Arc<Watchers>,
    on_send: Arc<OnSend>,
}

impl Connector for Intercepted {
    fn connect(&self, watchers: &Arc<Watchers>) -> BoxFuture<'_, Result<Opened, NodeError>> {
        let (watchers, on_send) = (Arc::clone(watchers), Arc::clone(&self.on_send));
        async move {
            let (inner, identity) = self.node.connect(&watchers).await?;
            let connection: Box<dyn Connection> = Box::new(Tapped { inner, watchers, on_send });
            Ok((connection, identity))
        }
        .boxed()
    }
}

impl Connection for Tapped<Box<dyn Connection>> {
    fn sender(&self) -> Arc<dyn Sender> {
        let (watchers, on_send) = (Arc::clone(&self.watchers), Arc::clone(&self.on_send));
        Arc::new(Tapped { inner: self.inner.sender(), watchers, on_send })
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

impl Sender for Tapped<Arc<dyn Sender>> {
    fn send(&self, commands: Vec<Command>) -> Answers {
        (self.on_send)(&self.inner, &self.watchers, commands)
    }

    fn wakes_reader(&self) -> bool {
        self.inner.wakes_reader()
    }
}
