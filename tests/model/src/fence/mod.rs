//! Fencing tokens as a model of its own: counters beside the lock on three nodes, ranges of numbers,
//! and what makes a number final.
//!
//! An answer is read when its client decides with it, which may be at any time: so requests and
//! answers arrive in any order, late or never. A key goes when its client lets go, when it is
//! deleted and when it expires; to a counter that is all the same, and one step stands for it.
//! Where [`Bounds::any_expiry`](rules::Bounds) is set, that step is possible at every moment,
//! whatever the clocks of nodes and clients say. Elsewhere a node keeps a key for as long as its
//! client may rely on it, as the assumptions on clocks say.
//!
//! - `rules`: what can be left out, and how much may happen.
//! - `state`, `symmetry`: a state, and which are the same but for names.
//! - `action`, `client`, `node`: what can happen, and what comes of it.
//! - `properties`: what must hold.
//! - `cases`: what is checked, and what is expected; `trace`: a behaviour for a reader.

mod action;
mod cases;
mod client;
mod node;
mod properties;
mod rules;
mod state;
mod symmetry;
mod trace;

pub(super) use cases::cases;
