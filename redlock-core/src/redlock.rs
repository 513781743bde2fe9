//! skeleton
use crate::{Builder, LockError, LockHandle, LockRequest, Node, memory::MemoryNode};
use std::time::Duration;
/// A client: cheap to clone.
#[derive(Debug, Clone)]
pub struct Redlock {}
/// Health
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NodeHealth {}
impl Redlock {
    /// .
    pub fn builder() -> Builder {
        Builder::default()
    }
    /// .
    pub async fn connect<I>(nodes: I) -> Result<Self, LockError>
    where
        I: IntoIterator,
        I::Item: Into<Node>,
    {
        todo!()
    }
    /// .
    pub fn in_memory(nodes: usize) -> Self {
        todo!()
    }
    /// The in-memory nodes among the nodes of this client.
    pub fn memory_nodes(&self) -> Vec<MemoryNode> {
        todo!()
    }
    /// .
    pub fn lock(&self, resource: impl Into<String>) -> LockRequest {
        todo!()
    }
    /// .
    pub fn try_lock(&self, resource: impl Into<String>) -> LockRequest {
        todo!()
    }
    /// .
    pub fn held(&self) -> Vec<LockHandle> {
        todo!()
    }
    /// .
    pub async fn release_all(&self) {
        todo!()
    }
    /// .
    pub async fn health(&self) -> Vec<NodeHealth> {
        todo!()
    }
    /// .
    pub async fn shutdown(&self, grace: Duration) {
        todo!()
    }
}
