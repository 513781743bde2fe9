//! The error of a question to which no quorum has said yes.

use crate::{
    clock::Moment,
    error::{LockError, NodeError},
    quorum::Nodes,
    runtime::check_runtime,
};

/// The error of a question about `resource` that was first asked at `begun`. Nodes no longer answer once the
/// caller's runtime was shut down: then that is the error.
pub(super) fn no_quorum(
    nodes: &Nodes,
    resource: &str,
    attempts: u32,
    begun: Moment,
    granted: usize,
    failures: Vec<NodeError>,
) -> LockError {
    if let Err(error) = check_runtime() {
        return error;
    }
    LockError::NoQuorum {
        resource: resource.to_owned(),
        attempts,
        waited: nodes.clock.now().since(begun),
        granted,
        quorum: nodes.quorum(),
        nodes: failures,
    }
}
