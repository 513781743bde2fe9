//! The state of a lock, as an operator sees it.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    error::NodeError,
    node::{Inspection, Secret},
    quorum::quorum,
};

/// The state of one lock on the nodes; see [`Redlock::inspect`](crate::Redlock::inspect).
///
/// It is as old as the answers of the nodes: the lock may be released or taken before this is read.
#[derive(Debug, Clone)]
pub struct LockStatus {
    holder: Option<String>,
    remaining: Duration,
    nodes: Vec<NodeStatus>,
    waiting: Vec<Waiter>,
}

/// The state of a lock on one node, with the name of the node.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The node, as `host:port` or the path of its socket.
    pub node: Arc<str>,
    /// The state of the lock there.
    pub state: LockState,
}

/// The state of a lock on one node.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum LockState {
    /// The node has no such lock.
    Free,
    /// The node has the lock.
    #[non_exhaustive]
    Held {
        /// The `client_name` of the holder. `None` for readers, and for a client of another library.
        holder: Option<String>,
        /// How long the node keeps the lock if no client renews it. `Duration::MAX` for a key without an expiry.
        remaining: Duration,
    },
    /// The node did not answer, or answered with an error.
    #[non_exhaustive]
    Unknown {
        /// Why.
        error: NodeError,
    },
}

/// A client that waits for a lock in the queue between clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    client_name: String,
}

impl Waiter {
    /// The `client_name` of the client.
    #[must_use]
    pub fn client_name(&self) -> &str {
        &self.client_name
    }
}

impl fmt::Display for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client_name.fmt(f)
    }
}

/// The state on a node, or why it is unknown.
type Inspected = Result<Arc<Inspection>, NodeError>;

impl LockStatus {
    /// The `client_name` of the holder, if a quorum of all nodes agrees on it. `None` if the lock is
    /// free, if too few nodes have it or answer, for readers, and for a client of another library.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.holder.as_deref()
    }

    /// The time until the lock is free on a quorum of the nodes, if no client renews it. It is computed from the
    /// answers that came. Zero if the lock is free now, and if no node has answered.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.remaining
    }

    /// The state on each node, in the order in which the nodes were given.
    #[must_use]
    pub fn nodes(&self) -> &[NodeStatus] {
        &self.nodes
    }

    /// The clients in the queue, in the order in which they joined. Empty if there is no queue, and if
    /// the node that keeps it does not answer.
    #[must_use]
    pub fn waiting(&self) -> &[Waiter] {
        &self.waiting
    }

    /// Reads the answers of the nodes. `queue` is the queue node.
    pub(crate) fn of(answers: Vec<(Arc<str>, Inspected)>, queue: Option<usize>) -> Self {
        let needed = quorum(answers.len());
        let seen = || answers.iter().filter_map(|(_, answer)| answer.as_ref().ok());
        let has_quorum = |value: &&Secret| {
            seen().filter(|seen| seen.value.as_ref() == Some(*value)).count() >= needed
        };
        let holder = seen().filter_map(|seen| seen.value.as_ref()).find(has_quorum);
        let holder = holder.and_then(Secret::client_name).map(str::to_owned);
        let mut left: Vec<_> = seen().map(|seen| seen.left).collect();
        left.sort_unstable();
        let remaining = left.get(needed - 1).or(left.last()).copied().unwrap_or_default();
        let kept = queue.and_then(|queue| answers.get(queue)).and_then(|(_, it)| it.as_ref().ok());
        let waiter = |name: &Secret| {
            let client_name = name.client_name()?.to_owned();
            Some(Waiter { client_name })
        };
        let waiting = kept.into_iter().flat_map(|seen| &seen.waiting).filter_map(waiter).collect();
        let nodes = answers.into_iter().map(|(node, answer)| NodeStatus::of(node, answer));
        Self { holder, remaining, nodes: nodes.collect(), waiting }
    }
}

impl NodeStatus {
    fn of(node: Arc<str>, answer: Inspected) -> Self {
        let state = match answer.as_deref() {
            Ok(Inspection { value: None, .. }) => LockState::Free,
            Ok(Inspection { value: Some(value), left, .. }) => {
                LockState::Held { holder: value.client_name().map(str::to_owned), remaining: *left }
            }
            Err(error) => LockState::Unknown { error: error.clone() },
        };
        Self { node, state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::NodeErrorKind;

    fn value(holder: &str) -> Option<Secret> {
        Some(Secret(format!("{}.{holder}", "0".repeat(40))))
    }

    fn status(nodes: &[(Option<Secret>, u64)], failed: usize) -> LockStatus {
        let seen = nodes.iter().map(|(value, left)| {
            let left = Duration::from_secs(*left);
            Ok(Arc::new(Inspection {
                value: value.clone(),
                left,
                waiting: Vec::new(),
                turn_is_out: false,
            }))
        });
        let error = NodeError::new(&"n".into(), NodeErrorKind::Timeout, "late");
        let failed = std::iter::repeat_n(Err(error), failed);
        LockStatus::of(seen.chain(failed).map(|it| ("n".into(), it)).collect(), None)
    }

    #[test]
    fn a_quorum_of_all_nodes_names_the_holder() {
        let (a, b) = (value("a"), value("b"));
        let [free, a, b] = [(None, 0), (a, 9), (b, 5)];
        for (nodes, failed, holder, remaining) in [
            (vec![free.clone(); 3], 0, None, 0),
            (vec![a.clone(), a.clone(), free.clone()], 0, Some("a"), 9),
            (vec![a.clone(), a.clone()], 1, Some("a"), 9),
            (vec![a.clone(), free.clone()], 1, None, 9),
            (vec![a.clone(), b.clone(), free.clone()], 0, None, 5),
            (vec![a.clone()], 2, None, 9),
            (vec![], 3, None, 0),
        ] {
            let status = status(&nodes, failed);
            assert_eq!(status.holder(), holder, "{nodes:?}");
            assert_eq!(status.remaining(), Duration::from_secs(remaining), "{nodes:?}");
        }
    }

    #[test]
    fn a_value_of_another_library_has_no_name_and_is_never_shown() {
        for other in ["secret", "a.b", "", &format!("{}.", "0".repeat(40)), &"x".repeat(60)] {
            let other = Some(Secret(other.to_owned()));
            let status = status(&vec![(other, 9); 3], 0);
            assert_eq!(status.holder(), None);
            assert!(!format!("{status:?}").contains("secret"));
            assert!(matches!(status.nodes()[0].state, LockState::Held { holder: None, .. }));
        }
        assert!(!format!("{:?}", value("a")).contains("000"));
    }
}
