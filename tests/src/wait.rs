//! Waiting for what a test is about, and for nothing longer.

use std::time::{Duration, Instant};

/// The longest that anything may take before the test fails. Far above what a busy machine needs:
/// no test passes or fails by how fast it runs.
pub const LIMIT: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(5);

/// Returns once `condition` holds; fails the test, saying `what` was waited for, if it does not
/// within [`LIMIT`].
pub async fn wait_until<F>(what: &str, mut condition: F)
where
    F: AsyncFnMut() -> bool,
{
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < LIMIT, "waited {LIMIT:?} in vain until {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// The output of `future`; fails the test, saying `what` did not end, if it takes over [`LIMIT`].
pub async fn within<F: IntoFuture>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(LIMIT, future.into_future()).await {
        Ok(output) => output,
        Err(_) => panic!("{what} did not end within {LIMIT:?}"),
    }
}

/// As [`wait_until`], on a thread of its own time: for what the harness does itself.
pub(crate) fn wait_blocking(mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > LIMIT {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}
