//! What the examples share: where the nodes are, and when to stop.

use std::time::Duration;

use redlock_core::{LockError, Redlock};

pub mod orders;

/// A client of the nodes in `REDLOCK_NODES` (`redis://a:6379,redis://b:6379,..`), once a quorum has
/// answered; without it, of five nodes inside this process. With `NODE_TIMEOUT_MS`, a client that gives
/// each node this time, has a `max_ttl` of ten minutes, and connects when it is used.
///
/// # Errors
///
/// [`LockError::Config`] for what is not a list of URLs, or not a time; [`LockError::NoQuorum`].
pub async fn connect() -> Result<Redlock, LockError> {
    let Ok(nodes) = std::env::var("REDLOCK_NODES") else {
        eprintln!("locks are in this process alone: REDLOCK_NODES names no nodes");
        return Ok(Redlock::in_memory(5));
    };
    let nodes = nodes.split(',').map(str::trim);
    match std::env::var("NODE_TIMEOUT_MS") {
        Ok(timeout) => {
            let timeout = Duration::from_millis(timeout.parse().unwrap_or_default());
            let max_ttl = Duration::from_secs(600);
            Redlock::builder().nodes(nodes).node_timeout(timeout).max_ttl(max_ttl).build()
        }
        Err(_) => Redlock::connect(nodes).await,
    }
}

/// The address to serve on: `ADDR`, or `default`.
#[must_use]
pub fn address(default: &str) -> String {
    std::env::var("ADDR").unwrap_or_else(|_| default.to_owned())
}

/// Resolves at Ctrl-C and, on Unix, at SIGTERM: what an orchestrator sends first.
///
/// # Errors
///
/// When the system does not let this process listen for signals.
pub async fn told_to_stop() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted,
            _ = term.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}
