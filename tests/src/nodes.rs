//! The servers of one client.

use std::{ops::Deref, thread, time::Duration};

use redlock_core::{Builder, Redlock};

use crate::server::{Server, ServerBuilder};

/// Several independent servers. Reads like a slice of them.
#[derive(Debug)]
pub struct Nodes(Vec<Server>);

impl Nodes {
    /// Starts this many servers, side by side.
    pub fn start(count: usize) -> Self {
        Self::start_as(count, &Server::builder())
    }

    /// Starts this many servers of one kind, side by side.
    pub fn start_as(count: usize, kind: &ServerBuilder) -> Self {
        thread::scope(|scope| {
            let starting: Vec<_> =
                (0..count).map(|_| scope.spawn(|| kind.clone().start())).collect();
            Self(starting.into_iter().map(|server| server.join().unwrap()).collect())
        })
    }

    /// The URL of each.
    pub fn urls(&self) -> Vec<String> {
        self.0.iter().map(Server::url).collect()
    }

    /// A client of all of them that a busy machine does not upset: a node may take 2 s to answer.
    /// Everything else has its default.
    pub fn client(&self) -> Builder {
        Redlock::builder().nodes(self.urls()).node_timeout(Duration::from_secs(2))
    }

    /// How many of the nodes have this key.
    pub fn holding(&self, key: &str) -> usize {
        self.0.iter().filter(|server| server.get(key).is_some()).count()
    }

    /// No node has any key.
    pub fn are_empty(&self) -> bool {
        self.0.iter().all(|server| server.keys().is_empty())
    }
}

impl Deref for Nodes {
    type Target = [Server];

    fn deref(&self) -> &[Server] {
        &self.0
    }
}
