//! Running a body under a lock: polled only while the lock may be relied on, dropped when it is
//! lost, released afterwards (rules 9 and 13).
//!
//! | file | what it does |
//! |---|---|
//! | [`asking`] | waits for the lock |
//! | [`joining`], [`scope`] | joins the hold of a body around the request; which bodies those are |
//! | [`running`] | runs a body from the request for its lock to the release |
//! | [`guard`] | the lock of a body that can be dropped |
//! | [`refusal`] | what a function returns whose lock was refused or lost |

mod asking;
#[cfg(test)]
mod doubt_tests;
mod guard;
mod joining;
#[cfg(test)]
mod reentry_tests;
mod refusal;
mod running;
mod scope;
#[cfg(test)]
mod tests;

pub use asking::BodyFuture;
pub use guard::{BodyGuard, OnLost};
pub(crate) use joining::{join, waits_for_itself};
pub use refusal::Refusal;
pub use running::Running;
pub(crate) use running::{Run, run};
pub(crate) use scope::Depth;
