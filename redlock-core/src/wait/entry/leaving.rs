//! The end of an entry, and what follows from it.

use std::sync::Arc;

use super::Entry;
use crate::{
    error::NodeError,
    node::{Job, Reply, ReplySink, ReplyTo, deliver},
    wait::pace::LIFE,
};

impl Entry {
    /// Leaves the queue to other clients. No task of this client hears that the turn which this entry passes on is its
    /// own: clients without a quorum would pass it round without a pause.
    pub(crate) fn leave_to_others(mut self) {
        self.leaves_silently = true;
    }

    /// Ends the entry of a reader that has the lock, and passes its turn on. `none_waits` is called when the node
    /// that kept it has said that no other client waits.
    pub(crate) fn shares(mut self, none_waits: impl Fn() + Send + Sync + 'static) {
        self.none_waits = Some(Box::new(none_waits));
    }

    /// Ends the entry without passing its turn on, because the waiter has the lock.
    pub(crate) fn acquired(mut self) {
        // The release that gave the turn took the entry out.
        if let Some(index) = self.turn_from.filter(|_| !self.may_be_back) {
            self.asked.retain(|asked| *asked != index);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.follow_lock(false);
        for handle in self.heard.iter().filter_map(|node| self.nodes.get(*node)) {
            self.wake.keys().iter().for_each(|key| handle.stop_listening(key, &self.wake));
        }
        let queue_node = self.node;
        let none_waits = self.none_waits.take();
        let left = Arc::new(Left { none_waits: queue_node.zip(none_waits) });
        for node in std::mem::take(&mut self.asked) {
            let Some(handle) = self.nodes.get(node) else { continue };
            // The leave follows a join that is still on its way, on the same connection.
            let reply_to = ReplyTo::new(&left, node);
            let now = handle.now();
            let leaves = Job::leaving(&self.claim, now + LIFE, self.leaves_silently);
            // A node that has refused the entry, as one whose queue is full, has given it no turn to pass on. It
            // keeps what this client listens to until the entry leaves.
            let leaves = if self.taken.contains(&node) { leaves } else { leaves.again() };
            deliver(handle.submit(leaves, reply_to, now));
        }
    }
}

/// Hears what the nodes answer when an entry leaves.
struct Left {
    /// The node that kept the entry, and what follows if it says that no other client waits.
    none_waits: Option<(usize, Box<dyn Fn() + Send + Sync>)>,
}

impl ReplySink for Left {
    fn receive(self: Arc<Self>, node: usize, result: Result<Reply, NodeError>) {
        if let (Ok(Reply::Done | Reply::Missing), Some((queue_node, none_waits))) =
            (result, &self.none_waits)
            && node == *queue_node
        {
            none_waits();
        }
    }
}
