//! The answer of one node, for a task that waits for it.

use std::sync::Arc;

use super::Nodes;
use crate::{
    error::{NodeError, NodeErrorKind},
    node::{Job, Reply, ReplySink, ReplyTo, deliver},
    sync::{
        Mutex, Notify,
        atomic::{AtomicBool, Ordering},
    },
};

/// Asks the node with this index, and waits for its answer. Dropping the future gives the question up, unless it was
/// sent.
pub(crate) async fn answer_of(
    nodes: &Nodes,
    index: usize,
    job: Arc<Job>,
) -> Result<Reply, NodeError> {
    let answer = NodeQuestion::ask(nodes, index, job).answer(nodes).await;
    answer.unwrap_or_else(|| Err(no_answer(nodes, index)))
}

/// A question to one node. Dropping it gives it up, unless it was sent.
pub(crate) struct NodeQuestion {
    node: usize,
    answer: Arc<ReplySlot>,
}

impl NodeQuestion {
    pub(crate) fn ask(nodes: &Nodes, node: usize, job: Arc<Job>) -> Self {
        let answer = Arc::new(ReplySlot::new(&nodes.names));
        if let Some(handle) = nodes.get(node) {
            deliver(handle.submit(job, ReplyTo::new(&answer, node), handle.now()));
        } else {
            let reason = format!("there is no node {node}");
            let error = NodeError::new(&"a node".into(), NodeErrorKind::Down, reason);
            *answer.result.lock() = Some(Err(error));
        }
        Self { node, answer }
    }

    /// Whether it is a question to this node, which has not answered it.
    pub(crate) fn awaits(&self, node: usize) -> bool {
        self.node == node && self.answer.result.lock().is_none()
    }

    /// The node that was asked.
    pub(crate) fn node(&self) -> usize {
        self.node
    }

    /// The answer, if it is there.
    pub(crate) fn try_answer(&self) -> Option<Result<Reply, NodeError>> {
        self.answer.result.lock().take()
    }

    /// Waits for the answer. `None` if nothing was heard for a while. Cancel safe.
    ///
    /// The node's task bounds the time. It may stand still with its runtime, so this gives up by itself
    /// (rule 13).
    pub(crate) async fn answer(&self, nodes: &Nodes) -> Option<Result<Reply, NodeError>> {
        nodes.in_time(self.answer.wait()).await
    }
}

/// The error of a question that has no answer, although there was time for one.
pub(crate) fn no_answer(nodes: &Nodes, node: usize) -> NodeError {
    let name = nodes.get(node).map_or_else(|| "a node".into(), |it| Arc::clone(it.name()));
    NodeError::no_answer(&name, nodes.give_up_after())
}

impl Drop for NodeQuestion {
    fn drop(&mut self) {
        self.answer.is_given_up.store(true, Ordering::Release);
    }
}

struct ReplySlot {
    /// Those of all nodes, for errors.
    names: Arc<[Arc<str>]>,
    result: Mutex<Option<Result<Reply, NodeError>>>,
    there: Notify,
    /// The task that waits for it has gone.
    is_given_up: AtomicBool,
}

impl ReplySlot {
    fn new(names: &Arc<[Arc<str>]>) -> Self {
        Self {
            names: Arc::clone(names),
            result: Mutex::default(),
            there: Notify::new(),
            is_given_up: AtomicBool::new(false),
        }
    }

    async fn wait(&self) -> Result<Reply, NodeError> {
        loop {
            if let Some(result) = self.result.lock().take() {
                return result;
            }
            self.there.notified().await;
        }
    }
}

impl ReplySink for ReplySlot {
    fn receive(self: Arc<Self>, _: usize, result: Result<Reply, NodeError>) {
        *self.result.lock() = Some(result);
        self.there.notify_one();
    }

    fn is_wanted(&self) -> bool {
        !self.is_given_up.load(Ordering::Acquire)
    }

    fn names(&self) -> &[Arc<str>] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::{
        Redlock,
        node::{Action, Claim},
        quorum::names,
    };

    #[test]
    fn an_answer_that_never_comes_is_an_error_of_its_node() {
        let answer = Arc::new(ReplySlot::new(&names(2)));
        drop(ReplyTo::new(&answer, 1));
        let error = answer.result.lock().take().unwrap().unwrap_err();
        assert_eq!(&*error.node, "a:1");
    }

    /// Rule 18: callers that have gone leave nothing behind.
    #[tokio::test(start_paused = true)]
    async fn a_question_whose_asker_has_gone_is_not_sent() {
        const MOMENT: Duration = Duration::from_millis(1);
        let redlock = Redlock::in_memory(1);
        drop(redlock.lock("warm").await.unwrap());
        sleep(MOMENT).await;
        let nodes = &redlock.client().nodes;
        nodes[0].fill(true);
        let claim = Arc::new(Claim::new(&"redlock:r".into(), "v".to_owned()));
        let question = || Job::new(&claim, Action::Watch);
        assert!(timeout(MOMENT, answer_of(nodes, 0, question())).await.is_err());
        assert_eq!(nodes[0].fill(true), []);
        let asked = NodeQuestion::ask(nodes, 0, question());
        assert_eq!(nodes[0].fill(false), [Action::Watch]);
        assert!(asked.awaits(0) && !asked.awaits(1));
        assert!(matches!(asked.answer(nodes).await, Some(Ok(_))));
    }
}
