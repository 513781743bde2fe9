//! Learning that a lock may have become free: on how many nodes it is free, and when it expires on
//! the others.

use std::{sync::Arc, time::Duration};

use super::votes::quorum;
use crate::{
    clock::{Clock, Moment, sleep_until},
    error::NodeError,
    node::{Action, Claim, Job, Listener, Reply, ReplySink, ReplyTo},
    sync::{
        Mutex, Notify,
        atomic::{AtomicBool, Ordering},
    },
};

/// Nodes count in whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(1);

/// Notifies when the key is free on a quorum of nodes, or should have expired on a quorum by the
/// remaining times that the nodes gave. A single node proves nothing: its key may stay for long
/// while no client holds the lock, or be missing while a client holds it.
///
/// A notification says that it is worth asking. It does not promise the lock.
pub(crate) struct FreeSignal {
    /// A claim with the key alone: watching compares no value.
    claim: Arc<Claim>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// The state has changed since the listener last looked.
    signal: Notify,
    /// The listener has gone.
    stopped: AtomicBool,
}

struct State {
    per_node: Vec<KeyState>,
    /// A node has pushed a change. Answers to questions are no news.
    news: bool,
}

/// The known state of the key on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum KeyState {
    /// An answer never replaces this, because it may be older: at worst it notifies in vain.
    Free,
    /// A client has the key until this moment, if it does not renew it.
    Taken(Moment),
    Unknown,
}

impl State {
    fn free(&self) -> usize {
        self.per_node.iter().filter(|key_state| **key_state == KeyState::Free).count()
    }

    /// When a quorum is free if no holder renews. Never, if too many nodes are unknown.
    fn expires(&self) -> Moment {
        let mut per_node = self.per_node.clone();
        per_node.sort_unstable();
        match per_node.get(quorum(per_node.len()).saturating_sub(1)) {
            Some(KeyState::Taken(until)) => *until,
            Some(KeyState::Free | KeyState::Unknown) | None => Moment::NEVER,
        }
    }
}

impl FreeSignal {
    pub(crate) fn new(key: &Arc<str>, nodes: usize, clock: &Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            claim: Arc::new(Claim::new(key, String::new())),
            clock: Arc::clone(clock),
            state: Mutex::new(State { per_node: vec![KeyState::Unknown; nodes], news: false }),
            signal: Notify::new(),
            stopped: AtomicBool::new(false),
        })
    }

    /// The job that has a node report the state of the key and its next change.
    pub(crate) fn job(&self) -> Arc<Job> {
        Job::new(&self.claim, Action::Watch)
    }

    /// Drops the questions that were not sent yet, because the listener goes.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Whether a node has pushed a change. An answer does not count: it may describe the time
    /// before the listener was registered.
    pub(crate) fn has_news(&self) -> bool {
        self.state.lock().news
    }

    fn see(&self, node: usize, seen: KeyState) {
        let mut state = self.state.lock();
        if let Some(key_state) = state.per_node.get_mut(node)
            && *key_state != KeyState::Free
        {
            *key_state = seen;
            drop(state);
            self.signal.notify_one();
        }
    }

    pub(crate) fn is_free(&self) -> bool {
        let state = self.state.lock();
        state.free() >= quorum(state.per_node.len())
    }

    /// Whether this node has reported the state of the key.
    pub(crate) fn knows(&self, node: usize) -> bool {
        self.state.lock().per_node.get(node).is_some_and(|it| *it != KeyState::Unknown)
    }

    /// Resolves when a node has pushed a change and the key is free on a quorum. For one listener.
    pub(crate) async fn told(&self) {
        while !(self.has_news() && self.is_free()) {
            self.signal.notified().await;
        }
    }

    /// Whether the key is free on this node.
    fn is_free_on(&self, node: usize) -> bool {
        self.state.lock().per_node.get(node).is_some_and(|it| *it == KeyState::Free)
    }

    /// Resolves when the key is free on this node. For one listener.
    pub(crate) async fn freed_on(&self, node: usize) {
        while !self.is_free_on(node) {
            self.signal.notified().await;
        }
    }

    /// Resolves when it is worth asking for the lock. For one listener.
    pub(crate) async fn notified(&self) {
        while !self.is_free() {
            let expires = self.state.lock().expires();
            tokio::select! {
                biased;
                () = self.signal.notified() => {}
                () = sleep_until(&*self.clock, expires), if expires != Moment::NEVER => return,
            }
        }
    }
}

impl ReplySink for FreeSignal {
    fn receive(self: Arc<Self>, node: usize, result: Result<Reply, NodeError>) {
        match result {
            Ok(Reply::Missing) => self.freed(node),
            Ok(Reply::There { left }) => {
                let until = self.clock.now() + left.saturating_add(ROUNDING);
                self.see(node, KeyState::Taken(until));
            }
            // The node repeats a failed question by itself.
            Ok(_) | Err(_) => {}
        }
    }

    fn is_wanted(&self) -> bool {
        !self.stopped.load(Ordering::Acquire)
    }
}

impl Listener for FreeSignal {
    /// Takes the key for free. It may have been deleted, renewed or set by another client: to find out
    /// costs as much as to ask for the lock.
    fn changed(&self, node: usize, _: &str) {
        self.state.lock().news = true;
        self.freed(node);
        // The key may have been free before: that it has changed is news.
        self.signal.notify_one();
    }

    fn missed(&self, node: usize, key: &str) {
        self.changed(node, key);
    }

    /// Notes that the key is not there on this node.
    fn freed(&self, node: usize) {
        self.see(node, KeyState::Free);
    }

    fn disconnected(&self, node: usize) {
        if let Some(key_state) = self.state.lock().per_node.get_mut(node) {
            *key_state = KeyState::Unknown;
        }
        // The listener may have to start the tasks of the node again.
        self.signal.notify_one();
    }

    fn changed_here(self: Arc<Self>, node: usize) -> Option<(Arc<Job>, ReplyTo)> {
        self.reconnected(node)
    }

    fn reconnected(self: Arc<Self>, node: usize) -> Option<(Arc<Job>, ReplyTo)> {
        if !self.is_wanted() {
            return None;
        }
        Some((self.job(), ReplyTo::new(&self, node)))
    }
}

impl std::fmt::Debug for FreeSignal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FreeSignal")
            .field("per_node", &self.state.lock().per_node)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::clock::TokioClock;

    fn free_signal() -> Arc<FreeSignal> {
        let clock: Arc<dyn Clock> = Arc::new(TokioClock);
        FreeSignal::new(&"k".into(), 5, &clock)
    }

    fn known(free_signal: &FreeSignal) -> usize {
        (0..5).filter(|node| free_signal.knows(*node)).count()
    }

    fn taken(free_signal: &Arc<FreeSignal>, node: usize, left: u64) {
        let left = Duration::from_millis(left);
        Arc::clone(free_signal).receive(node, Ok(Reply::There { left }));
    }

    #[tokio::test(start_paused = true)]
    async fn it_notifies_when_a_quorum_is_free() {
        let free_signal = free_signal();
        (0..5).for_each(|node| taken(&free_signal, node, 60_000));
        for node in [0, 1, 1] {
            free_signal.changed(node, "k");
            assert!(free_signal.notified().now_or_never().is_none());
        }
        // This answer was sent before the key was deleted.
        taken(&free_signal, 1, 60_000);
        Arc::clone(&free_signal).receive(4, Ok(Reply::Missing));
        assert!(free_signal.notified().now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn it_notifies_when_a_quorum_has_expired_and_not_before() {
        let free_signal = free_signal();
        let begun = Instant::now();
        for (node, left) in [(0, 50), (1, 400), (2, 300), (3, 900)] {
            taken(&free_signal, node, left);
        }
        free_signal.notified().await;
        assert_eq!(begun.elapsed().as_millis(), 401);
    }

    #[test]
    fn answers_of_the_nodes_are_no_news_and_pushes_are() {
        let silent = free_signal();
        (0..5).for_each(|node| Arc::clone(&silent).receive(node, Ok(Reply::Missing)));
        assert!(silent.is_free() && !silent.has_news());
        let told = free_signal();
        told.changed(0, "k");
        assert!(told.has_news() && !told.is_free());
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_a_key_that_was_free_is_told() {
        let free_signal = free_signal();
        (0..5).for_each(|node| Arc::clone(&free_signal).receive(node, Ok(Reply::Missing)));
        let told = tokio::spawn({
            let free_signal = Arc::clone(&free_signal);
            async move { free_signal.told().await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!told.is_finished(), "nothing has changed");
        free_signal.changed(0, "k");
        timeout(Duration::from_secs(1), told).await.unwrap().unwrap();
    }

    #[test]
    fn a_signal_that_was_stopped_asks_no_node() {
        let free_signal = free_signal();
        let reply_to = ReplyTo::new(&free_signal, 0);
        assert!(reply_to.is_wanted());
        free_signal.stop();
        assert!(!reply_to.is_wanted());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_quorum_of_answers_there_is_nothing_to_wait_for() {
        let free_signal = free_signal();
        taken(&free_signal, 0, 10);
        taken(&free_signal, 1, 10);
        timeout(Duration::from_secs(3600), free_signal.notified()).await.unwrap_err();
        assert_eq!(known(&free_signal), 2);
    }

    /// The state is unknown on a node that reconnects: it may have changed since the node reported
    /// it.
    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_connected_again_is_asked_again_and_notifies_nothing() {
        let free_signal = free_signal();
        (0..3).for_each(|node| taken(&free_signal, node, 60_000));
        free_signal.changed(0, "k");
        free_signal.changed(1, "k");
        free_signal.disconnected(1);
        let (job, reply_to) = Arc::clone(&free_signal).reconnected(1).unwrap();
        assert_eq!((job.action, known(&free_signal)), (Action::Watch, 2));
        free_signal.changed(2, "k");
        assert!(!free_signal.is_free(), "node 1 is not known to be free");
        reply_to.deliver(Ok(Reply::Missing));
        assert!(free_signal.is_free());
        free_signal.stop();
        assert!(Arc::clone(&free_signal).reconnected(1).is_none());
    }
}
