//! Waiting for a lock without asking for it all the time.
//!
//! - [`line`]: the tasks of one client that want one resource stand in line; only the first talks
//!   to the nodes, and a lock that is let go of passes to the next as it is.
//! - [`turn`]: a place in the line and a turn; a task that goes away passes them on.
//! - [`entry`]: a place in the queue between processes, which one node keeps.
//! - [`contention`]: the locks that other clients wanted a moment ago.
//! - [`pace`]: how long a line may keep a lock to itself, and who of several processes goes first.
//!
//! That the nodes tell when a key has changed is [`crate::op::watch`].
//!
//! The life of a line: the first who joins makes it, and is its [`Head`], who alone asks the nodes.
//! A head that gets the lock makes the line a held one. What its holder lets go of passes to the
//! next in line ([`Lines::hand_over`]); if it cannot, or was lost ([`Lines::vacate`]), the next one
//! is the head and asks. So it is when a head goes away. Without a next one there is no line.
//!
//! What is always so:
//!
//! - While a line is not held there is exactly one head: in the hands of who asks, or given to a
//!   waiter who has not looked yet.
//! - A waiter has one turn at most, given under the lock of the lines, under which he also leaves.
//! - No head is dropped under that lock: its drop takes it.
//! - Who tries only once never waits behind a hold.

mod contention;
mod entry;
mod line;
mod pace;
#[cfg(test)]
mod tests;
mod turn;

pub(crate) use entry::{Entry, Signal, Standing, queue_node};
pub(crate) use line::{Joined, Lines, NoTurn, Wants};
pub(crate) use pace::{Alarms, REFRESH, SHORTEST_PAUSE, grace, watches_after};
pub(crate) use turn::Head;
