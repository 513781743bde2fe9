//! Locks that several clients hold as readers, and locks that change their client, as a model of its own:
//! one lock on three nodes, and clients that each have a role.
//!
//! Requests and answers arrive in any order, late or never. Time is left out: the validity of a client
//! ends at any moment, and a key goes at any moment unless its client may rely on it by its last confirmed
//! round, as the assumptions on clocks say. A renewal is a second round, whose keys live on when those of
//! the first may expire. A node that restarts without its keys sits out until all validity that was
//! counting at that moment has ended.
//!
//! - `rules`: what can be left out, the roles, and how much may happen.
//! - `state`: what nodes keep, what clients have asked for, and what is on its way.
//! - `action`: what can happen; `client`, `node`: what comes of it.
//! - `properties`: what must hold.
//! - `cases`: what is checked, and what is expected.

mod action;
mod cases;
mod client;
mod node;
mod properties;
mod rules;
mod state;

pub(super) use cases::cases;
