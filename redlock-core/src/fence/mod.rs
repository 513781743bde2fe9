//! Fencing tokens: numbers that grow with every holder of a resource. A holder may lose its lock without noticing it.
//! With tokens, the protected store can refuse the writes of such a holder.
//!
//! A lease cannot stop a holder that was paused, or a write that took long to arrive. The store
//! can: it remembers the largest token that it has seen for a resource, refuses a smaller one, and
//! accepts an equal one. A holder registers its token before its first read. [`sql`] does that for
//! PostgreSQL and SQLite. For other stores, see `docs/fencing.md` in the repository.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use redlock_core::Redlock;
//!
//! let redlock = Redlock::in_memory(5);
//! let guard = redlock.lock("invoice:42").fenced().await?;
//! let first = guard.fencing_token();
//! guard.release().await?;
//!
//! let guard = redlock.lock("invoice:42").fenced().await?;
//! assert!(guard.fencing_token() > first);
//! # Ok::<(), redlock_core::LockError>(()) }).unwrap();
//! ```
//!
//! # What is guaranteed
//!
//! Two holders of one resource never have the same token. The one exception is an adopter, which keeps the token of the
//! giver ([`LockGuard::into_lease`](crate::LockGuard::into_lease)). The order of the tokens is the order in which the
//! nodes granted the lock, whatever clocks do. A token from the nodes is larger than every token that any client had
//! before it asked. If one task hands the lock to the next in the same process, the next token is larger too, on two
//! conditions: the lock stays valid meanwhile, and no node loses its key early
//! ([`force_release_now`](crate::Redlock::force_release_now), `FLUSHALL`, the clock of a node). Otherwise another
//! client may have drawn a larger token meanwhile. A store that has seen that one refuses the token that was passed on.
//! That is what tokens are for.
//!
//! This holds while the nodes keep their counters. A counter that was lost or that has expired starts again from the
//! clock of the client that asks. That is larger than every earlier number if the wall clocks of all clients differ by
//! less than half of `max_ttl`: a node that lost its data gives no votes for at least `max_ttl`. It votes at once in
//! three cases. A counter was deleted without a restart. The client trusts restarts
//! ([`Restarts::Trusted`](crate::Restarts::Trusted)). Or the client was started after the restart and goes by what it
//! has observed ([`Restarts::Observed`](crate::Restarts::Observed), the default). Then a token may be smaller than an
//! earlier one, and the store refuses the later holder. [`Restarts::Strict`](crate::Restarts::Strict) excludes the last
//! case.
//!
//! # What it costs
//!
//! See [`LockRequest::fenced`](crate::LockRequest::fenced).

mod range;
pub mod sql;
#[cfg(test)]
mod tests;
mod token;

pub(crate) use range::{MAX_NUMBERS, Range, numbers_for};
pub use token::FencingToken;
