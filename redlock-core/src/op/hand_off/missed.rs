//! The nodes that miss an adoption: they were asked, and have not answered. They keep the value of the giver, which no
//! renewal and no release of the adopter finds: such a node would have no vote for as long as the value lives.

use std::sync::{Arc, Weak};

use smallvec::SmallVec;

use crate::{
    clock::Moment, error::NodeErrorKind, lease::LeaseState, node::Claim, quorum::Nodes,
    sync::Mutex, wait::delete_left_behind,
};

/// Deletes the value of the giver on nodes that miss the adoption, once a hold has the lock. A node that was down
/// before is left out: while it is away, it would be owed more and more deletes (rule 18).
pub(super) struct Missed {
    /// Weak: a question that waits must not keep the nodes.
    nodes: Weak<Nodes>,
    /// The keys, with the value of the giver.
    old: Arc<Claim>,
    /// When the first node was asked, and when the keys have expired.
    times: (Moment, Moment),
    state: Mutex<State>,
}

enum State {
    /// The nodes that have missed the adoption so far.
    Asks(SmallVec<[usize; 5]>),
    Adopted,
}

impl Missed {
    /// The keys of `lease` had the value `old`.
    pub(super) fn new(nodes: &Arc<Nodes>, lease: &LeaseState, old: &str) -> Arc<Self> {
        let Claim { key, rest, .. } = &*lease.claim;
        let old = Claim { rest: rest.clone(), ..Claim::new(key, old.to_owned()) };
        let state = Mutex::new(State::Asks(SmallVec::new()));
        let (nodes, times) = (Arc::downgrade(nodes), (lease.since, lease.expired_by));
        Arc::new(Self { nodes, old: Arc::new(old), times, state })
    }

    /// Notes that a node has failed with an error of this kind.
    pub(super) fn failed(&self, node: usize, kind: NodeErrorKind) {
        match kind {
            NodeErrorKind::Timeout
            | NodeErrorKind::Disconnected
            | NodeErrorKind::Server
            | NodeErrorKind::Overloaded => {}
            // It is not asked, or has the new value.
            NodeErrorKind::Down | NodeErrorKind::SitsOut | NodeErrorKind::Twin => return,
        }
        if let State::Asks(missed) = &mut *self.state.lock() {
            missed.push(node);
            return;
        }
        self.delete(&[node]);
    }

    /// Notes that a hold has the lock.
    pub(super) fn adopted(&self) {
        let before = std::mem::replace(&mut *self.state.lock(), State::Adopted);
        if let State::Asks(missed) = before {
            self.delete(&missed);
        }
    }

    fn delete(&self, missed: &[usize]) {
        if let Some(nodes) = self.nodes.upgrade() {
            delete_left_behind(&nodes, missed, &self.old, self.times);
        }
    }
}
