//! Running a body under a lock: polled only while the lock may be relied on, dropped when it is
//! lost, released afterwards (rules 9 and 13).

mod guard;
mod running;
#[cfg(test)]
mod tests;

pub use guard::{BodyGuard, OnLost, into_body};
pub(crate) use running::{Run, Running, run};
