//! The connections that a node in memory tells of changes of keys, like a server with
//! `CLIENT TRACKING ON OPTIN NOLOOP`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The most keys that may be watched before a batch, like a server's `tracking-table-max-keys`.
/// Beyond it, all watchers are told that their keys have changed.
pub(super) const MAX_WATCHED: usize = 1 << 18;

/// A connection that has to be told that a key has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Push {
    pub(crate) to: u64,
    pub(crate) key: Arc<str>,
}

/// The pushes that follow from the commands of one connection.
pub(super) struct Pushes {
    /// The connection that makes the changes, if it is one. It hears neither of a change nor of the
    /// next: `NOLOOP`.
    by: Option<u64>,
    pushes: Vec<Push>,
}

impl Pushes {
    pub(super) fn by(connection: Option<u64>) -> Self {
        Self { by: connection, pushes: Vec::new() }
    }

    pub(super) fn into_vec(self) -> Vec<Push> {
        self.pushes
    }
}

/// The connections that are told of the next change to a key, once each.
#[derive(Default)]
pub(super) struct Watched(BTreeMap<Arc<str>, BTreeSet<u64>>);

impl Watched {
    pub(super) fn watch(&mut self, key: Arc<str>, connection: u64) {
        self.0.entry(key).or_default().insert(connection);
    }

    /// Tells this connection nothing any more: it has gone.
    pub(super) fn forget(&mut self, connection: u64) {
        self.0.retain(|_, connections| {
            connections.remove(&connection);
            !connections.is_empty()
        });
    }

    /// Tells the connections that a command has changed this key.
    pub(super) fn changed(&mut self, key: &Arc<str>, told: &mut Pushes) {
        let by = told.by;
        self.push(key, told, |connection| Some(connection) != by);
    }

    /// Tells the connections that this key has expired, which none of them has caused.
    pub(super) fn expired(&mut self, key: &Arc<str>, told: &mut Pushes) {
        self.push(key, told, |_| true);
    }

    /// Tells all connections, and forgets what they watched.
    pub(super) fn tell_all(&mut self, told: &mut Pushes) {
        while let Some((key, connections)) = self.0.pop_first() {
            let pushes = connections.into_iter().map(|to| Push { to, key: Arc::clone(&key) });
            told.pushes.extend(pushes);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn push(&mut self, key: &Arc<str>, told: &mut Pushes, hears: impl Fn(u64) -> bool) {
        let connections = self.0.remove(key).into_iter().flatten().filter(|to| hears(*to));
        told.pushes.extend(connections.map(|to| Push { to, key: Arc::clone(key) }));
    }
}
