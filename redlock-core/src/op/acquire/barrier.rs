//! The sign of a writer that waits for readers: new readers wait behind it.
//!
//! Without it, readers that come one after the other would keep a writer out for ever. Only the first
//! waiter of the queue says it, and only where a node has readers. It names the place of the writer in the
//! queue: a reader that is before the writer there gets the lock all the same, or the two would wait for
//! each other. It expires by itself, so a writer that crashed holds readers up for a few seconds.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::AcqRel, Ordering::Acquire},
    },
    time::Duration,
};

use crate::{
    clock::Moment,
    error::NodeError,
    node::{Action, Claim, Job, Reply, ReplySink, deliver},
    quorum::{Nodes, ask},
    wait::REFRESH,
};

/// How long a sign counts if it is not repeated, on the clock of its node.
const LIFE: Duration = Duration::from_secs(5);

/// The sign on all nodes. Dropping this takes it back.
pub(super) struct Barrier {
    nodes: Arc<Nodes>,
    claim: Arc<Claim>,
    answers: Arc<Answers>,
    said: Moment,
}

#[derive(Default)]
struct Answers {
    awaited: AtomicUsize,
    /// A node has readers, and the sign.
    is_up: AtomicBool,
}

impl ReplySink for Answers {
    fn receive(self: Arc<Self>, _: usize, result: Result<Reply, NodeError>) {
        // A node that has failed may have the sign all the same.
        if !matches!(result, Ok(Reply::Missing)) {
            self.is_up.store(true, std::sync::atomic::Ordering::Release);
        }
        self.awaited.fetch_sub(1, AcqRel);
    }
}

impl Barrier {
    /// Says that a writer waits for this key at this place of its queue, under a `value` that no other
    /// writer has.
    pub(super) fn raise(nodes: &Arc<Nodes>, key: &Arc<str>, place: u64, value: String) -> Self {
        let said = nodes.clock.now();
        let claim = Arc::new(Claim { place, ..Claim::new(key, value) });
        let barrier = Self { nodes: Arc::clone(nodes), claim, answers: Arc::default(), said };
        barrier.ask(Action::Bar { life: LIFE });
        barrier
    }

    /// Whether it is for this key.
    pub(super) fn is_before(&self, key: &str) -> bool {
        *self.claim.key == *key
    }

    /// Says it once more, if there are readers and it is time.
    pub(super) fn keep_up(&mut self, now: Moment) {
        if self.answers.is_up.load(Acquire) && now.since(self.said) >= REFRESH {
            self.said = now;
            self.ask(Action::Bar { life: LIFE });
        }
    }

    fn ask(&self, action: Action) {
        let Self { nodes, claim, answers, .. } = self;
        answers.awaited.fetch_add(nodes.len(), AcqRel);
        let job = Job::new(claim, action);
        deliver(ask(nodes, answers, nodes.clock.now(), |_| Some(Arc::clone(&job))));
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        if self.answers.is_up.load(Acquire) || self.answers.awaited.load(Acquire) > 0 {
            self.ask(Action::Unbar);
        }
    }
}
