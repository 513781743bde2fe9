//! Waiting for a lock without asking for it all the time.
//!
//! - [`line`]: the tasks of one client that want one resource stand in line; only the first talks
//!   to the nodes, and a lock that is let go of passes to the next as it is.
//! - [`pace`]: how long a line may keep a lock to itself, and who of several processes goes first.
//!
//! That the nodes tell when a key has changed is [`crate::op::watch`].

mod line;
mod pace;
#[cfg(test)]
mod tests;

pub(crate) use line::{Head, Joined, Lines, Refusal, Turn, Wants};
pub(crate) use pace::Alarms;
