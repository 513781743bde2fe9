//! What a test sees of what goes over the network.

use std::time::Duration;

use redlock_core::seam::simulation::{Command, Kind, Outcome};

/// One command, as it is sent, run or answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Act<'a> {
    /// The client that sent it.
    pub client: usize,
    /// On which of the connections of this network, counted from zero.
    pub connection: u64,
    /// To which node.
    pub node: usize,
    /// What it does.
    pub kind: Kind,
    /// The key, prefix included; of a set the first.
    pub key: &'a str,
    /// The first 64 bits of its token.
    pub claim: u64,
    /// For how long it asks; zero when it does not.
    pub ttl: Duration,
}

/// Watches the network. Called with the network locked: it must not call back into it.
pub(crate) trait Witness: Send + Sync + 'static {
    /// A client has sent a command.
    fn sent(&self, act: &Act<'_>);
    /// A connection breaks in the middle of what a client writes to it.
    fn cut_short(&self, client: usize, node: usize);

    /// A node has run a command.
    fn executed(&self, act: &Act<'_>, outcome: Outcome);
    /// A node has told a client that asked as an operator: which claim has its key, if a writer has it, and
    /// for how long the key stays, if it is there.
    fn shown(&self, act: &Act<'_>, writer: Option<u64>, left: Option<Duration>);
    /// An operator has taken a key away from these claims on a node, or deleted it.
    fn taken(&self, act: &Act<'_>, from: &[u64]);
    /// A node pushes to a client that a key has changed.
    fn pushed(&self, client: usize, node: usize, key: &str);
    /// Answers have arrived at a client.
    fn answered(&self, client: usize, node: usize);
    /// A client is connected to a node.
    fn connected(&self, client: usize, node: usize);
}

impl<'a> Act<'a> {
    pub(super) fn new(client: usize, connection: u64, node: usize, command: &'a Command) -> Self {
        let (kind, key, claim) = (command.kind(), command.key(), command.claim());
        Self { client, connection, node, kind, key, claim, ttl: command.ttl() }
    }
}
