//! skeleton
use crate::{LockError, LockGuard, LockHandle, LockOptions, body::OnLost};
use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
/// A request for a lock; nothing happens until it is awaited. Clone + Send + 'static.
#[derive(Debug, Clone)]
#[must_use = "a request does nothing until it is awaited"]
pub struct LockRequest {}
/// The future of a request
#[must_use = "futures do nothing unless polled"]
pub struct LockFuture(Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>>);
impl std::fmt::Debug for LockFuture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LockFuture")
    }
}
impl Future for LockFuture {
    type Output = Result<LockGuard, LockError>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}
impl IntoFuture for LockRequest {
    type Output = Result<LockGuard, LockError>;
    type IntoFuture = LockFuture;
    fn into_future(self) -> LockFuture {
        todo!()
    }
}
impl LockRequest {
    /// .
    pub fn ttl(self, d: Duration) -> Self {
        todo!()
    }
    /// .
    pub fn wait(self, d: Duration) -> Self {
        todo!()
    }
    /// .
    pub fn retry_delay(self, d: Duration) -> Self {
        todo!()
    }
    /// .
    pub fn retry_jitter(self, d: Duration) -> Self {
        todo!()
    }
    /// .
    pub fn retry_count(self, n: u32) -> Self {
        todo!()
    }
    /// .
    pub fn clock_drift_factor(self, f: f64) -> Self {
        todo!()
    }
    /// .
    pub fn auto_extend(self, on: bool) -> Self {
        todo!()
    }
    /// .
    pub fn max_hold(self, d: Duration) -> Self {
        todo!()
    }
    /// .
    pub fn min_hold(self, d: Duration) -> Self {
        todo!()
    }
    /// .
    pub fn options(self, o: LockOptions) -> Self {
        todo!()
    }
    /// Lock, run, release.
    pub async fn run<T, F>(self, body: F) -> Result<T, LockError>
    where
        F: AsyncFnOnce(&LockHandle) -> T,
    {
        todo!()
    }
    /// As `run`, over a body that owns its handle; what the annotation expands to.
    #[doc(hidden)]
    pub async fn run_with<T, F, Fut>(self, on_lost: OnLost, body: F) -> Result<T, LockError>
    where
        F: FnOnce(LockHandle) -> Fut,
        Fut: Future<Output = T>,
    {
        todo!()
    }
}
