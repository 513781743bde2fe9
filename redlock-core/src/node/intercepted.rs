//! A node in memory whose commands a test sees before the node does.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt, ready};
use tokio::time::sleep;

use super::{
    Action, Command, Connection, Connector, Identity, NodeSpec, Opened, Reply, Sender, Watchers,
};
use crate::{
    MemoryNode,
    error::{Cause, NodeError, NodeErrorKind},
};

type Answers = BoxFuture<'static, Vec<Result<Reply, NodeError>>>;
type OnSend = dyn Fn(&Arc<dyn Sender>, &Watchers, Vec<Command>) -> Answers + Send + Sync;

/// A new node with this name. Each batch of commands goes to `on_send`, with the sender that it is for and
/// the listeners to changes of keys.
pub(crate) fn intercepted(
    name: &str,
    on_send: impl Fn(&Arc<dyn Sender>, &Watchers, Vec<Command>) -> Answers + Send + Sync + 'static,
) -> NodeSpec {
    spec(name, &MemoryNode::new(), true, on_send)
}

/// This node as a client sees it whose connections have no pushes, as those to a server before Redis 6.
pub(crate) fn without_pushes(name: &str, node: &MemoryNode) -> NodeSpec {
    silent(name, node, |_| ())
}

/// This node without pushes, where a test sees the commands of that client before the node does.
pub(crate) fn silent(
    name: &str,
    node: &MemoryNode,
    sees: impl Fn(&[Command]) + Send + Sync + 'static,
) -> NodeSpec {
    overheard(name, node, false, sees)
}

/// This node, where a test sees the commands of that client before the node does.
pub(crate) fn overheard(
    name: &str,
    node: &MemoryNode,
    has_pushes: bool,
    sees: impl Fn(&[Command]) + Send + Sync + 'static,
) -> NodeSpec {
    spec(name, node, has_pushes, move |sender, _, commands| {
        sees(&commands);
        sender.send(commands)
    })
}

/// This node, which gives this answer to all commands of a batch in which a test `refuses` one, while the flag is set.
pub(crate) fn answering(
    name: &str,
    node: &MemoryNode,
    refuses: &Arc<AtomicBool>,
    refused: impl Fn(Action) -> bool + Send + Sync + 'static,
    answer: Result<Reply, NodeError>,
) -> NodeSpec {
    let refuses = Arc::clone(refuses);
    spec(name, node, true, move |sender, _, commands| {
        if refuses.load(SeqCst) && commands.iter().any(|it| refused(it.action)) {
            return ready(vec![answer.clone(); commands.len()]).boxed();
        }
        sender.send(commands)
    })
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
    spec(name, node, true, on_send)
}

/// This node, to which each connection takes so long.
pub(crate) fn slow_to_connect(name: &str, node: &MemoryNode, delay: Duration) -> NodeSpec {
    let connector = SlowToConnect { node: node.spec(), delay };
    NodeSpec { name: name.into(), connector: Arc::new(connector) }
}

struct SlowToConnect {
    node: NodeSpec,
    delay: Duration,
}

impl Connector for SlowToConnect {
    fn connect(&self, watchers: &Arc<Watchers>) -> BoxFuture<'_, Result<Opened, NodeError>> {
        let watchers = Arc::clone(watchers);
        async move {
            sleep(self.delay).await;
            self.node.connector.connect(&watchers).await
        }
        .boxed()
    }
}

/// This node, which tells no run id, like a server whose rules forbid this client to ask for it.
pub(crate) fn without_run_id(node: NodeSpec) -> NodeSpec {
    let NodeSpec { name, connector } = node;
    NodeSpec { name, connector: Arc::new(WithoutRunId(connector)) }
}

struct WithoutRunId(Arc<dyn Connector>);

impl Connector for WithoutRunId {
    fn connect(&self, watchers: &Arc<Watchers>) -> BoxFuture<'_, Result<Opened, NodeError>> {
        let opened = self.0.connect(watchers);
        let without = |(connection, identity)| (connection, Identity { run_id: None, ..identity });
        opened.map(move |opened| opened.map(without)).boxed()
    }
}

/// This node as its clients see it, which has no memory left while it `is_full`. It refuses what takes memory, and
/// deletes and reads as ever. `counted` counts the commands.
pub(crate) fn without_memory(
    name: &str,
    node: &MemoryNode,
    is_full: &Arc<AtomicBool>,
    counted: &Arc<AtomicUsize>,
) -> NodeSpec {
    let (is_full, counted, told): (_, _, Arc<str>) =
        (Arc::clone(is_full), Arc::clone(counted), name.into());
    spec(name, node, true, move |sender, _, commands| {
        counted.fetch_add(commands.len(), SeqCst);
        let full = is_full.load(SeqCst);
        let refused: Vec<_> = commands.iter().map(|it| full && takes_memory(it.action)).collect();
        let mut each = refused.iter();
        let rest = commands.into_iter().filter(|_| each.next() != Some(&true)).collect();
        let (answers, told) = (sender.send(rest), Arc::clone(&told));
        async move {
            let mut answers = answers.await.into_iter();
            let answer = |is_refused| {
                let error = NodeError::new(&told, NodeErrorKind::Server, "OOM");
                let refusal = Err(NodeError { cause: Cause::Passing, ..error });
                if is_refused { Some(refusal) } else { answers.next() }
            };
            refused.into_iter().filter_map(answer).collect()
        }
        .boxed()
    })
}

fn takes_memory(action: Action) -> bool {
    match action {
        Action::Grant { .. }
        | Action::GrantFenced { .. }
        | Action::Adopt { .. }
        | Action::Heal { .. }
        | Action::Redraw { .. }
        | Action::Confirm(_)
        | Action::Join { .. } => true,
        Action::Extend { .. }
        | Action::Release { .. }
        | Action::Shorten { .. }
        | Action::Watch
        | Action::Leave { .. }
        | Action::FindPermits { .. }
        // Where a lock has no readers, nothing is set.
        | Action::RaiseBarrier { .. }
        | Action::LowerBarrier
        | Action::Inspect { .. }
        | Action::TakeAway
        | Action::Clear { .. } => false,
    }
}

/// This node. Each batch of commands goes to `on_send`, as for [`intercepted`].
pub(crate) fn spec(
    name: &str,
    node: &MemoryNode,
    has_pushes: bool,
    on_send: impl Fn(&Arc<dyn Sender>, &Watchers, Vec<Command>) -> Answers + Send + Sync + 'static,
) -> NodeSpec {
    let connector = Intercepted { node: node.clone(), on_send: Arc::new(on_send), has_pushes };
    NodeSpec { name: name.into(), connector: Arc::new(connector) }
}

struct Intercepted {
    node: MemoryNode,
    on_send: Arc<OnSend>,
    has_pushes: bool,
}

/// A connection, or what sends on it.
struct Tapped<T> {
    inner: T,
    watchers: Arc<Watchers>,
    on_send: Arc<OnSend>,
    has_pushes: bool,
}

impl Connector for Intercepted {
    fn connect(&self, watchers: &Arc<Watchers>) -> BoxFuture<'_, Result<Opened, NodeError>> {
        let watchers = if self.has_pushes { Arc::clone(watchers) } else { Arc::default() };
        let (on_send, has_pushes) = (Arc::clone(&self.on_send), self.has_pushes);
        async move {
            let (inner, identity) = self.node.connect(&watchers).await?;
            let connection: Box<dyn Connection> =
                Box::new(Tapped { inner, watchers, on_send, has_pushes });
            Ok((connection, identity))
        }
        .boxed()
    }
}

impl Connection for Tapped<Box<dyn Connection>> {
    fn sender(&self) -> Arc<dyn Sender> {
        let (watchers, on_send) = (Arc::clone(&self.watchers), Arc::clone(&self.on_send));
        let inner = self.inner.sender();
        Arc::new(Tapped { inner, watchers, on_send, has_pushes: self.has_pushes })
    }

    fn has_pushes(&self) -> bool {
        self.has_pushes && self.inner.has_pushes()
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
