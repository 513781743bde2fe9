//! What the queue node pushes to a waiter.

use std::sync::Arc;

use crate::{
    node::{Claim, Job, Listener, ReplyTo, queue_keys},
    sync::{Mutex, Notify},
};

/// The pushes that a waiter gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Signal {
    /// The lock was released, and this waiter may take it.
    Turn,
    /// This waiter is the next: the one before it has the turn, or has gone.
    Next,
    /// The turn went to a waiter two or three places before this one. It may have crashed.
    Near,
    /// The lock was taken, renewed or released on the queue node.
    Changed,
    /// The connection to the queue node has ended, or a node that has kept the entry can be
    /// reached again: another node may keep the queue from now on. Or a push was lost.
    Moved,
}

/// The pushes that a waiter has received.
#[derive(Debug)]
pub(super) struct Wake {
    /// The keys whose pushes give the turn, say that it is next, and that it is near.
    keys: [Arc<str>; 3],
    state: Mutex<State>,
    notify: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Signals that were not looked at yet, by importance.
    told: [bool; 5],
    /// The node that gave the last turn.
    giver: Option<usize>,
    /// The node that keeps the entry.
    queue_node: Option<usize>,
}

impl Wake {
    pub(super) fn new(claim: &Claim) -> Self {
        let keys = queue_keys::wake_keys(claim).map(Arc::from);
        Self { keys, state: Mutex::default(), notify: Notify::new() }
    }

    pub(super) fn keys(&self) -> &[Arc<str>] {
        &self.keys
    }

    /// Notes which node keeps the entry from now on. Others may still give it the turn.
    pub(super) fn kept_by(&self, node: usize) {
        self.state.lock().queue_node = Some(node);
    }

    fn tell(&self, signal: Signal) {
        self.state.lock().told[signal as usize] = true;
        self.notify.notify_one();
    }

    /// Forgets all signals, since the node is about to be asked. Returns whether there were any.
    pub(super) fn take_all(&self) -> bool {
        std::mem::take(&mut self.state.lock().told).contains(&true)
    }

    /// Whether there are signals that were not looked at yet.
    pub(super) fn has_any(&self) -> bool {
        self.state.lock().told.contains(&true)
    }

    pub(super) fn has_turn(&self) -> bool {
        self.state.lock().told[Signal::Turn as usize]
    }

    /// The node that gave the last turn.
    pub(super) fn giver(&self) -> Option<usize> {
        self.state.lock().giver
    }

    pub(super) fn take(&self) -> Option<Signal> {
        let mut state = self.state.lock();
        let mut by_importance =
            [Signal::Turn, Signal::Next, Signal::Near, Signal::Changed, Signal::Moved].into_iter();
        by_importance.find(|signal| std::mem::take(&mut state.told[*signal as usize]))
    }

    pub(super) async fn signal(&self) -> Signal {
        self.any(|| self.take()).await
    }

    /// Waits for the turn, and leaves what else was told.
    pub(super) async fn turn(&self) {
        let take = || std::mem::take(&mut self.state.lock().told[Signal::Turn as usize]);
        self.any(|| take().then_some(())).await;
    }

    async fn any<T>(&self, take: impl Fn() -> Option<T>) -> T {
        loop {
            if let Some(taken) = take() {
                return taken;
            }
            self.notify.notified().await;
        }
    }
}

impl Listener for Wake {
    fn changed(&self, node: usize, key: &str) {
        let signals = [Signal::Turn, Signal::Next, Signal::Near];
        let mut each = self.keys.iter().zip(signals);
        let signal = each.find(|(it, _)| ***it == *key).map_or(Signal::Changed, |(_, it)| it);
        if signal == Signal::Turn {
            let mut state = self.state.lock();
            state.giver = Some(node);
            // A server writes these keys with the turn, and pushes that: no turn of another waiter is meant.
            state.told[Signal::Next as usize] = false;
            state.told[Signal::Near as usize] = false;
        }
        self.tell(signal);
    }

    /// A turn may be among the pushes that were lost. If none is, the entry still has its place.
    fn missed(&self, _: usize, _: &str) {
        self.tell(Signal::Moved);
    }

    fn freed(&self, _: usize) {
        self.tell(Signal::Changed);
    }

    fn changed_here(self: Arc<Self>, _: usize) -> Option<(Arc<Job>, ReplyTo)> {
        self.tell(Signal::Changed);
        None
    }

    fn disconnected(&self, node: usize) {
        if self.state.lock().queue_node == Some(node) {
            self.tell(Signal::Moved);
        }
    }

    /// The node still has the entry, and gives it turns that nothing pushes to this client any more.
    fn reconnected(self: Arc<Self>, _: usize) -> Option<(Arc<Job>, ReplyTo)> {
        self.tell(Signal::Moved);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that is down ends its connection again at each try to connect.
    #[test]
    fn a_waiter_is_told_that_another_node_may_keep_its_entry() {
        let claim = Claim::new(&"lock".into(), "waiter".into());
        let [turn, next, near] = queue_keys::wake_keys(&claim);
        let wake = Arc::new(Wake::new(&claim));
        wake.disconnected(0);
        wake.kept_by(0);
        wake.kept_by(1);
        wake.disconnected(0);
        assert_eq!(wake.take(), None);
        wake.disconnected(1);
        assert_eq!(wake.take(), Some(Signal::Moved));
        wake.clone().reconnected(0);
        assert_eq!(wake.take(), Some(Signal::Moved));
        for key in ["lock", &near, &next] {
            wake.changed(0, key);
        }
        for signal in [Signal::Next, Signal::Near, Signal::Changed] {
            assert_eq!((wake.take(), wake.giver()), (Some(signal), None));
        }
        // In the order of a server.
        for key in [&near, &next, &turn] {
            wake.changed(0, key);
        }
        assert_eq!((wake.take(), wake.giver()), (Some(Signal::Turn), Some(0)));
        assert_eq!(wake.take(), None);
    }
}
