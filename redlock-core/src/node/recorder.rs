//! A listener of tests, which notes what it is told.

use std::sync::Arc;

use super::{Job, Listener, ReplyTo};
use crate::sync::Mutex;

/// What a listener was told.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Note {
    Changed(String),
    Missed(String),
    Disconnected,
}

/// Notes what it is told, and of which node.
#[derive(Default)]
pub(super) struct Recorder(Mutex<Vec<(usize, Note)>>);

impl Recorder {
    /// What was told since the last call.
    pub(super) fn take(&self) -> Vec<(usize, Note)> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Listener for Recorder {
    fn changed(&self, node: usize, key: &str) {
        self.0.lock().push((node, Note::Changed(key.to_owned())));
    }

    fn missed(&self, node: usize, key: &str) {
        self.0.lock().push((node, Note::Missed(key.to_owned())));
    }

    fn freed(&self, _: usize) {}

    fn changed_here(self: Arc<Self>, _: usize) -> Option<(Arc<Job>, ReplyTo)> {
        None
    }

    fn disconnected(&self, node: usize) {
        self.0.lock().push((node, Note::Disconnected));
    }

    fn reconnected(self: Arc<Self>, _: usize) -> Option<(Arc<Job>, ReplyTo)> {
        None
    }
}
