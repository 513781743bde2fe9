//! The operations of a client on its nodes, one in each file. `no_quorum` is the error, and `unheard` the second try,
//! that several of them share.

pub(crate) mod acquire;
pub(crate) mod extend;
pub(crate) mod hand_off;
pub(crate) mod health;
pub(crate) mod inspect;
#[cfg(test)]
mod inspect_tests;
mod no_quorum;
pub(crate) mod release;
mod unheard;
pub(crate) mod watch;
