//! The listeners that are told when a key changes on one node.

use std::{collections::BTreeMap, sync::Arc};

use super::{Job, ReplyTo};
use crate::sync::Mutex;

/// Is told what happens to a key, with nothing locked.
pub(crate) trait Listener: Send + Sync + 'static {
    /// Is called when the key was deleted or changed on this node, or has expired there.
    fn changed(&self, node: usize, key: &str);

    /// Is called when this node may have failed to report changes of the key.
    fn missed(&self, node: usize, key: &str);

    /// Is called when this client has deleted the key on this node.
    fn freed(&self, node: usize);

    /// Is called when a release by this client has left the key on this node: readers have it, or a `min_hold`
    /// keeps it. The node reports no later change, and the returned job asks it again.
    fn changed_here(self: Arc<Self>, node: usize) -> Option<(Arc<Job>, ReplyTo)>;

    /// Is called when the connection to this node has ended. No change is reported until there is
    /// another connection.
    fn disconnected(&self, node: usize);

    /// Is called when there is a new connection to this node. Changes in between were not pushed,
    /// and the returned job asks the node again.
    fn reconnected(self: Arc<Self>, node: usize) -> Option<(Arc<Job>, ReplyTo)>;
}

/// A listener, and the number that its client has for this node.
type Registered = (usize, Arc<dyn Listener>);

/// The listeners of one node, by key. A push may be lost with a connection, and may report a change
/// that frees nothing. A push makes a listener faster, and no listener depends on one.
#[derive(Default)]
pub(crate) struct Watchers {
    /// In order, so that a simulation is reproducible.
    listeners: Mutex<BTreeMap<Arc<str>, Vec<Registered>>>,
}

impl Watchers {
    pub(crate) fn add(&self, key: &Arc<str>, node: usize, listener: Arc<dyn Listener>) {
        let mut listeners = self.listeners.lock();
        listeners.entry(Arc::clone(key)).or_default().push((node, listener));
    }

    /// Removes a listener. Its address tells it apart.
    pub(crate) fn remove<L: Listener>(&self, key: &str, listener: &Arc<L>) {
        let gone = Arc::as_ptr(listener).cast::<()>();
        let mut listeners = self.listeners.lock();
        if let Some(registered) = listeners.get_mut(key) {
            registered.retain(|(_, other)| Arc::as_ptr(other).cast::<()>() != gone);
            if registered.is_empty() {
                listeners.remove(key);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.listeners.lock().is_empty()
    }

    #[cfg(test)]
    pub(crate) fn has(&self, key: &str) -> bool {
        self.listeners.lock().contains_key(key)
    }

    fn of(&self, key: &str) -> Vec<Registered> {
        self.listeners.lock().get(key).cloned().unwrap_or_default()
    }

    /// Tells the listeners that the key was deleted or changed on this node, or has expired.
    pub(crate) fn changed(&self, key: &str) {
        for (node, listener) in self.of(key) {
            listener.changed(node, key);
        }
    }

    /// Tells the listeners that this client itself has deleted the key.
    pub(crate) fn freed(&self, key: &str) {
        for (node, listener) in self.of(key) {
            listener.freed(node);
        }
    }

    /// The questions of the listeners to a key that this client itself has changed.
    pub(crate) fn changed_here(&self, key: &str) -> Vec<(Arc<Job>, ReplyTo)> {
        self.of(key).into_iter().filter_map(|(node, it)| it.changed_here(node)).collect()
    }

    /// Tells the listeners that changes of these keys may not have been reported.
    pub(crate) fn missed(&self, is_meant: impl Fn(&str) -> bool) {
        let all: Vec<_> = {
            let listeners = self.listeners.lock();
            let meant = listeners.iter().filter(|(key, _)| is_meant(key));
            let each = meant.flat_map(|(key, registered)| {
                registered
                    .iter()
                    .map(|(node, listener)| (Arc::clone(key), *node, Arc::clone(listener)))
            });
            each.collect()
        };
        for (key, node, listener) in all {
            listener.missed(node, &key);
        }
    }

    /// Tells all listeners that the connection has ended.
    pub(crate) fn disconnected(&self) {
        let all: Vec<Registered> = self.listeners.lock().values().flatten().cloned().collect();
        all.into_iter().for_each(|(node, listener)| listener.disconnected(node));
    }

    /// The questions of the listeners on a new connection.
    pub(crate) fn reconnected(&self) -> Vec<(Arc<Job>, ReplyTo)> {
        let all: Vec<Registered> = self.listeners.lock().values().flatten().cloned().collect();
        all.into_iter().filter_map(|(node, it)| it.reconnected(node)).collect()
    }
}

impl std::fmt::Debug for Watchers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys = self.listeners.lock().len();
        f.debug_struct("Watchers").field("keys", &keys).finish_non_exhaustive()
    }
}
