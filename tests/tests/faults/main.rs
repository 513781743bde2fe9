//! The fault table: every way in which nodes, the network, clocks and callers are known to fail,
//! one row a fault, against real redis-servers. Each test asserts what a user sees: the outcome,
//! the text of the error, that nothing is left behind and that no other client gets in.
//!
//! | rows | where |
//! |---|---|
//! | 1 to 4, 25, 45: nodes that die, restart, load, forget | `crashes.rs`, `restarts.rs` |
//! | 5 to 8, 34, 41: nodes and callers that hang | `pauses.rs` |
//! | 9: a client that was asleep | `clocks.rs`; `redlock-core/src/lease/clock_faults_tests.rs`, which owns the clock |
//! | 10 to 17: the network | `network.rs`, `connecting.rs` |
//! | 18, 19: clocks of nodes that jump | `clocks.rs` |
//! | 20: clocks of nodes that run at other rates | `redlock-core/src/lease/clock_faults_tests.rs`; simulation |
//! | 21 to 32: servers that refuse to serve | `refusals.rs`, `misplaced.rs` |
//! | 33, 35 to 37: connections and keys that others take away | `operators.rs` |
//! | 38 to 42: callers that leave, panic, end | `callers.rs`; `../cancellation/` |
//! | 46: keys of a set | `sets.rs` |
//! | 43, 44: names and times at their limits | `limits.rs` |
//!
//! A row that cannot run on a machine says so: `SKIPPED row_18: ..`.

mod callers;
mod clocks;
mod connecting;
mod crashes;
mod limits;
mod misplaced;
mod network;
mod operators;
mod pauses;
mod refusals;
mod restarts;
mod sets;
mod support;
