//! skeleton
use crate::{LockError, Node, Redlock};
use std::time::Duration;
/// .
#[derive(Debug, Default)]
pub struct Builder {}
impl Builder {
    /// .
    pub fn nodes<I>(self, nodes: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<Node>,
    {
        todo!()
    }
    /// .
    pub fn ttl(self, ttl: Duration) -> Self {
        todo!()
    }
    /// .
    pub fn max_ttl(self, ttl: Duration) -> Self {
        todo!()
    }
    /// .
    pub fn wait(self, ttl: Duration) -> Self {
        todo!()
    }
    /// .
    pub fn retry_delay(self, ttl: Duration) -> Self {
        todo!()
    }
    /// .
    pub fn retry_jitter(self, ttl: Duration) -> Self {
        todo!()
    }
    /// .
    pub fn retry_count(self, n: u32) -> Self {
        todo!()
    }
    /// .
    pub fn clock_drift_factor(self, n: f64) -> Self {
        todo!()
    }
    /// .
    pub fn node_timeout(self, ttl: Duration) -> Self {
        todo!()
    }
    /// .
    pub fn connect_timeout(self, ttl: Duration) -> Self {
        todo!()
    }
    /// .
    pub fn key_prefix(self, p: impl Into<String>) -> Self {
        todo!()
    }
    /// .
    pub fn client_name(self, p: impl Into<String>) -> Self {
        todo!()
    }
    /// .
    pub fn build(self) -> Result<Redlock, LockError> {
        todo!()
    }
}
