//! Waiting for a lock without asking for it all the time.
//!
//! - [`mod@queue`]: the tasks of one client that want one resource stand in a queue. Only the first
//!   talks to the nodes, and a released lock passes to the next task as it is. [`queues`] are those of
//!   all resources. [`queued_task`] is a task that stands there, [`wants`] what it asks of the queue, and [`failed_attempt`]
//!   the outcome that the waiters behind the first get.
//! - [`turn`]: a place in the queue and a turn. A task that goes away passes them on.
//! - [`entry`]: a place in the queue between clients. One node keeps that queue, the queue node: [`mod@queue_node`] says
//!   which one, and [`pushes`] what it tells the waiter. Its answers show the place ([`queue_position`]), the turn of
//!   another client ([`shown_turn`]), and whether the holder renews the lock ([`renewals`]).
//! - [`readers`]: the queues of readers, beside that of the writers.
//! - [`contention`]: the locks that other clients wanted a moment ago.
//! - [`pace`]: how long a queue may keep a lock to itself, and how long clients wait for each other.
//! - [`deletes`]: the keys of a lease go, and the next client is woken. [`lease_events`]: what a lease tells the queues.
//!
//! [`crate::op::watch`] has the nodes report that a key has changed.
//!
//! The life of a queue: the first task that joins makes the queue and is its [`Front`]. Only the front
//! asks the nodes. A front that gets the lock makes the queue a held one. A released lock passes to
//! the next task in the queue ([`Queues::hand_over`]). If it cannot pass, or was lost
//! ([`Queues::pass_on`]), the next task is the front and asks. The same happens when a front goes away,
//! and its place among other clients goes with the turn. Without a next task the queue is removed.
//!
//! Invariants:
//!
//! - A queue that is not held has exactly one front: the task that asks has it, or it was given to a
//!   waiter that has not looked yet.
//! - A waiter has one turn at most. It is given under the lock of its queue, and the waiter leaves
//!   under the same lock.
//! - No front is dropped under that lock, because its drop takes it. No task is woken under it.
//! - A request that tries only once never waits behind a hold.

mod contention;
mod deletes;
mod entry;
mod failed_attempt;
mod lease_events;
mod pace;
mod pushes;
mod queue;
mod queue_node;
mod queue_position;
mod queued_task;
mod queues;
mod readers;
mod renewals;
mod shown_turn;
#[cfg(test)]
mod tests;
mod turn;
mod wants;

pub(crate) use deletes::{delete, delete_left_behind, was_in_the_way};
pub(crate) use entry::{Entry, Report};
pub(crate) use failed_attempt::FailedAttempt;
pub(crate) use pace::{
    DECLINED, MIN_PAUSE, PROMISE, REFRESH, WITHOUT_QUORUM, WakeBackoff, grace, watches_after,
};
pub(crate) use pushes::Signal;
pub(crate) use queue_node::{permit_node, queue_node};
pub(crate) use queue_position::QueuePosition;
pub(crate) use queues::{Joined, Queues, all::Requests};
pub(crate) use readers::{queue_of_one, queue_of_one_permit, queue_of_readers};
pub(crate) use turn::{Front, PendingTurn};
pub(crate) use wants::{NoTurn, Wants};
