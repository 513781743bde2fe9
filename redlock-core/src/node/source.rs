//! The nodes that a user names: a URL, or a node inside this process.

use std::fmt;

use super::{NodeSpec, memory::MemoryNode, redis};
use crate::error::LockError;

/// An independent Redis master to use as one node of a [`Redlock`](crate::Redlock).
///
/// Made from a URL, or from a [`MemoryNode`](crate::MemoryNode):
///
/// | URL | what it is |
/// |---|---|
/// | `redis://[user[:password]@]host[:port][/database]` | TCP |
/// | `rediss://…` | TCP with TLS, needs the feature `tls-rustls` |
/// | `redis+unix:///path?db=1&user=u&pass=p`, `unix://…` | a Unix socket |
///
/// A URL is checked by `build()`, where the error is.
#[derive(Clone)]
pub struct Node(pub(crate) Source);

#[derive(Clone)]
pub(crate) enum Source {
    Url(String),
    Memory(MemoryNode),
}

impl Node {
    /// The node at this URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self(Source::Url(url.into()))
    }

    pub(crate) fn spec(self) -> Result<NodeSpec, LockError> {
        match self.0 {
            Source::Url(url) => redis::spec(&url),
            Source::Memory(node) => Ok(node.spec()),
        }
    }
}

impl fmt::Debug for Node {
    /// Never prints the URL: it may hold a password (rule 19).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Url(_) => f.debug_struct("Node").finish_non_exhaustive(),
            Source::Memory(node) => node.fmt(f),
        }
    }
}

impl From<&str> for Node {
    fn from(url: &str) -> Self {
        Self::new(url)
    }
}

impl From<String> for Node {
    fn from(url: String) -> Self {
        Self::new(url)
    }
}

impl From<&String> for Node {
    fn from(url: &String) -> Self {
        Self::new(url.as_str())
    }
}

impl From<MemoryNode> for Node {
    fn from(node: MemoryNode) -> Self {
        Self(Source::Memory(node))
    }
}

impl From<&MemoryNode> for Node {
    fn from(node: &MemoryNode) -> Self {
        Self(Source::Memory(node.clone()))
    }
}
