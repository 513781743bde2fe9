//! Waiting for a condition, and not for a fixed time.

use std::time::{Duration, Instant};

use crate::server::Server;

/// The longest that any step may take before the test fails. It is far above what a busy machine
/// needs: no test passes or fails by how fast it runs.
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

/// Returns once `key` lives longer than it did a moment before, because a holder has renewed it.
///
/// Each look is compared with the one before it. A first look that comes right after the key was
/// set is larger than nearly all that follow, whether the key is renewed or not.
pub async fn wait_until_renewed(server: &Server, key: &str) {
    let mut before = server.ttl(key);
    wait_until(&format!("{key:?} is renewed"), async || {
        let now = server.ttl(key);
        std::mem::replace(&mut before, now) < now
    })
    .await;
}

/// The output of `future`; fails the test, saying `what` did not end, if it takes over [`LIMIT`].
pub async fn within<F: IntoFuture>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(LIMIT, future.into_future()).await {
        Ok(output) => output,
        Err(_) => panic!("{what} did not end within {LIMIT:?}"),
    }
}

/// Like [`wait_until`], on a thread with a clock of its own: for the harness itself.
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
