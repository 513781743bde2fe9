//! What was sent to one node and has no answer yet, in the order in which it was sent.
//!
//! A node answers in that order, so that only the first batch is looked at, and a time limit that
//! is the same for all runs out for the first one first (rule 15).

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::time::Instant;

use super::{Reply, handle::Shared, mailbox::Item};
use crate::error::{NodeError, NodeErrorKind};

/// A batch and what came of each of its items.
pub(super) struct Answered {
    pub(super) items: Vec<Item>,
    pub(super) results: Vec<Result<Reply, NodeError>>,
}

pub(super) struct UnderWay {
    shared: Arc<Shared>,
    batches: VecDeque<Batch>,
}

struct Batch {
    items: Vec<Item>,
    answers: Answers,
    deadline: Instant,
}

enum Answers {
    Awaited(BoxFuture<'static, Vec<Result<Reply, NodeError>>>),
    /// They came while earlier ones were awaited.
    There(Vec<Result<Reply, NodeError>>),
}

impl UnderWay {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), batches: VecDeque::new() }
    }

    /// Adds a batch, and sends it: its first poll happens here, so that batches leave in order.
    pub(super) fn push(
        &mut self,
        items: Vec<Item>,
        mut answers: BoxFuture<'static, Vec<Result<Reply, NodeError>>>,
    ) {
        let deadline = Instant::now() + self.shared.context.node_timeout;
        let answers = match (&mut answers).now_or_never() {
            Some(there) => Answers::There(there),
            None => Answers::Awaited(answers),
        };
        self.batches.push_back(Batch { items, answers, deadline });
    }

    /// By when the first batch must be answered.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.batches.front().map(|batch| batch.deadline)
    }

    /// Waits for the answers of the first batch. Cancel safe; pending when there is none.
    pub(super) async fn next(&mut self) -> Option<Answered> {
        let results = poll_fn(|cx| self.poll_first(cx)).await;
        self.batches.pop_front().map(|batch| batch.answered(results))
    }

    fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<Vec<Result<Reply, NodeError>>> {
        match self.batches.front_mut().map(|batch| &mut batch.answers) {
            Some(Answers::Awaited(answers)) => answers.as_mut().poll(cx),
            Some(Answers::There(answers)) => Poll::Ready(std::mem::take(answers)),
            None => Poll::Pending,
        }
    }

    /// Gives up on the first batch, if its time has run out.
    pub(super) fn expire(&mut self) -> Option<Answered> {
        self.deadline().filter(|deadline| *deadline <= Instant::now())?;
        let batch = self.batches.pop_front()?;
        let limit = self.shared.context.node_timeout;
        let reason = format!("no answer within {limit:?}");
        let error = NodeError::new(&self.shared.name, NodeErrorKind::Timeout, reason);
        let results = vec![Err(error); batch.items.len()];
        Some(batch.answered(results))
    }
}

impl Batch {
    fn answered(self, results: Vec<Result<Reply, NodeError>>) -> Answered {
        Answered { items: self.items, results }
    }
}

/// Jobs that are dropped without an answer, which is what a runtime does at its end, leave what
/// they had to clean up to the next one (rules 5 and 13).
impl Drop for UnderWay {
    fn drop(&mut self) {
        let now = self.shared.context.clock.now();
        for batch in std::mem::take(&mut self.batches) {
            let mut mailbox = self.shared.mailbox.lock();
            mailbox.answered(batch.items.len());
            for item in &batch.items {
                mailbox.debts.owe(item.job.clone(), now);
            }
        }
    }
}
