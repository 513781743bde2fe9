//! Waiting for a lock without asking for it all the time.
//!
//! - [`mod@line`]: the tasks of one client that want one resource stand in line. Only the first talks to
//!   the nodes, and a lock that is let go of passes to the next as it is.
//! - [`turn`]: a place in the line and a turn. A task that goes away passes them on.
//! - [`entry`]: a place in the queue between clients, which one node keeps.
//! - [`contention`]: the locks that other clients wanted a moment ago.
//! - [`pace`]: how long a line may keep a lock to itself, and how long clients wait for each other.
//!
//! That the nodes tell when a key has changed is [`crate::op::watch`].
//!
//! The life of a line: the first task that joins makes it, and is its [`Head`], which alone asks the
//! nodes. A head that gets the lock makes the line a held one. What its holder lets go of passes to the
//! next in line ([`Lines::hand_over`]). If it cannot, or was lost ([`Lines::vacate`]), the next task is
//! the head and asks. The same happens when a head goes away; its place among other clients goes with
//! the turn. Without a next task there is no line.
//!
//! What is always so:
//!
//! - While a line is not held there is exactly one head: in the hands of the task that asks, or given to
//!   a waiter that has not looked yet.
//! - A waiter has one turn at most, given under the lock of its line, under which it also leaves.
//! - No head is dropped under that lock, because its drop takes it. No task is woken under it.
//! - A request that tries only once never waits behind a hold.

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
