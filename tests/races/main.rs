//! Races between threads: `cargo xtask races`, or `--cfg redlock_races`.
//!
//! Shuttle runs the threads of a test one at a time and decides, whenever one of them takes a lock or
//! touches an atomic, which one goes on. Time stands still unless a test lets it pass. So whatever a
//! client waits for has to come by a wake-up: a wake-up that is lost leaves a thread waiting, which
//! shuttle reports as a deadlock.
#![cfg(redlock_races)]
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "these are tests, if not all of them are #[test]"
)]

mod features;
mod holds;
mod nodes;
mod runtimes;
mod waiting;
mod world;
