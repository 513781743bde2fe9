//! Waiting for a lock without asking for it all the time.
//!
//! - [`line`]: the tasks of one client that want one resource stand in line; only the first talks
//!   to the nodes, and a lock that is let go of passes to the next as it is.
//! - [`turn`]: a place in the line and a turn; a task that goes away passes them on.
//! - [`pace`]: how long a line may keep a lock to itself, and who of several processes goes first.
//!
//! That the nodes tell when a key has changed is [`crate::op::watch`].

mod line;
mod pace;
#[cfg(test)]
mod tests;
mod turn;

pub(crate) use line::{Joined, Lines, Refusal, Wants};
pub(crate) use pace::{Alarms, SHORTEST_PAUSE};
pub(crate) use turn::{Head, Turn, Wake};
