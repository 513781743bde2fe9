//! Real servers. redis-rs opens the connections, and this crate sends its own batches over them.
//!
//! | file | what it does |
//! |---|---|
//! | [`url`] | a URL becomes an address and a login, or an error that names no secret |
//! | [`connector`] | a URL becomes a connection that is ready for commands |
//! | [`checks`] | settings beside the address, and what is wrong with them |
//! | `sentinel`, `cluster` | the same for the master behind sentinels, and for a cluster |
//! | `control_connection` | questions to sentinels, and to members of a cluster for the others |
//! | [`opener`] | an address becomes a connection, with the settings of one node |
//! | [`dial`], [`lookup`], `tls`, `tls_errors` | an address becomes a stream of bytes; the addresses of a host; which check of TLS failed |
//! | [`failure`] | why a connection could not be opened |
//! | [`handshake`], [`info`], [`abilities`] | what the server at the other end says of itself, and which commands it runs |
//! | `socket` | a socket that works on without its runtime |
//! | [`transport`] | the bytes to a server, and how they ended |
//! | [`loan`] | the same while redis-rs reads them, and how much it may read |
//! | [`connection`] | batches of commands out, and the end of it noticed |
//! | [`batch`] | commands that go out in one write, and their answers |
//! | [`exchange`] | bytes out, and answers in |
//! | [`calls`] | which command is called how, and gets which answer; scripts that the server has forgotten |
//! | [`command`], [`words`], `*.lua` | a command becomes bytes |
//! | [`native`] | the same without scripts |
//! | [`acknowledged`] | votes that wait for replicas |
//! | [`frame`] | bytes become an answer |
//! | [`set`] | commands for several locks at once, and their answers |
//! | `shared` | commands of readers |
//! | `woken_queues` | the queues that a release wakes |
//! | `scripts` | which script does a command |
//! | [`script`], [`answers`] | a script is called; what a call for several commands was answered |
//! | [`reply`], [`redirect`] | an answer becomes granted, refused, or failed and why; or the member of a cluster to ask |
//! | [`server_error`] | what an error of the server means, and how it is told |

mod abilities;
mod acknowledged;
mod answers;
mod batch;
mod calls;
mod checks;
#[cfg(feature = "cluster")]
mod cluster;
mod command;
mod connection;
mod connector;
#[cfg(any(feature = "sentinel", feature = "cluster"))]
mod control_connection;
mod dial;
mod exchange;
mod failure;
mod frame;
#[cfg(any(test, fuzzing))]
mod frame_fuzz;
mod handshake;
mod info;
mod loan;
mod lookup;
mod native;
mod opener;
mod redirect;
mod reply;
mod script;
mod scripts;
#[cfg(feature = "sentinel")]
mod sentinel;
mod server_error;
mod set;
mod shared;
mod socket;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls-rustls")]
mod tls;
#[cfg(feature = "tls-rustls")]
mod tls_errors;
mod transport;
mod url;
mod woken_queues;
mod words;

use std::sync::Arc;

#[cfg(any(feature = "sentinel", feature = "cluster"))]
use self::checks::{endpoints, none};
#[cfg(any(test, fuzzing))]
pub use self::frame_fuzz::frames as fuzz_frames;
pub(crate) use self::url::UNNAMED_URL;
use self::{
    checks::{misplaced, opener},
    connector::RedisConnector,
};
use super::{Context, NodeSpec, settings::NodeSettings};
use crate::error::LockError;

/// Reads and checks the URL of one node, and its settings; nothing is opened.
pub(super) fn spec(
    url: &str,
    settings: NodeSettings,
    context: &Context,
) -> Result<NodeSpec, LockError> {
    let endpoint = url::parse(url)?;
    if let Some(setting) = settings.of_sentinels() {
        return Err(misplaced(&endpoint.name, setting, "it is for Node::sentinel(..)"));
    }
    let name = Arc::clone(&endpoint.name);
    let address = endpoint.address.clone();
    let opener = opener(endpoint, settings, context, context.connect_timeout)?;
    let connector = RedisConnector { name: Arc::clone(&name), address, opener };
    Ok(NodeSpec { name, connector: Arc::new(connector) })
}

/// The URLs of a master's sentinels become one node.
#[cfg(feature = "sentinel")]
pub(super) fn sentinel_spec(
    master: &str,
    sentinels: &[String],
    settings: NodeSettings,
    context: &Context,
) -> Result<NodeSpec, LockError> {
    let endpoints = endpoints("Node::sentinel", sentinels)?;
    let [first, ..] = &endpoints[..] else { return Err(none("Node::sentinel")) };
    if master.is_empty() || master.chars().any(|it| it.is_control() || it == ' ') {
        return Err(LockError::config(
            "Node::sentinel: the name of the master is empty or has a space in it: use the name \
             that the sentinels monitor it under, often mymaster",
        ));
    }
    let name: Arc<str> = format!("{master}@{}", first.name).into();
    let connector = sentinel::SentinelConnector::new(&name, master, endpoints, settings, context)?;
    Ok(NodeSpec { name, connector: Arc::new(connector) })
}

/// The URLs of members of a cluster become one node.
#[cfg(feature = "cluster")]
pub(super) fn cluster_spec(
    servers: &[String],
    settings: NodeSettings,
    context: &Context,
) -> Result<NodeSpec, LockError> {
    let endpoints = endpoints("Node::cluster", servers)?;
    let [first, ..] = &endpoints[..] else { return Err(none("Node::cluster")) };
    if let Some(setting) = settings.of_sentinels() {
        return Err(misplaced(&first.name, setting, "it is for Node::sentinel(..)"));
    }
    if endpoints.iter().any(|it| it.login.database != 0) {
        return Err(LockError::config("Node::cluster: a cluster has database 0 alone"));
    }
    let name = Arc::clone(&first.name);
    let connector = cluster::ClusterConnector::new(endpoints, settings, context)?;
    Ok(NodeSpec { name, connector: Arc::new(connector) })
}
