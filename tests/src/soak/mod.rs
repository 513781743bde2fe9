//! The soak: real processes, real servers and real faults for as long as the operator wants, and a
//! log of every hold that is judged afterwards. `cargo xtask soak` runs it.
//!
//! Several worker processes share a handful of keys on five redis-servers, each worker through
//! proxies of its own, so that a worker may reach a server that another worker cannot reach. Faults
//! are drawn from a seed: servers are killed, restarted, stopped; links are slow, cut, silent in
//! one direction; workers are stopped for longer than a ttl, and killed.
//!
//! # What a hold is
//!
//! A [`validity`](redlock_core::LockGuard::validity) is a promise: no other client gets the lock
//! for this long, unless its holder releases it. So a hold lasts from just after the lock was given
//! until the holder began to release it, or until the last promise ran out, whichever was first.
//! The promise is written down before anything relies on it, with the time read *before* the
//! question, in a file that outlives the process.
//!
//! - A worker that is stopped or killed cannot be asked when it ceased to believe. What it was
//!   promised stands, and no other client may get the lock until then.
//! - A worker that goes on after its deadline and still acts, because it was stopped between the
//!   check and the act, is not counted: no lease can prevent it. It is shown by the demonstration
//!   of lost updates (`cargo xtask lost-updates`).
//! - Both ends lie inside the real ones, so that an overlap is never a false alarm. That clocks of
//!   one machine are one clock is what makes them comparable.
//!
//! # The clients
//!
//! They are `Restarts::Strict`, because workers are killed and new ones come while servers restart
//! without their data: a new client has not seen the restart, and only the uptime tells of it.

pub mod command;
mod fault;
mod journal;
mod ledger;
mod report;
mod run;
mod samples;
mod stage;
mod worker;

use std::time::Duration;

use redlock_core::Restarts;

/// A quorum of three, and a majority to disturb.
const NODES: usize = 5;

/// How many processes contend.
const WORKERS: usize = 4;

/// The workers from this one on are killed now and then; those before it live through the whole
/// run, so that their memory can be watched.
const FIRST_TO_KILL: usize = 2;

/// The names of the resources.
const KEYS: usize = 8;

/// The longest ttl in use, and how long a server that restarted sits out. Whole seconds, since a
/// server tells its uptime in such.
const MAX_TTL: Duration = Duration::from_secs(2);

/// The name of a resource.
fn key(number: usize) -> String {
    format!("soak-{number}")
}

/// The policy that a word of the command line stands for.
fn restarts(word: &str) -> Option<Restarts> {
    match word {
        "strict" => Some(Restarts::Strict),
        "observed" => Some(Restarts::Observed),
        "trusted" => Some(Restarts::Trusted),
        _ => None,
    }
}
