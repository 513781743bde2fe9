//! Sets of locks as a model of its own: three resources on three nodes, clients that ask for several of
//! them at once, and the queues in which they wait.
//!
//! Requests and answers arrive in any order, late or never. Time is left out: a key expires at any
//! moment, unless its client may rely on it by its last confirmed round, as the assumptions on clocks
//! say. A renewal is a second round, whose keys live on when those of the first may expire. A key is
//! lost only where its holder has it on all nodes, so that a quorum is left.
//!
//! - `rules`: what can be left out, and how much may happen.
//! - `state`: what nodes keep, what clients have asked for, and what is on its way.
//! - `action`: what can happen, and what comes of it; `node`: what nodes do.
//! - `properties`: what must hold.
//! - `cases`: what is checked, and what is expected.

mod action;
mod cases;
mod node;
mod properties;
mod rules;
mod state;

pub(super) use cases::cases;
