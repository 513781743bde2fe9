//! What a test sees of what goes over the network.

use std::time::Duration;

use crate::node::{Action, Claim, Command, Reply};

/// One command, as it is sent, run or answered.
#[derive(Debug, Clone, Copy)]
pub struct Act<'a> {
    /// The client that sent it.
    pub client: usize,
    /// On which of the connections of this network, counted from zero.
    pub connection: u64,
    /// To which node.
    pub node: usize,
    /// What it does.
    pub kind: Kind,
    /// The key, prefix included.
    pub key: &'a str,
    /// The first 64 bits of its token.
    pub claim: u64,
    /// For how long it asks; zero when it does not.
    pub ttl: Duration,
}

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Sets the key for a new lock.
    Grant,
    /// Sets the key of a lock that is held.
    Heal,
    /// Extends the key.
    Extend,
    /// The same, and draws numbers.
    Redraw,
    /// Confirms numbers.
    Confirm,
    /// Shortens the key to what is left of `min_hold`.
    Shorten,
    /// Deletes the key.
    Release,
    /// Asks for the state of the key and for its next change.
    Watch,
    /// Stands in the queue before the key.
    Join,
    /// Leaves it.
    Leave,
}

/// What a node answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// There is no such key.
    Missing,
    /// Another client has the key.
    Foreign,
}

/// Watches the network. Called with the network locked: it must not call back into it.
pub trait Witness: Send + Sync + 'static {
    /// A client has sent a command.
    fn sent(&self, act: &Act<'_>);
    /// A connection breaks in the middle of what a client writes to it.
    fn cut_short(&self, client: usize, node: usize);

    /// A node has run a command.
    fn executed(&self, act: &Act<'_>, outcome: Outcome);
    /// A node pushes to a client that a key has changed.
    fn pushed(&self, client: usize, node: usize, key: &str);
    /// Answers have arrived at a client.
    fn answered(&self, client: usize, node: usize);
    /// A client is connected to a node.
    fn connected(&self, client: usize, node: usize);
}

impl<'a> Act<'a> {
    pub(super) fn new(client: usize, connection: u64, node: usize, command: &'a Command) -> Self {
        let (kind, ttl) = match command.action {
            Action::Grant { ttl } => (Kind::Grant, ttl),
            Action::GrantFenced { ttl, .. } => (Kind::Grant, ttl),
            Action::Redraw { ttl, .. } => (Kind::Redraw, ttl),
            Action::Confirm(_) => (Kind::Confirm, Duration::ZERO),
            Action::Heal { ttl } => (Kind::Heal, ttl),
            Action::Extend { ttl } => (Kind::Extend, ttl),
            Action::Shorten { rest } => (Kind::Shorten, rest),
            Action::Release { .. } => (Kind::Release, Duration::ZERO),
            Action::Join { .. } => (Kind::Join, Duration::ZERO),
            Action::Leave => (Kind::Leave, Duration::ZERO),
            // What operators do is not drawn.
            Action::Watch | Action::Inspect | Action::TakeAway | Action::Clear { .. } => {
                (Kind::Watch, Duration::ZERO)
            }
        };
        let Claim { key, .. } = &*command.claim;
        Self { client, connection, node, kind, key, claim: number(&command.claim), ttl }
    }
}

impl From<&Reply> for Outcome {
    fn from(reply: &Reply) -> Self {
        match reply {
            Reply::Done | Reply::There { .. } | Reply::Woke { deleted: true, .. } => Self::Done,
            Reply::Queued { .. } | Reply::Numbered { .. } | Reply::Seen(_) => Self::Done,
            Reply::Missing | Reply::Woke { deleted: false, .. } => Self::Missing,
            Reply::Foreign | Reply::Full => Self::Foreign,
        }
    }
}

/// The first 64 bits of a claim's token, which is hexadecimal.
pub(super) fn number(claim: &Claim) -> u64 {
    number_of(&claim.value)
}

/// The same, of its value.
pub(super) fn number_of(value: &str) -> u64 {
    value.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0)
}
