//! redlock-core asked for several locks at once, and for one after the other. The names of the resources
//! stand in one text, with a `+` between them.

use redlock_core::{LockGuard, Redlock};

use super::{
    Failure,
    ours::{Plain, Way, release},
};

/// All locks of a set in one step.
#[derive(Debug)]
pub(super) struct Set;

impl Way for Set {
    type Held = LockGuard;

    async fn lock(redlock: &Redlock, resource: &str) -> Result<LockGuard, Failure> {
        redlock.lock_all(resource.split('+')).await.map_err(|error| error.to_string())
    }

    async fn release(held: LockGuard) -> Result<(), Failure> {
        release(held).await
    }
}

/// One lock after the other, in the order of their names, which keeps tasks from waiting in a circle.
#[derive(Debug)]
pub(super) struct Ordered;

impl Way for Ordered {
    type Held = Vec<LockGuard>;

    async fn lock(redlock: &Redlock, resource: &str) -> Result<Vec<LockGuard>, Failure> {
        let mut names: Vec<&str> = resource.split('+').collect();
        names.sort_unstable();
        let mut held = Vec::new();
        for name in names {
            held.push(Plain::lock(redlock, name).await?);
        }
        Ok(held)
    }

    async fn release(held: Vec<LockGuard>) -> Result<(), Failure> {
        for guard in held {
            release(guard).await?;
        }
        Ok(())
    }
}
