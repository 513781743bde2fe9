//! The receiver of a node's reply.

use std::{fmt, sync::Arc};

use super::Reply;
use crate::error::{Cause, NodeError, NodeErrorKind};

/// Receives the answers of the nodes. A round of votes decides by them, and a waiter learns the
/// state of a key from them.
pub(crate) trait ReplySink: Send + Sync + 'static {
    fn receive(self: Arc<Self>, node: usize, result: Result<Reply, NodeError>);

    /// What the nodes are called in errors. Empty where errors are not shown.
    fn names(&self) -> &[Arc<str>] {
        &[]
    }

    /// What this node is called in errors. The sink knows the names: if each answer carried one, all tasks
    /// would write to its reference count.
    fn name_of(&self, node: usize) -> Arc<str> {
        self.names().get(node).map_or_else(|| "a node".into(), Arc::clone)
    }

    /// Whether a question that has not been sent yet is still worth sending. An unwanted question may be dropped under
    /// the lock of an outbox, so this must take no lock of the client.
    fn is_wanted(&self) -> bool {
        true
    }

    /// Whether a caller waits for this very answer. A question that is asked for what it brings about gives way to a
    /// newer one like it, unless it was sent.
    fn is_awaited(&self) -> bool {
        false
    }
}

/// The receiver of the reply of one node. When it is dropped without a reply, it reports a broken
/// connection.
#[must_use = "a reply that is not delivered counts as a failure"]
pub(crate) struct ReplyTo {
    sink: Option<Arc<dyn ReplySink>>,
    node: usize,
}

impl ReplyTo {
    pub(crate) fn new<C: ReplySink>(sink: &Arc<C>, node: usize) -> Self {
        let sink: Arc<dyn ReplySink> = Arc::<C>::clone(sink);
        Self { sink: Some(sink), node }
    }

    /// The place of the node among those of the asker.
    pub(super) fn node(&self) -> usize {
        self.node
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.sink.as_ref().is_none_or(|sink| sink.is_wanted())
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.sink.as_ref().is_some_and(|sink| sink.is_awaited())
    }

    /// The answer to a command that no task will read, to be delivered with no lock held.
    pub(super) fn unheard(self) -> EarlyReply {
        let name = self.sink.as_ref().map_or_else(|| "a node".into(), |it| it.name_of(self.node));
        (self, Err(unheard(&name)))
    }

    pub(crate) fn deliver(mut self, result: Result<Reply, NodeError>) {
        if let Some(sink) = self.sink.take() {
            sink.receive(self.node, result);
        }
    }
}

impl Drop for ReplyTo {
    fn drop(&mut self) {
        if let Some(sink) = self.sink.take() {
            let error = unheard(&sink.name_of(self.node));
            sink.receive(self.node, Err(error));
        }
    }
}

/// The error of a command whose answer no task reads.
fn unheard(name: &Arc<str>) -> NodeError {
    let reason = "the runtime that spoke to it ended, or stands still";
    let error = NodeError::new(name, NodeErrorKind::Disconnected, reason);
    NodeError { cause: Cause::Unheard, ..error }
}

impl fmt::Debug for ReplyTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyTo").field("node", &self.node).finish_non_exhaustive()
    }
}

/// A reply that is known at once. It is delivered later, because the asker may hold a lock
/// that what follows the round takes too.
pub(crate) type EarlyReply = (ReplyTo, Result<Reply, NodeError>);

/// Delivers the replies that were known at once, with no lock held.
pub(crate) fn deliver(early: Vec<EarlyReply>) {
    for (reply_to, result) in early {
        reply_to.deliver(result);
    }
}
