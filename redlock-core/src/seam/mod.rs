//! The seam between this crate and a simulation of it. No part of the public interface.
//!
//! With `--cfg redlock_sim`, a simulation replaces what a client stands on: its clock, its random
//! numbers, its connections and the tasks that it spawns. It also looks at what a holder believes,
//! without changing it. `simulation` is all that it uses. The simulation itself is in `tests/sim`.
//!
//! `clock.rs` and the files below it name the cfg as well. Without it, nothing is replaced.

#[cfg(redlock_sim)]
pub mod simulation;
#[cfg(redlock_sim)]
mod tasks;

#[cfg(redlock_sim)]
pub(crate) use tasks::adopted;

/// The future that is spawned in place of `task`.
#[cfg(not(redlock_sim))]
pub(crate) fn adopted<F>(task: F) -> F {
    task
}
