//! The protocol as a model whose every behaviour is tried: taking, extending, healing, handing over
//! and releasing one lock, over three nodes, by two or three clients. `cargo xtask model` checks it.
//!
//! Requests and answers are in flight for any time and arrive in any order; one that is lost is one
//! that never arrives. Clients stop for good at any moment, nodes restart without their keys, and
//! a client's clock runs slow. Time is what is left of a key, of a validity, of a node's sitting
//! out: whole ticks of a small ttl, so that there are finitely many states and no end to a run.
//!
//! Left out because it changes nothing that is checked: refusals (a client may give up at any
//! moment, refused or not), the time for which a node is down (what is sent to it is on its way),
//! and the first sight of a restarted node (at once, which is when it sits out the shortest).
//!
//! - `rules`: what can be left out of the protocol, and how much may happen.
//! - `state`, `pack`, `symmetry`: a state, in few words, and which are the same but for names.
//! - `action`, `client`, `node`: what can happen, and what comes of it.
//! - `properties`: what must hold.
//! - `fence`: fencing tokens, with states, actions and cases of their own.
//! - `sets`: several locks at once, likewise; `roles`: readers, and locks that change their client.
//! - `cases`: what is checked, and what is expected; `check`: checking it.

mod action;
mod cases;
mod check;
mod client;
pub mod command;
mod fence;
mod node;
mod pack;
mod properties;
mod roles;
mod rules;
mod sets;
mod state;
mod symmetry;
mod trace;

pub use cases::{Case, Expected, Size, cases};
pub use check::{Outcome, check};
