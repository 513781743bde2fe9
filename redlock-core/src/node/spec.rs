//! The parts of a node before anything is opened.

use std::{fmt, sync::Arc};

use super::Connector;

/// The name of a node, and the [`Connector`] that opens its connections. Made at `build()`.
#[derive(Clone)]
pub(crate) struct NodeSpec {
    /// `host:port` or the path of a socket, without credentials.
    pub(crate) name: Arc<str>,
    pub(crate) connector: Arc<dyn Connector>,
}

impl fmt::Debug for NodeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeSpec").field(&self.name).finish()
    }
}
