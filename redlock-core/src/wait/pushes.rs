//! What the node that keeps the queue between clients pushes to a waiter.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::{
    node::{Job, Listener, ReplyTo},
    sync::Mutex,
};

/// The pushes that a waiter gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Signal {
    /// The lock was released, and this waiter may take it.
    Turn,
    /// The turn went to the waiter before this one.
    Next,
    /// The connection to the node that keeps the queue has ended.
    Moved,
}

/// The pushes that a waiter has received.
#[derive(Debug)]
pub(super) struct Wake {
    /// The key whose push gives the turn; the other one says that it is next.
    turn: Arc<str>,
    /// Signals that were not looked at yet, by importance.
    told: Mutex<[bool; 3]>,
    /// The node that gave the last turn.
    giver: Mutex<Option<usize>>,
    notify: Notify,
}

impl Wake {
    pub(super) fn new(turn: &Arc<str>) -> Self {
        Self {
            turn: Arc::clone(turn),
            told: Mutex::default(),
            giver: Mutex::default(),
            notify: Notify::new(),
        }
    }

    fn tell(&self, signal: Signal) {
        self.told.lock()[signal as usize] = true;
        self.notify.notify_one();
    }

    /// Forgets all signals, since the node is about to be asked. Returns whether there were any.
    pub(super) fn take_all(&self) -> bool {
        std::mem::take(&mut *self.told.lock()).contains(&true)
    }

    pub(super) fn has_turn(&self) -> bool {
        self.told.lock()[Signal::Turn as usize]
    }

    pub(super) fn giver(&self) -> Option<usize> {
        *self.giver.lock()
    }

    pub(super) fn take(&self) -> Option<Signal> {
        let mut told = self.told.lock();
        let mut by_importance = [Signal::Turn, Signal::Next, Signal::Moved].into_iter();
        by_importance.find(|signal| std::mem::take(&mut told[*signal as usize]))
    }

    pub(super) async fn signal(&self) -> Signal {
        loop {
            if let Some(signal) = self.take() {
                return signal;
            }
            self.notify.notified().await;
        }
    }
}

impl Listener for Wake {
    fn changed(&self, node: usize, key: &str) {
        if *key == *self.turn {
            *self.giver.lock() = Some(node);
            self.tell(Signal::Turn);
        } else {
            self.tell(Signal::Next);
        }
    }

    fn freed(&self, _: usize) {}

    fn disconnected(&self, _: usize) {
        self.tell(Signal::Moved);
    }

    fn reconnected(self: Arc<Self>, _: usize) -> Option<(Arc<Job>, ReplyTo)> {
        None
    }
}
