//! What threads share, and the runtime that tasks are started on. These are the usual types. With
//! `--cfg redlock_races`, shuttle decides which thread goes on whenever a lock is taken or an atomic
//! is touched, and `tests/races` of the workspace tries the orders.
//!
//! A counter of the whole process is one of `std`: it outlives the orders, and decides nothing.

#[cfg(redlock_races)]
mod races;

#[cfg(not(redlock_races))]
pub(crate) use std::sync::atomic;

#[cfg(not(redlock_races))]
pub(crate) use futures_util::task::AtomicWaker;
#[cfg(not(redlock_races))]
pub(crate) use parking_lot::Mutex;
#[cfg(redlock_races)]
pub use races::Runtime;
#[cfg(redlock_races)]
pub(crate) use races::{AtomicWaker, Handle, Mutex, Notify, atomic};
#[cfg(not(redlock_races))]
pub(crate) use tokio::{runtime::Handle, sync::Notify};
