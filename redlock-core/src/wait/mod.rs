//! Waiting for a lock without asking for it all the time (design: the queue, handing over, waking).
//!
//! - [`line`]: the tasks of one client that want one resource stand in line; only the head of the
//!   line talks to the nodes, and a lock that is released goes to the next in line as it is.
//! - [`bell`]: the nodes tell the head when the key has changed.
//! - [`pace`]: how long a line may keep a lock to itself, and who of several processes goes first.

mod bell;
mod line;
mod pace;
#[cfg(test)]
mod tests;

pub(crate) use bell::{Bell, Watchers};
pub(crate) use line::{Head, Joined, Lines, Refusal, Turn, Wants};
pub(crate) use pace::wake_delay;
