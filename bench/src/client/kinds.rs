//! redlock-core, asked for readers, permits, terms as leader and locks that change hands.

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicU64, Ordering},
};

use redlock_core::{LockGuard, LockHandle, Redlock};
use tokio::{sync::oneshot, task::JoinHandle};

use super::{
    Failure,
    ours::{Plain, Way, release},
};

/// A lock as one of its readers.
#[derive(Debug)]
pub(super) struct Reader;

impl Way for Reader {
    type Held = LockGuard;

    const TOGETHER: u64 = u64::MAX;

    async fn lock(redlock: &Redlock, resource: &str) -> Result<LockGuard, Failure> {
        redlock.lock(resource).shared().await.map_err(|error| error.to_string())
    }

    async fn release(held: LockGuard) -> Result<(), Failure> {
        release(held).await
    }
}

/// A lock three times in four as one of its readers, and else as its writer.
#[derive(Debug)]
pub(super) struct Mixed;

impl Way for Mixed {
    type Held = LockGuard;

    /// The witness does not know which holders are readers. The suites and the simulation do.
    const TOGETHER: u64 = u64::MAX;

    async fn lock(redlock: &Redlock, resource: &str) -> Result<LockGuard, Failure> {
        static TURNS: AtomicU64 = AtomicU64::new(0);
        if TURNS.fetch_add(1, Ordering::Relaxed).is_multiple_of(4) {
            Plain::lock(redlock, resource).await
        } else {
            Reader::lock(redlock, resource).await
        }
    }

    async fn release(held: LockGuard) -> Result<(), Failure> {
        release(held).await
    }
}

/// One of four permits.
#[derive(Debug)]
pub(super) struct Permit;

impl Way for Permit {
    type Held = LockGuard;

    const TOGETHER: u64 = 4;

    async fn lock(redlock: &Redlock, resource: &str) -> Result<LockGuard, Failure> {
        redlock.lock(resource).permits(4).await.map_err(|error| error.to_string())
    }

    async fn release(held: LockGuard) -> Result<(), Failure> {
        release(held).await
    }
}

/// A lock that is handed over as it would be to another process, before it is released.
#[derive(Debug)]
pub(super) struct Moved;

impl Way for Moved {
    type Held = LockGuard;

    async fn lock(redlock: &Redlock, resource: &str) -> Result<LockGuard, Failure> {
        let lease = Plain::lock(redlock, resource).await?.into_lease();
        redlock.adopt(lease).await.map_err(|error| error.to_string())
    }

    async fn release(held: LockGuard) -> Result<(), Failure> {
        release(held).await
    }
}

/// A body under a lock, around another one that enters the same lock again.
#[derive(Debug)]
pub(super) struct Nested;

impl Way for Nested {
    type Held = ();

    async fn lock(redlock: &Redlock, resource: &str) -> Result<(), Failure> {
        let inner = redlock.lock(resource);
        let body = async move |_: &LockHandle| inner.run(async |_: &LockHandle| ()).await;
        let outer = redlock.lock(resource).run(body).await;
        outer.and_then(|inner| inner).map_err(|error| error.to_string())
    }

    /// Both bodies have ended.
    async fn release((): ()) -> Result<(), Failure> {
        Ok(())
    }
}

/// A term as leader.
#[derive(Debug)]
pub(super) struct Leader;

/// The end of a term, for the leader to be told, and what became of it.
#[derive(Debug)]
pub(super) struct Term {
    resign: oneshot::Sender<()>,
    campaign: JoinHandle<Result<(), Failure>>,
}

impl Way for Leader {
    type Held = Term;

    async fn lock(redlock: &Redlock, resource: &str) -> Result<Term, Failure> {
        let (resign, resigned) = oneshot::channel();
        let (begin, begun) = oneshot::channel();
        let campaign = redlock.lead(resource);
        let campaign = tokio::spawn(async move {
            let mut ends = Some((begin, resigned));
            let term = campaign.run(|_: LockHandle| {
                let ends = ends.take();
                async move {
                    if let Some((begin, resigned)) = ends {
                        let _ = begin.send(());
                        let _ = resigned.await;
                    }
                    ControlFlow::Break(())
                }
            });
            term.await.map_err(|error| error.to_string())
        });
        match begun.await {
            Ok(()) => Ok(Term { resign, campaign }),
            Err(_) => Err("the campaign ended before its term".to_owned()),
        }
    }

    async fn release(held: Term) -> Result<(), Failure> {
        drop(held.resign);
        held.campaign.await.map_err(|error| error.to_string())?
    }
}
