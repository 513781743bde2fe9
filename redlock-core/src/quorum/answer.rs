//! The answer of one node, for a task that waits for it.

use std::sync::Arc;

use tokio::sync::Notify;

use super::Nodes;
use crate::{
    error::{NodeError, NodeErrorKind},
    node::{Job, Reply, ReplySink, ReplyTo, deliver},
    sync::Mutex,
};

/// Asks the node with this index, and waits for its answer. Dropping the future gives up the answer, not the
/// question.
///
/// The node's task bounds the time. It may stand still with its runtime, so this gives up by itself
/// after a while (rule 13).
pub(crate) async fn answer_of(
    nodes: &Nodes,
    index: usize,
    job: Arc<Job>,
) -> Result<Reply, NodeError> {
    let Some(node) = nodes.get(index) else {
        let reason = format!("there is no node {index}");
        return Err(NodeError::new(&"a node".into(), NodeErrorKind::Down, reason));
    };
    let answer = Arc::<Answer>::default();
    deliver(node.submit(job, ReplyTo::new(&answer, index), node.now()));
    match nodes.in_time(answer.wait()).await {
        Some(answered) => answered,
        None => Err(NodeError::new(node.name(), NodeErrorKind::Timeout, "nothing was heard of it")),
    }
}

/// The task that waits for it may have gone.
#[derive(Default)]
struct Answer {
    result: Mutex<Option<Result<Reply, NodeError>>>,
    there: Notify,
}

impl Answer {
    async fn wait(&self) -> Result<Reply, NodeError> {
        loop {
            if let Some(result) = self.result.lock().take() {
                return result;
            }
            self.there.notified().await;
        }
    }
}

impl ReplySink for Answer {
    fn receive(self: Arc<Self>, _: usize, result: Result<Reply, NodeError>) {
        *self.result.lock() = Some(result);
        self.there.notify_one();
    }
}
