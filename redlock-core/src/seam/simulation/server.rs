//! What a node does with commands: the data of a [`MemoryNode`](crate::MemoryNode), which the
//! simulation puts behind connections of its own.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::message::{self, Command, Reply};
use crate::node::{self, Action, Claim, memory::data::Data};

/// The data of one node.
pub struct Server {
    data: Data,
    /// How fast its clock goes.
    rate: f64,
}

/// A connection that has to be told that a key has changed.
#[derive(Debug, Clone)]
pub struct Push {
    /// The number of the connection.
    pub to: u64,
    /// The key.
    pub key: Arc<str>,
}

/// A lock that went from a node and may come back.
#[derive(Debug)]
pub struct Lost {
    claim: Arc<Claim>,
    left: Duration,
    since: Instant,
}

impl Lost {
    /// The first 64 bits of its token.
    #[must_use]
    pub fn claim(&self) -> u64 {
        message::number(&self.claim.value)
    }
}

impl Server {
    /// A node without data whose clock goes at this rate, 1.0 being right.
    #[must_use]
    pub fn new(rate: f64) -> Self {
        let mut data = Data::new();
        data.set_rate(rate);
        Self { data, rate }
    }

    /// Sets the clock of the node back by this much. Returns the pushes for keys that had expired before.
    pub fn set_back(&mut self, by: Duration) -> Vec<Push> {
        pushes(self.data.set_clock(-by.as_secs_f64()))
    }

    /// Runs a command that came on the connection of this number. Returns the pushes that follow.
    pub fn run(&mut self, command: &Command, connection: u64) -> (Reply, Vec<Push>) {
        let (reply, told) = self.execute(&command.0, connection);
        (Reply(reply), told)
    }

    fn execute(&mut self, command: &node::Command, connection: u64) -> (node::Reply, Vec<Push>) {
        let (mut replies, told) = self.data.run(std::slice::from_ref(command), connection);
        // There is one reply for each command.
        (replies.pop().unwrap_or(node::Reply::Missing), pushes(told))
    }

    /// Tells this connection nothing any more: it has gone.
    pub fn forget(&mut self, connection: u64) {
        self.data.forget(connection);
    }

    /// Deletes everything. Returns the pushes to the connections that watched it.
    pub fn clear(&mut self) -> Vec<Push> {
        pushes(self.data.clear())
    }

    /// Deletes all locks, as when the clock of the node is set ahead. Counters stay. Returns the locks,
    /// and the connections to tell.
    pub fn lose_locks(&mut self) -> (Vec<Lost>, Vec<Push>) {
        let mut lost = Vec::new();
        let mut told = Vec::new();
        for (claim, left) in self.data.holders() {
            // Several readers have one key.
            told.extend(self.data.remove(&claim.key).map(pushes).unwrap_or_default());
            lost.push(Lost { claim: Arc::new(claim), left, since: Instant::now() });
        }
        (lost, told)
    }

    /// A lock that went comes back as if its holder had set it again, if it has not expired and no
    /// other lock is there. Returns whether it has, and the connections to tell.
    pub fn bring_back(&mut self, lost: &Lost) -> (bool, Vec<Push>) {
        let ttl = lost.left.saturating_sub(lost.since.elapsed().mul_f64(self.rate));
        if ttl.is_zero() {
            return (false, Vec::new());
        }
        let claim = Arc::clone(&lost.claim);
        let command = node::Command { claim, action: Action::Heal { ttl } };
        // No connection has this number.
        let (reply, told) = self.execute(&command, u64::MAX);
        (reply == node::Reply::Done, told)
    }

    /// The keys of locks that have not expired.
    pub fn keys(&mut self) -> Vec<String> {
        self.data.keys()
    }

    /// The keys of locks that have not expired, with the first 64 bits of the token of each holder.
    pub fn holders(&mut self) -> Vec<(String, u64)> {
        let holders = self.data.holders().into_iter();
        holders.map(|(claim, _)| (claim.key.to_string(), message::number(&claim.value))).collect()
    }

    /// The first 64 bits of the token of the writer that has this key, if one has it.
    pub fn writer(&mut self, key: &str) -> Option<u64> {
        let mut holders = self.data.holders().into_iter();
        let (claim, _) = holders.find(|(claim, _)| *claim.key == *key && !claim.shared)?;
        Some(message::number(&claim.value))
    }

    /// How long a key has left on the node's own clock, if it is there.
    pub fn remaining(&mut self, key: &str) -> Option<Duration> {
        self.data.remaining(key)
    }
}

fn pushes(told: Vec<node::memory::data::Push>) -> Vec<Push> {
    told.into_iter().map(|push| Push { to: push.to, key: push.key }).collect()
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("rate", &self.rate).finish_non_exhaustive()
    }
}
