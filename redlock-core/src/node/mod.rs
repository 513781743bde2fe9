//! One independent Redis master: what it can be asked, and what connects to it.
//!
//! Everything above talks to nodes through one seam: each [`Command`] that goes out gets one
//! [`Reply`] or one [`NodeError`]. Below the seam are real servers ([`redis`]) and servers inside
//! this process ([`memory`]); the state machine that supervises a connection is shared by both.
//!
//! | file | what it does |
//! |---|---|
//! | [`handle`], [`shared`] | a node as its users see it, and what they share with its task |
//! | [`command`], [`job`], [`reply`], [`reply_to`], [`set_reply`] | what a node is asked, what it answers, and where its reply goes; its replies for the keys of a set, added up |
//! | [`outbox`], [`lanes`], [`lane`], [`queued`], [`window`], [`resend`], [`sweep`] | what is still to be sent, one desired state a claim; how much is in flight; what is sent again; when to look for what nothing waits for |
//! | [`pipe`] | what was sent, and is not answered |
//! | [`supervisor`], [`session`], [`task`], [`gathering`], [`outcome`] | connects; serves one connection; how long the commands of a crowd wait for others; draws the conclusions |
//! | [`quarantine`], [`expiry`], [`strikes`], [`backoff`], [`round_trip`], [`refusals`] | what a node may have forgotten, whether its clock keeps up, when it is given up, how far it is, which keys it refuses for now (pure) |
//! | [`watchers`], [`told`] | the listeners to changes of keys; what a command has told waiters |
//! | [`queue_keys`], [`counter`], [`secret`] | the keys beside a lock, of the queue between clients and of fencing tokens; what other clients have written |
//! | [`connection`], [`spec`], [`source`], [`settings`], [`credentials`], [`ending_by`] | what connects to a node; a connection that ends in another way than the one below it |
//! | [`fingerprint`] | a number that all clients compute alike from the same text |
//! | [`health`], [`advice`] | what an operator sees of a node, and should change about it |

mod advice;
mod backoff;
mod command;
mod connection;
pub(crate) mod counter;
mod credentials;
mod ending_by;
mod expiry;
mod fingerprint;
mod gathering;
#[cfg(test)]
mod gathering_tests;
mod handle;
mod health;
#[cfg(test)]
pub(crate) mod intercepted;
mod job;
mod lane;
mod lanes;
#[cfg(test)]
mod member_tests;
pub(crate) mod memory;
mod outbox;
#[cfg(any(test, fuzzing))]
mod outbox_fuzz;
#[cfg(test)]
mod outbox_tests;
mod outcome;
#[cfg(test)]
mod parting_tests;
mod pipe;
mod quarantine;
pub(crate) mod queue_keys;
mod queued;
#[cfg(test)]
mod recorder;
pub(crate) mod redis;
mod refusals;
#[cfg(test)]
mod refused_tests;
mod reply;
mod reply_to;
mod resend;
mod round_trip;
mod secret;
mod session;
mod set_reply;
mod settings;
mod shared;
mod source;
mod spec;
mod strikes;
mod supervisor;
mod sweep;
mod task;
#[cfg(test)]
mod tests;
mod told;
mod watchers;
mod window;

#[cfg(any(test, fuzzing))]
pub use self::{outbox_fuzz::outbox as fuzz_outbox, redis::fuzz_frames};
pub(crate) use command::{Action, Claim, Command, Draw, KeySet, Listens, Raise};
pub(crate) use connection::{Connection, Connector, Opened, Remaining, Sender};
pub use credentials::Credentials;
pub(crate) use expiry::Expected;
pub(crate) use fingerprint::fnv1a;
pub(crate) use handle::NodeHandle;
pub use health::{NodeHealth, NodeState};
pub(crate) use job::{CleanUp, Job};
pub(crate) use quarantine::Identity;
pub use quarantine::Restarts;
#[cfg(feature = "cluster")]
pub(crate) use quarantine::was_promoted;
pub(crate) use reply::{Inspection, Reply};
pub(crate) use reply_to::{EarlyReply, ReplySink, ReplyTo, deliver};
pub(crate) use secret::Secret;
pub(crate) use shared::Context;
pub use source::Node;
pub(crate) use source::Source;
pub(crate) use spec::NodeSpec;
pub(crate) use told::Told;
pub(crate) use watchers::{Listener, Watchers};
#[cfg(test)]
pub(crate) use window::MAX_IN_FLIGHT;
pub(crate) use window::Window;
