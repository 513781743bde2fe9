//! The gauges of a node. Clients of one process that have a node of the same name share its gauges, so a gauge puts
//! together what each of them sees: the client that writes last must not hide what another one sees.
//!
//! A node that no client sees reads as one that nothing is wrong with. The facade cannot take a gauge back, and a last
//! value of 0 would raise an alert until the process ends.

use std::{
    collections::BTreeMap,
    mem,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ::metrics::{Key, Label, Level, Metadata, gauge, with_recorder};

use super::failures::show_failures;
use crate::sync::Mutex;

pub(super) const NODE_UP: &str = "redlock_node_up";
pub(super) const NODE_SITS_OUT: &str = "redlock_node_sits_out_until_seconds";
pub(super) const NODE_CLEANUPS: &str = "redlock_node_pending_cleanups";

/// The nodes of all clients of this process, by name. An entry goes with its last client (rule 18).
static NODES: Mutex<BTreeMap<Arc<str>, Arc<Mutex<Totals>>>> = Mutex::new(BTreeMap::new());

static METADATA: Metadata<'_> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// What all clients of a node see of it.
#[derive(Default)]
struct Totals {
    clients: usize,
    /// The clients that connect to it, and those of them that are connected.
    links: usize,
    up: usize,
    /// Until when it sits out: one entry for each client that asks it for no votes. Unix times.
    sits_out: Vec<Duration>,
    cleanups: usize,
}

/// What one client sees of a node.
#[derive(Default)]
struct ClientView {
    /// Whether it is connected, if the client connects to it at all.
    is_up: Option<bool>,
    /// Until when it sits out, or zero.
    sits_out: Duration,
    cleanups: usize,
}

/// The part of one client in the gauges of a node. As this is dropped, the rest of it is taken out.
pub(crate) struct NodeGauges {
    node: Arc<str>,
    /// Made once: a gauge that is set for each batch has no time to put its name together.
    cleanups: Key,
    totals: Arc<Mutex<Totals>>,
    /// Locked before what is looked at, so that the last look is what is shown, and before the totals. A gauge is set
    /// under the lock of the totals for the same reason.
    seen: Mutex<ClientView>,
}

impl NodeGauges {
    pub(crate) fn new(node: &Arc<str>) -> Self {
        let totals = {
            let mut nodes = NODES.lock();
            let totals = Arc::clone(nodes.entry(Arc::clone(node)).or_default());
            totals.lock().clients += 1;
            totals
        };
        let label = Label::new("node", Arc::clone(node));
        let cleanups = Key::from_parts(NODE_CLEANUPS, vec![label]);
        Self { node: Arc::clone(node), cleanups, totals, seen: Mutex::default() }
    }

    /// Shows whether the client is connected to the node; `None` while it does not try. The gauge has the worst of all
    /// clients.
    pub(crate) fn link(&self, is_up: impl FnOnce() -> Option<bool>) {
        let gauge = gauge!(NODE_UP, "node" => Arc::clone(&self.node));
        let mut seen = self.seen.lock();
        let is_up = is_up();
        let before = mem::replace(&mut seen.is_up, is_up);
        if before.is_none() && is_up.is_some() {
            show_failures(&self.node);
        }
        let mut totals = self.totals.lock();
        totals.links = totals.links + usize::from(is_up.is_some()) - usize::from(before.is_some());
        totals.up =
            totals.up + usize::from(is_up == Some(true)) - usize::from(before == Some(true));
        gauge.set(if totals.up == totals.links { 1.0 } else { 0.0 });
    }

    /// Shows for how long the node gives this client no votes, if it gives none. The gauge has the latest end.
    pub(crate) fn sits_out(&self, left: impl FnOnce() -> Option<Duration>) {
        let gauge = gauge!(NODE_SITS_OUT, "node" => Arc::clone(&self.node));
        let mut seen = self.seen.lock();
        let until = left()
            .and_then(|left| SystemTime::now().duration_since(UNIX_EPOCH).ok()?.checked_add(left));
        let until = until.unwrap_or_default();
        let before = mem::replace(&mut seen.sits_out, until);
        let mut totals = self.totals.lock();
        if let Some(at) = totals.sits_out.iter().position(|it| *it == before) {
            totals.sits_out.swap_remove(at);
        }
        if !until.is_zero() {
            totals.sits_out.push(until);
        }
        gauge.set(totals.sits_out.iter().max().copied().unwrap_or_default());
    }

    /// Shows how many deletes the client owes the node. The gauge has the sum. Called for each batch.
    pub(crate) fn cleanups(&self, pending: impl FnOnce() -> usize) {
        let gauge = with_recorder(|it| it.register_gauge(&self.cleanups, &METADATA));
        let mut seen = self.seen.lock();
        let pending = pending();
        let before = mem::replace(&mut seen.cleanups, pending);
        let mut totals = self.totals.lock();
        totals.cleanups = totals.cleanups + pending - before;
        gauge.set(totals.cleanups as f64);
    }

    /// Takes out what the client has shown, but for the deletes that it still owes. From now on it has no link. A client
    /// that has never used the node has shown nothing, and must not bring a gauge about.
    pub(crate) fn leave(&self) {
        let (is_up, sits_out) = {
            let seen = self.seen.lock();
            (seen.is_up, seen.sits_out)
        };
        if is_up.is_some() {
            self.link(|| None);
        }
        if !sits_out.is_zero() {
            self.sits_out(|| None);
        }
    }
}

impl Drop for NodeGauges {
    fn drop(&mut self) {
        self.leave();
        let owed = self.seen.lock().cleanups;
        if owed > 0 {
            // Their time is up.
            self.cleanups(|| 0);
        }
        let mut nodes = NODES.lock();
        let mut totals = self.totals.lock();
        totals.clients -= 1;
        if totals.clients == 0 {
            nodes.remove(&self.node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_totals_of_a_node_go_with_its_last_client() {
        let node: Arc<str> = "gone-with-its-last-client".into();
        let has_totals = || NODES.lock().contains_key(&node);
        let [first, last] = std::array::from_fn(|_| NodeGauges::new(&node));
        for client in [&first, &last] {
            client.link(|| Some(false));
            client.sits_out(|| Some(Duration::from_secs(60)));
            client.sits_out(|| Some(Duration::from_secs(30)));
            client.cleanups(|| 2);
        }
        let shown = || {
            let Totals { clients, links, up, sits_out, cleanups } = &*last.totals.lock();
            (*clients, *links, *up, sits_out.len(), *cleanups)
        };
        assert_eq!(shown(), (2, 2, 0, 2, 4));
        first.link(|| Some(true));
        assert_eq!(shown(), (2, 2, 1, 2, 4));
        drop(first);
        assert_eq!(shown(), (1, 1, 0, 1, 2));
        assert!(has_totals());
        drop(last);
        assert!(!has_totals());
    }
}
