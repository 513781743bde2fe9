//! skeleton
use std::time::Duration;
/// A node inside this process.
#[derive(Debug, Clone, Default)]
pub struct MemoryNode {}
impl MemoryNode {
    /// .
    pub fn new() -> Self {
        todo!()
    }
    /// Refuses connections and breaks the ones there are, like a killed server. Keeps its data.
    pub fn stop(&self) {
        todo!()
    }
    /// Up again after `stop`, with its data.
    pub fn start(&self) {
        todo!()
    }
    /// Up again, empty.
    pub fn restart_empty(&self) {
        todo!()
    }
    /// Takes commands and answers nothing until `resume`, which runs them, like SIGSTOP / SIGCONT.
    pub fn hang(&self) {
        todo!()
    }
    /// .
    pub fn resume(&self) {
        todo!()
    }
    /// Answers this much later from now on.
    pub fn slow(&self, delay: Duration) {
        todo!()
    }
    /// The keys that are set and have not expired, in order.
    pub fn keys(&self) -> Vec<String> {
        todo!()
    }
    /// Deletes everything (FLUSHALL).
    pub fn clear(&self) {
        todo!()
    }
}
impl From<MemoryNode> for crate::Node {
    fn from(n: MemoryNode) -> Self {
        todo!()
    }
}
impl From<&MemoryNode> for crate::Node {
    fn from(n: &MemoryNode) -> Self {
        todo!()
    }
}
