//! Names that lead to the same server. It has one vote, however many names it has (rule 16).

use smallvec::SmallVec;

use crate::{
    clock::Moment,
    error::{NodeError, NodeErrorKind},
    node::NodeHandle,
};

/// For each node, the node that has the vote of its server. Taken at one moment: a connection that breaks meanwhile
/// must not pass the vote on within one question.
pub(crate) struct Twins {
    votes: SmallVec<[usize; 5]>,
}

impl Twins {
    /// Of the names of one server, one that is connected has the vote. A node that is down remembers the process that it
    /// last reached, which another node may be connected to by right.
    pub(crate) fn of(nodes: &[NodeHandle]) -> Self {
        Self::preferring(nodes, |index| nodes.get(index).is_some_and(NodeHandle::is_up))
    }

    /// Of the names of one server, one that is preferred has the vote, if there is one. Of these, it is the one that has
    /// reached the server for longest, and the first of several: a name that has come later sits out, and must not keep
    /// the server from voting.
    pub(crate) fn preferring(nodes: &[NodeHandle], is_preferred: impl Fn(usize) -> bool) -> Self {
        // Each is read once, as it may change.
        let seen: SmallVec<[(u64, (bool, Moment)); 5]> = (0..)
            .zip(nodes)
            .map(|(index, node)| (node.process(), (!is_preferred(index), node.process_since())))
            .collect();
        let vote = |index: usize, process: u64| {
            let same = (0..).zip(&seen).filter(|(_, (it, _))| process != 0 && *it == process);
            same.min_by_key(|(_, (_, rank))| *rank).map_or(index, |(first, _)| first)
        };
        Self {
            votes: (0..).zip(&seen).map(|(index, (process, _))| vote(index, *process)).collect(),
        }
    }

    /// Whether this node has a vote, as far as its twins are concerned.
    pub(crate) fn votes(&self, index: usize) -> bool {
        self.votes.get(index) == Some(&index)
    }

    /// Why this node has no vote, if a twin has it. A node that is down may be no twin once it is back.
    pub(crate) fn refusal(&self, nodes: &[NodeHandle], index: usize) -> Option<NodeError> {
        if self.votes(index) {
            return None;
        }
        let (node, twin) = (nodes.get(index)?, nodes.get(*self.votes.get(index)?)?);
        if let Some(error) = node.why_down() {
            return Some(error);
        }
        let reason = format!(
            "it is the same server as {}: give every node a server of its own",
            twin.name()
        );
        Some(NodeError::new(node.name(), NodeErrorKind::Twin, reason))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::IntoFuture,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering::SeqCst},
        },
        time::Duration,
    };

    use futures_util::future::{BoxFuture, FutureExt, join_all};
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::{
        MemoryNode, NodeHealth, NodeState, Redlock, Released,
        node::{
            Connector, NodeSpec, Opened, Watchers,
            intercepted::{self, without_run_id},
        },
        testing::{are_empty, nodes},
    };

    const SECOND: Duration = Duration::from_secs(1);

    /// Its address leads to the server of another node while it is astray.
    struct Astray {
        own: NodeSpec,
        other: NodeSpec,
        is_astray: Arc<AtomicBool>,
    }

    impl Connector for Astray {
        fn connect(&self, watchers: &Arc<Watchers>) -> BoxFuture<'_, Result<Opened, NodeError>> {
            let leads_to = if self.is_astray.load(SeqCst) { &self.other } else { &self.own };
            leads_to.connector.connect(watchers)
        }
    }

    /// A client of these nodes. The address of the first one leads to the server of the second one meanwhile.
    fn with_one_astray(nodes: &[MemoryNode], is_astray: &Arc<AtomicBool>) -> Redlock {
        let breaks = Arc::clone(is_astray);
        let other = intercepted::spec("a", &nodes[1], true, move |sender, _, commands| {
            if breaks.load(SeqCst) {
                return sender.send(commands);
            }
            let error = NodeError::new(&"a".into(), NodeErrorKind::Disconnected, "it broke");
            let broken = commands.iter().map(|_| Err(error.clone())).collect();
            async move { broken }.boxed()
        });
        let own = nodes[0].spec();
        let connector = Arc::new(Astray { own, other, is_astray: Arc::clone(is_astray) });
        let first = NodeSpec { name: "a".into(), connector };
        let specs = vec![first, nodes[1].spec(), nodes[2].spec()];
        Redlock::builder().over(specs)
    }

    /// Why this node has no vote.
    fn refused(redlock: &Redlock, index: usize) -> Option<Arc<str>> {
        let nodes = &redlock.client().nodes;
        Twins::of(nodes).refusal(nodes, index).map(|error| error.reason)
    }

    /// It sits out, as it has reached another process than before.
    #[tokio::test(start_paused = true)]
    async fn a_name_that_comes_to_another_server_takes_no_vote_of_it() {
        let nodes = nodes(3);
        let is_astray = Arc::new(AtomicBool::new(false));
        let redlock = with_one_astray(&nodes, &is_astray);
        drop(redlock.lock("warm").await.unwrap());
        is_astray.store(true, SeqCst);
        nodes[0].stop();
        let reached = async || {
            while redlock.client().nodes.iter().next().map(NodeHandle::process_since)
                == Some(Moment::ORIGIN)
            {
                sleep(SECOND).await;
            }
        };
        timeout(20 * SECOND, reached()).await.unwrap();
        assert!(refused(&redlock, 0).is_some_and(|it| it.contains("the same server as")));
        assert_eq!([1, 2].map(|index| refused(&redlock, index)), [None, None]);
        assert_eq!(redlock.try_lock("r").await.unwrap().votes(), 2);
        assert!(redlock.health().await[1].is_up());
    }

    /// The client had a quorum without it, and may have used the server by its other name since.
    #[tokio::test(start_paused = true)]
    async fn a_name_that_first_comes_to_a_server_late_takes_no_vote_of_it() {
        let nodes = nodes(3);
        let is_astray = Arc::new(AtomicBool::new(false));
        nodes[0].stop();
        let redlock = with_one_astray(&nodes, &is_astray);
        drop(redlock.lock("warm").await.unwrap());
        sleep(5 * SECOND).await;
        is_astray.store(true, SeqCst);
        let is_twin =
            |index| refused(&redlock, index).is_some_and(|it| it.contains("the same server as"));
        let reached = async || {
            while !(0..3).any(is_twin) {
                sleep(SECOND).await;
            }
        };
        timeout(20 * SECOND, reached()).await.unwrap();
        assert_eq!([0, 1, 2].map(is_twin), [true, false, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_that_tell_no_run_id_are_no_twins() {
        let nodes = nodes(3);
        let client =
            || Redlock::builder().over(nodes.iter().map(|it| without_run_id(it.spec())).collect());
        let (old, new) = (client(), client());
        let guard = old.lock("r").await.unwrap();
        guard.extend(20 * SECOND).await.unwrap();
        assert!(old.health().await.iter().all(NodeHealth::is_up));
        sleep(SECOND).await;
        assert_eq!(guard.votes(), 3);
        let guard = new.adopt(guard.into_lease()).await.unwrap();
        sleep(SECOND).await;
        assert_eq!(guard.votes(), 3);
    }

    /// It is out of reach, and remembers the server of the other one.
    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_down_takes_the_vote_of_no_other_one() {
        let nodes = nodes(3);
        let is_astray = Arc::new(AtomicBool::new(true));
        let redlock = with_one_astray(&nodes, &is_astray);
        let refused = |index| refused(&redlock, index);
        drop(redlock.lock("warm").await.unwrap());
        assert!(refused(0).is_none() && refused(2).is_none());
        assert!(refused(1).unwrap().contains("the same server as a: give"));

        // The queues before some of them are kept by the second node, which is asked for their sake.
        let names = (0..60).map(|it| redlock.lock(format!("held-{it}")).into_future());
        let mut held: Vec<_> = join_all(names).await.into_iter().map(Result::unwrap).collect();
        nodes[0].stop();
        is_astray.store(false, SeqCst);
        // The name under which the server has granted them is out of reach.
        let not_renewed = held.split_off(30);
        let there = || nodes[1].keys().iter().filter(|key| key.contains("held-")).count();
        assert_eq!(there(), 60);
        drop(not_renewed);
        let before = redlock.lock("before").await;
        sleep(SECOND).await;
        drop(before);
        assert_eq!(there(), 30, "a lock that was released before any renewal left its key");
        let guard = redlock.try_lock("r").await.unwrap();
        assert_eq!(guard.votes(), 2);
        assert!(refused(1).is_none());
        let down = Twins::of(&redlock.client().nodes).refusal(&redlock.client().nodes, 0);
        assert_eq!(down.map(|it| it.kind), Some(NodeErrorKind::Down), "and no twin");
        let health = redlock.health().await;
        let NodeState::Down { error } = &health[0].state else { panic!("{health:?}") };
        assert_eq!(error.kind, NodeErrorKind::Down, "it is out of reach, and no twin");
        assert!(health[1].is_up() && health[2].is_up());
        crate::op::health::check_quorum(redlock.client()).await.unwrap();

        // A hold that has begun under one name and goes on under the other one leaves no key.
        let kept = held.split_off(10);
        for held in held {
            held.extend(20 * SECOND).await.unwrap();
            assert_eq!(held.release().await.unwrap(), Released::Ours);
        }
        drop(guard);
        sleep(SECOND).await;
        assert_eq!(there(), kept.len());

        // Both are what they were meant to be.
        nodes[0].start();
        sleep(10 * SECOND).await;
        assert_eq!([0, 1, 2].map(refused), [None, None, None]);
        for kept in kept {
            assert_eq!(kept.release().await.unwrap(), Released::Ours);
        }
        sleep(SECOND).await;
        assert!(are_empty(&nodes), "{:?} {:?}", nodes[1].keys(), nodes[2].keys());
    }
}
