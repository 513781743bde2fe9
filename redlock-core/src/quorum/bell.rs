//! Learning that a lock may have become free: on how many nodes it is, and when it expires on the
//! rest.

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;

use super::{Ballot, ballot::Counts, votes::quorum};
use crate::{
    bug::{Bug, planted},
    clock::{Clock, Moment, sleep_until},
    error::NodeError,
    node::{Action, Claim, Job, Listener, Reply},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// Nodes count in whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(1);

/// Rings when the key is free on a quorum of nodes, or should have expired on a quorum by the
/// remaining times that the nodes gave. One node alone proves nothing: a single key may be left, or
/// missing, for long while no client holds the lock, or one does.
///
/// A ring says that it is worth asking. It does not promise the lock.
pub(crate) struct Bell {
    /// A claim with the key alone: watching compares no value.
    claim: Arc<Claim>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// The state has changed since the listener last looked.
    signal: Notify,
    /// The listener has gone.
    taken_down: AtomicBool,
}

struct State {
    sights: Vec<Sight>,
    /// A node has pushed a change. Answers to questions are no news.
    news: bool,
}

/// What is known of the key on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sight {
    /// An answer never replaces this, because it may be older: at worst the bell rings in vain.
    Free,
    /// A client has the key until this moment, if it does not renew it.
    Taken(Moment),
    Unknown,
}

impl State {
    fn free(&self) -> usize {
        self.sights.iter().filter(|sight| **sight == Sight::Free).count()
    }

    /// When a quorum is free if no holder renews. Never, if too many nodes are unknown.
    fn expires(&self) -> Moment {
        let mut sights = self.sights.clone();
        sights.sort_unstable();
        match sights.get(quorum(sights.len()).saturating_sub(1)) {
            Some(Sight::Taken(until)) => *until,
            Some(Sight::Free | Sight::Unknown) | None => Moment::NEVER,
        }
    }
}

impl Bell {
    pub(crate) fn new(key: &Arc<str>, nodes: usize, clock: &Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            claim: Arc::new(Claim { key: Arc::clone(key), value: String::new() }),
            clock: Arc::clone(clock),
            state: Mutex::new(State { sights: vec![Sight::Unknown; nodes], news: false }),
            signal: Notify::new(),
            taken_down: AtomicBool::new(false),
        })
    }

    /// The job that has a node report the state of the key and its next change.
    pub(crate) fn job(&self) -> Job {
        Job::new(&self.claim, Action::Watch)
    }

    /// The listener goes: questions that were not sent yet are dropped.
    pub(crate) fn take_down(&self) {
        self.taken_down.store(true, Ordering::Release);
    }

    /// Whether a node has pushed a change. An answer may describe what was so before the bell was
    /// hung up.
    pub(crate) fn has_news(&self) -> bool {
        self.state.lock().news
    }

    fn see(&self, node: usize, seen: Sight) {
        let mut state = self.state.lock();
        if let Some(sight) = state.sights.get_mut(node)
            && *sight != Sight::Free
        {
            *sight = seen;
            drop(state);
            self.signal.notify_one();
        }
    }

    pub(crate) fn is_rung(&self) -> bool {
        let state = self.state.lock();
        state.free() >= quorum(state.sights.len())
    }

    /// The number of nodes that have reported the state of the key.
    pub(crate) fn known(&self) -> usize {
        self.state.lock().sights.iter().filter(|sight| **sight != Sight::Unknown).count()
    }

    /// Resolves when the bell rings. For one listener.
    pub(crate) async fn rung(&self) {
        while !self.is_rung() {
            let expires = self.state.lock().expires();
            tokio::select! {
                biased;
                () = self.signal.notified() => {}
                () = sleep_until(&*self.clock, expires), if expires != Moment::NEVER => return,
            }
        }
    }
}

impl Counts for Bell {
    fn count(self: Arc<Self>, node: usize, result: Result<Reply, NodeError>) {
        match result {
            Ok(Reply::Missing) => self.freed(node),
            Ok(Reply::There { left }) => {
                let until = self.clock.now() + left.saturating_add(ROUNDING);
                self.see(node, Sight::Taken(until));
            }
            // The node repeats a failed question by itself.
            Ok(_) | Err(_) => {}
        }
    }

    fn is_wanted(&self) -> bool {
        !self.taken_down.load(Ordering::Acquire)
    }
}

impl Listener for Bell {
    /// The key was deleted, renewed or set by another client. Finding out which costs as much as
    /// asking for the lock, so all of them count as free.
    fn changed(&self, node: usize, _: &str) {
        if !planted(Bug::LostWakeUp) {
            self.state.lock().news = true;
            self.freed(node);
        }
    }

    /// The key is not there on this node.
    fn freed(&self, node: usize) {
        self.see(node, Sight::Free);
    }

    fn disconnected(&self, node: usize) {
        if let Some(sight) = self.state.lock().sights.get_mut(node) {
            *sight = Sight::Unknown;
        }
        // The listener may have to start the tasks of the node again.
        self.signal.notify_one();
    }

    fn reconnected(self: Arc<Self>, node: usize, name: &Arc<str>) -> Option<(Job, Ballot)> {
        if !self.is_wanted() {
            return None;
        }
        Some((self.job(), Ballot::new(&self, node, name)))
    }
}

impl std::fmt::Debug for Bell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bell").field("sights", &self.state.lock().sights).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::clock::TokioClock;

    fn bell() -> Arc<Bell> {
        let clock: Arc<dyn Clock> = Arc::new(TokioClock);
        Bell::new(&"k".into(), 5, &clock)
    }

    fn taken(bell: &Arc<Bell>, node: usize, left: u64) {
        let left = Duration::from_millis(left);
        Arc::clone(bell).count(node, Ok(Reply::There { left }));
    }

    #[tokio::test(start_paused = true)]
    async fn it_rings_when_a_quorum_is_free() {
        let bell = bell();
        (0..5).for_each(|node| taken(&bell, node, 60_000));
        for node in [0, 1, 1] {
            bell.changed(node, "k");
            assert!(bell.rung().now_or_never().is_none());
        }
        // This answer was sent before the key was deleted.
        taken(&bell, 1, 60_000);
        Arc::clone(&bell).count(4, Ok(Reply::Missing));
        assert!(bell.rung().now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn it_rings_when_a_quorum_has_expired_and_not_before() {
        let bell = bell();
        let begun = Instant::now();
        for (node, left) in [(0, 50), (1, 400), (2, 300), (3, 900)] {
            taken(&bell, node, left);
        }
        bell.rung().await;
        assert_eq!(begun.elapsed().as_millis(), 401);
    }

    #[test]
    fn what_the_nodes_answer_is_no_news_and_what_they_tell_is() {
        let silent = bell();
        (0..5).for_each(|node| Arc::clone(&silent).count(node, Ok(Reply::Missing)));
        assert!(silent.is_rung() && !silent.has_news());
        let told = bell();
        told.changed(0, "k");
        assert!(told.has_news() && !told.is_rung());
    }

    #[test]
    fn nobody_is_asked_for_a_bell_that_was_taken_down() {
        let bell = bell();
        let ballot = Ballot::new(&bell, 0, &"a:1".into());
        assert!(ballot.is_wanted());
        bell.take_down();
        assert!(!ballot.is_wanted());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_quorum_of_answers_there_is_nothing_to_wait_for() {
        let bell = bell();
        taken(&bell, 0, 10);
        taken(&bell, 1, 10);
        timeout(Duration::from_secs(3600), bell.rung()).await.unwrap_err();
        assert_eq!(bell.known(), 2);
    }

    /// A node that reconnects is unknown: what it reported on the old connection may have changed.
    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_connected_again_is_asked_again_and_rings_nothing() {
        let bell = bell();
        (0..3).for_each(|node| taken(&bell, node, 60_000));
        bell.changed(0, "k");
        bell.changed(1, "k");
        bell.disconnected(1);
        let (job, ballot) = Arc::clone(&bell).reconnected(1, &"a:1".into()).unwrap();
        assert_eq!((job.action, bell.known()), (Action::Watch, 2));
        bell.changed(2, "k");
        assert!(!bell.is_rung(), "node 1 is not known to be free");
        ballot.cast(Ok(Reply::Missing));
        assert!(bell.is_rung());
        bell.take_down();
        assert!(Arc::clone(&bell).reconnected(1, &"a:1".into()).is_none());
    }
}
