//! redlock-core, asked for a lock with a fencing token.

use redlock_core::{LockGuard, Redlock};

use super::{
    Failure,
    ours::{Way, release},
};

#[derive(Debug)]
pub(super) struct Fenced;

impl Way for Fenced {
    type Held = LockGuard;

    async fn lock(redlock: &Redlock, resource: &str) -> Result<LockGuard, Failure> {
        let guard = redlock.lock(resource).fenced().await.map_err(|error| error.to_string())?;
        // A lock without a token would not be what is measured.
        guard.fencing_token().is_some().then_some(guard).ok_or_else(|| "no token".to_owned())
    }

    async fn release(held: LockGuard) -> Result<(), Failure> {
        release(held).await
    }
}
