//! Real servers. redis-rs opens the connections, and this crate sends its own batches over them.
//!
//! | file | what it does |
//! |---|---|
//! | [`url`] | a URL becomes an address and a login, or an error that names no secret |
//! | [`connector`] | an address becomes a connection that is ready for commands |
//! | [`info`] | what the server at the other end says of itself |
//! | [`transport`], `tls` | the bytes below redis-rs, and how they ended |
//! | [`connection`] | batches of commands out, and the end of it noticed |
//! | [`batch`] | commands that go out in one write, and their answers |
//! | [`exchange`] | which command gets which answer, and scripts that the server has forgotten |
//! | [`command`], `*.lua` | a command becomes bytes |
//! | [`frame`] | bytes become an answer |
//! | [`words`] | the words of a command |
//! | [`set`] | commands for several locks at once, and their answers |
//! | [`answers`] | what a call for several commands was answered |
//! | [`reply`] | an answer becomes granted, refused, or failed and why |

mod answers;
mod batch;
mod command;
mod connection;
mod connector;
mod exchange;
mod frame;
#[cfg(any(test, fuzzing))]
mod frame_fuzz;
mod info;
mod reply;
mod set;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls-rustls")]
mod tls;
mod transport;
mod url;
mod words;

use std::sync::Arc;

#[cfg(any(test, fuzzing))]
pub use self::frame_fuzz::frames as fuzz_frames;
use super::NodeSpec;
use crate::error::{LockError, NodeError};

/// Reads and checks the URL of one node; nothing is opened.
pub(super) fn spec(url: &str) -> Result<NodeSpec, LockError> {
    let endpoint = url::parse(url)?;
    let name = Arc::clone(&endpoint.name);
    Ok(NodeSpec { name, connector: Arc::new(connector::RedisConnector::new(endpoint)) })
}

/// Whether a server has said, to a command or when connected, that it follows another one, whose
/// data it has from then on (rule 16).
pub(super) fn is_replica(error: &NodeError) -> bool {
    let words = ["READONLY", "MASTERDOWN", info::IS_REPLICA];
    words.iter().any(|words| error.reason.starts_with(words))
}
