//! The nodes of one client, with its clock and its timeouts.

use std::{fmt, ops::Deref, pin::pin, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};

use super::quorum;
use crate::{
    clock::{Clock, Moment},
    node::NodeHandle,
    sync::atomic::{AtomicBool, Ordering},
    timer::timeout,
};

/// All nodes of a client, with its clock and its timeouts. Derefs to the nodes.
pub(crate) struct Nodes {
    all: Box<[NodeHandle]>,
    /// What errors call them.
    pub(crate) names: Arc<[Arc<str>]>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) node_timeout: Duration,
    connect_timeout: Duration,
    /// A quorum has been waited for since the tasks were last started.
    ready: AtomicBool,
    /// A quorum has answered at least once.
    quorum_seen: AtomicBool,
}

impl Deref for Nodes {
    type Target = [NodeHandle];

    fn deref(&self) -> &[NodeHandle] {
        &self.all
    }
}

impl Nodes {
    pub(crate) fn new(
        all: Vec<NodeHandle>,
        clock: Arc<dyn Clock>,
        node_timeout: Duration,
        connect_timeout: Duration,
    ) -> Self {
        Self {
            names: all.iter().map(|node| Arc::clone(node.name())).collect(),
            all: all.into_boxed_slice(),
            clock,
            node_timeout,
            connect_timeout,
            ready: AtomicBool::new(false),
            quorum_seen: AtomicBool::new(false),
        }
    }

    /// How many nodes are a quorum.
    pub(crate) fn quorum(&self) -> usize {
        quorum(self.len())
    }

    /// How long to wait for an answer that `node_timeout` should have bounded.
    pub(crate) fn give_up_after(&self) -> Duration {
        self.node_timeout.saturating_mul(4)
    }

    /// Waits for answers of the nodes. `None` when they do not come, which happens only when no task sends
    /// the commands, or when more wait than the node answers in that time. Once a command is sent,
    /// `node_timeout` bounds its answer.
    pub(crate) async fn in_time<F: Future>(&self, answers: F) -> Option<F::Output> {
        let mut answers = pin!(answers);
        let limit = self.give_up_after();
        if let Ok(answered) = timeout(limit, answers.as_mut()).await {
            return Some(answered);
        }
        // If this process stood still until the limit was over, the answers have arrived and were
        // not read yet. A second, shorter limit leaves time to read them.
        timeout(limit / 4, answers).await.ok()
    }

    /// How long a quorum takes to answer; zero before its first answer.
    pub(crate) fn round_trip(&self) -> Duration {
        let mut all: Vec<_> = self.iter().map(NodeHandle::round_trip).collect();
        all.sort_unstable();
        all.get(self.quorum().saturating_sub(1)).copied().unwrap_or_default()
    }

    /// How long this node takes to answer; zero before its first answer.
    pub(crate) fn round_trip_to(&self, index: usize) -> Duration {
        self.get(index).map_or(Duration::ZERO, NodeHandle::round_trip)
    }

    /// Starts the nodes' tasks, or starts them again when their runtime has ended (rule 13).
    pub(crate) fn ensure_running(&self) {
        if !self.iter().all(NodeHandle::is_running) {
            self.ready.store(false, Ordering::Release);
            self.iter().for_each(NodeHandle::ensure_running);
        }
    }

    /// Takes over here the tasks that stand still on another runtime. Returns whether there were any.
    pub(crate) fn ensure_moving(&self, now: Moment) -> bool {
        let taken = self.iter().filter(|node| node.take_over(now)).count();
        if taken > 0 {
            self.ready.store(false, Ordering::Release);
        }
        taken > 0
    }

    /// When tasks on another runtime, which have let the time of an answer pass, may be taken over.
    pub(crate) fn late_at(&self, now: Moment) -> Option<Moment> {
        self.iter().filter_map(|node| node.late_at(now)).max()
    }

    /// Whether a quorum has been waited for, so that there is nothing to wait for.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Waits until a quorum of nodes is connected or cannot be, at most `connect_timeout`.
    pub(crate) async fn wait_until_ready(&self) {
        // The attempt that follows finds out whether there is a quorum.
        let _ = timeout(self.connect_timeout, self.connections()).await;
        self.ready.store(true, Ordering::Release);
    }

    async fn connections(&self) {
        let needed = self.quorum();
        let mut connecting: FuturesUnordered<_> = self.iter().map(NodeHandle::connects).collect();
        let (mut up, mut down) = (0, 0);
        while let Some(is_up) = connecting.next().await {
            up += usize::from(is_up);
            down += usize::from(!is_up);
            if up >= needed {
                self.note_quorum_seen();
            }
            if up >= needed || down > self.len() - needed {
                return;
            }
        }
    }

    /// Notes that a quorum has answered. From now on, a node that was down and is seen for the
    /// first time may have forgotten locks of this client (rule 16).
    pub(crate) fn note_quorum_seen(&self) {
        if !self.quorum_seen.load(Ordering::Acquire) {
            self.quorum_seen.store(true, Ordering::Release);
            self.iter().for_each(NodeHandle::note_quorum_seen);
        }
    }
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::clock::TokioClock;

    #[tokio::test(start_paused = true)]
    async fn answers_that_came_while_the_process_stood_still_are_in_time() {
        const SECOND: Duration = Duration::from_secs(1);
        let nodes = Nodes::new(Vec::new(), Arc::new(TokioClock), SECOND, SECOND);
        assert_eq!(nodes.in_time(sleep(SECOND * 9 / 2)).await, Some(()));
        assert_eq!(nodes.in_time(sleep(SECOND * 11 / 2)).await, None);
    }
}
