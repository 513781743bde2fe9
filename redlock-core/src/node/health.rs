//! The state of a node, as a user sees it.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{NodeHandle, outbox::Link};
use crate::{
    error::{Cause, NodeError, NodeErrorKind},
    runtime::in_runtime,
    timer::timeout,
};

/// The state of one node; see [`Redlock::health`](crate::Redlock::health).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NodeHealth {
    /// The node, as `host:port` or the path of its socket.
    pub node: Arc<str>,
    /// Whether it answers.
    pub state: NodeState,
    /// How much longer the node gives no votes for new locks, because it may have restarted without its
    /// data; see [`Restarts`](crate::Restarts). Locks that are held are still renewed there.
    pub sits_out: Option<Duration>,
    /// How many deletes the node has not confirmed yet. If it does not come back, the keys expire by themselves.
    pub pending_cleanups: usize,
    /// What an operator should change about this server: a user that may
    /// not run `INFO`, or an eviction policy that may drop locks. The server is used all the same. Also which part of a
    /// cluster gives no votes for new locks now, and for how long. Each is one line. Empty until the first connection.
    pub advice: Vec<Arc<str>>,
}

impl NodeHealth {
    /// Whether the node answered.
    #[must_use]
    pub fn is_up(&self) -> bool {
        matches!(self.state, NodeState::Up { .. })
    }
}

/// Whether a node answers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum NodeState {
    /// It answered a PING.
    #[non_exhaustive]
    Up {
        /// The time from the question to the answer. The first question of a new client waits for the connection,
        /// so this has the time to connect in it: ask again for that of an answer alone.
        latency: Duration,
    },
    /// It did not answer.
    #[non_exhaustive]
    Down {
        /// Why.
        error: NodeError,
    },
}

impl NodeHandle {
    /// Asks the node whether it answers.
    pub(crate) async fn health(&self) -> NodeHealth {
        let shared = self.shared();
        let asked = shared.context.clock.now();
        let (tell, told) = oneshot::channel();
        let can_wait = in_runtime();
        let down = {
            let mut outbox = shared.outbox.lock();
            match &outbox.link {
                Link::Down(error) => Some(error.clone()),
                _ if !can_wait => Some(NodeError::new(
                    &shared.name,
                    NodeErrorKind::Down,
                    "it was asked outside a tokio runtime: use #[tokio::main] or Runtime::block_on",
                )),
                Link::Opening | Link::Up => {
                    outbox.pings.push(tell);
                    None
                }
            }
        };
        let answer = match down {
            Some(error) => Err(error),
            None => {
                if shared.task.is_running() {
                    shared.task.expect(asked);
                    shared.notify();
                } else {
                    // It has ended since the caller made sure that it runs.
                    self.ensure_running();
                }
                let limit =
                    shared.context.connect_timeout.saturating_add(shared.context.node_timeout);
                match timeout(limit, told).await {
                    Ok(Ok(answer)) => answer,
                    Ok(Err(_)) => {
                        let reason = "the connection ended before it answered";
                        let kind = NodeErrorKind::Disconnected;
                        let error = NodeError::new(&shared.name, kind, reason);
                        // A connection that broke has taken the node down. Otherwise its task has ended.
                        let is_down = matches!(shared.outbox.lock().link, Link::Down(_));
                        let cause = if is_down { error.cause } else { Cause::Unheard };
                        Err(NodeError { cause, ..error })
                    }
                    Err(_) => Err(NodeError::new(
                        &shared.name,
                        NodeErrorKind::Timeout,
                        format!("not connected within {limit:?}"),
                    )),
                }
            }
        };
        let state = match answer {
            Ok(()) => NodeState::Up { latency: shared.context.clock.now().since(asked) },
            Err(error) => NodeState::Down { error },
        };
        let now = shared.context.clock.now();
        let mut advice = shared.advice.lock().clone();
        advice.extend(shared.connector.advice());
        let outbox = shared.outbox.lock();
        NodeHealth {
            advice,
            node: Arc::clone(&shared.name),
            state,
            sits_out: outbox.quarantine.sits_out(now).map(|(_, left)| left),
            pending_cleanups: outbox.cleanups(),
        }
    }
}
