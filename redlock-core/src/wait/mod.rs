//! Waiting for a lock without asking for it all the time.
//!
//! - [`mod@line`]: the tasks of one client that want one resource stand in line. Only the first
//!   talks to the nodes, and a released lock passes to the next task as it is.
//! - [`turn`]: a place in the line and a turn. A task that goes away passes them on.
//! - [`entry`]: a place in the queue between clients, which one node keeps.
//! - [`contention`]: the locks that other clients wanted a moment ago.
//! - [`pace`]: how long a line may keep a lock to itself, and how long clients wait for each other.
//!
//! [`crate::op::watch`] has the nodes report that a key has changed.
//!
//! The life of a line: the first task that joins makes the line and is its [`Head`]. Only the head
//! asks the nodes. A head that gets the lock makes the line a held one. A released lock passes to
//! the next task in line ([`Lines::hand_over`]). If it cannot pass, or was lost
//! ([`Lines::vacate`]), the next task is the head and asks. The same happens when a head goes away,
//! and its place among other clients goes with the turn. Without a next task the line is removed.
//!
//! Invariants:
//!
//! - A line that is not held has exactly one head: the task that asks has it, or it was given to a
//!   waiter that has not looked yet.
//! - A waiter has one turn at most. It is given under the lock of its line, and the waiter leaves
//!   under the same lock.
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
