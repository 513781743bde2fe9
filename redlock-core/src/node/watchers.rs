//! Who wants to know when a key changes on one node.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

use crate::quorum::Bell;

/// A bell, and the number that its client has for this node.
type Hung = (usize, Arc<Bell>);

/// The bells that hang on one node, by key. A hint may be lost with a connection, and may come for
/// a change that frees nothing: whoever waits looks for himself now and then, too.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    /// In order, so that a simulation is the same each time.
    bells: Mutex<BTreeMap<Arc<str>, Vec<Hung>>>,
}

impl Watchers {
    pub(crate) fn add(&self, key: &Arc<str>, node: usize, bell: &Arc<Bell>) {
        let mut bells = self.bells.lock();
        bells.entry(Arc::clone(key)).or_default().push((node, Arc::clone(bell)));
    }

    pub(crate) fn remove(&self, key: &str, bell: &Arc<Bell>) {
        let mut bells = self.bells.lock();
        if let Some(hung) = bells.get_mut(key) {
            hung.retain(|(_, other)| !Arc::ptr_eq(other, bell));
            if hung.is_empty() {
                bells.remove(key);
            }
        }
    }

    /// The key was deleted or changed on this node, or has expired.
    pub(crate) fn changed(&self, key: &str) {
        for (node, bell) in self.bells.lock().get(key).into_iter().flatten() {
            bell.changed(*node);
        }
    }

    /// This very client has deleted the key.
    pub(crate) fn freed(&self, key: &str) {
        for (node, bell) in self.bells.lock().get(key).into_iter().flatten() {
            bell.freed(*node);
        }
    }

    /// Nobody knows what has changed: the connection is another one.
    pub(crate) fn all_changed(&self) {
        for (_, bell) in self.bells.lock().values().flatten() {
            bell.ring();
        }
    }
}
