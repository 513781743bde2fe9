//! Deleting the keys of a lease, and waking the next client that waits for the lock. Every node
//! that may have the key gets a compare-and-delete, until a delete is confirmed or the key has
//! expired (rules 5, 11 and 12).

use std::{cell::LazyCell, sync::Arc};

use smallvec::SmallVec;

use super::{
    pace::{REFRESH, grace},
    queue_node::queue_node,
    queues::Queues,
};
use crate::{
    clock::{Moment, sleep_until},
    error::NodeError,
    lease::LeaseState,
    node::{
        Action, Claim, CleanUp, Job, KeySet, NodeHandle, Reply, ReplySink, ReplyTo, deliver,
        queue_keys,
    },
    quorum::{Effect, Nodes, Round, Tally},
    runtime,
};

/// Gives back a lease that is not held, or the keys that an attempt has left. The deletes follow
/// the `SET`s of the attempt, and the caller does not wait for them (rule 5).
pub(super) fn give_back(queues: &Arc<Queues>, lease: &LeaseState, keep_until: Moment) {
    queues.leases.ensure_running();
    let round = Round::new(&queues.nodes().names, Tally::is_answered_or_failed);
    delete(queues, lease, keep_until, queues.nodes().clock.now(), &round);
}

/// Deletes the keys when the `min_hold` ends, at `keep_until`, and gives the next waiter its turn. No node gives a turn
/// when keys expire. If `keep_until` is more than one [`REFRESH`] away, every waiter looks for itself before that,
/// and no task is started.
fn delete_when_over(queues: &Arc<Queues>, lease: &LeaseState, keep_until: Moment, now: Moment) {
    if keep_until.since(now) > REFRESH {
        return;
    }
    // Not weak: the client may be dropped right behind its last release.
    let (queues, lease) = (Arc::clone(queues), lease.clone());
    runtime::spawn(async move {
        sleep_until(&*queues.nodes().clock, keep_until).await;
        give_back(&queues, &lease, Moment::ORIGIN);
    });
}

/// Asks every node that may have the keys to delete them, or to keep them until `keep_until` if that is
/// still to come. Returns the number of these nodes. The answers go to `round`. The queue node before a key also
/// gives the next waiter its turn, once the keys are gone.
pub(crate) fn delete(
    queues: &Arc<Queues>,
    lease: &LeaseState,
    keep_until: Moment,
    now: Moment,
    round: &Arc<Round>,
) -> usize {
    let nodes = queues.nodes();
    let claim = &lease.claim;
    // A task with an earlier reading of the clock may send the job. To that task a `min_hold` that is over would seem to
    // go on, and the keys would stay.
    let stays = keep_until > now;
    let keep_until = if stays { keep_until } else { Moment::ORIGIN };
    // A lease that no quorum granted kept no other client from the lock.
    let was_held = lease.confirmed_round.yes() >= nodes.quorum();
    // While the keys stay, no client could use a turn, so none is given. The answer then says nothing of the queue.
    let was_in_the_way = || was_in_the_way(claim.permit, &lease.set_round.tally());
    let gives_turn = (was_held || was_in_the_way()) && !stays;
    let queue_nodes = QueueNodes::of(nodes, Some(claim).filter(|_| gives_turn));
    if was_held && stays {
        delete_when_over(queues, lease, keep_until, now);
    }
    let mut early = Vec::new();
    let mut asked = 0;
    // The nodes of the queues are asked last. A waiter that they wake asks all nodes, and would find
    // the key on a node that has not heard of the release.
    let keeping = |keeps: bool| {
        let queue_nodes = &queue_nodes;
        let numbered = (0..nodes.len()).map(|index| (index, queue_nodes.kept_by(index)));
        numbered.filter(move |(_, wakes)| wakes.is_none() != keeps)
    };
    // The nodes without a queue share a job.
    let silent = LazyCell::new(|| clean_up(lease, KeySet::NONE, keep_until, true));
    let whereabouts = Whereabouts::of(lease, nodes);
    for (index, wakes) in keeping(false).chain(keeping(true)) {
        let Some(node) = nodes.get(index) else { continue };
        let is_there = whereabouts.may_include(index);
        if !is_there && wakes.is_none() {
            early.push((ReplyTo::new(round, index), Ok(Reply::Missing)));
            continue;
        }
        asked += usize::from(is_there);
        let (job, reply_to) = if wakes.is_none() {
            (Arc::clone(&silent), ReplyTo::new(round, index))
        } else {
            for (_, key) in kept(claim, wakes) {
                queues.released(&queue_name(key), now, || now + grace(nodes.round_trip()));
            }
            let (round, queues) = (Arc::clone(round), Arc::clone(queues));
            let claim = Arc::clone(claim);
            let telling = Telling { round, queues, claim, wakes, now, may_be_there: is_there };
            (clean_up(lease, wakes, keep_until, is_there), ReplyTo::new(&Arc::new(telling), index))
        };
        early.extend(node.submit(job, reply_to, now));
    }
    deliver(early);
    asked
}

/// Asks these nodes to delete the keys of a claim that passes to another client elsewhere. The two moments are
/// those of its [`CleanUp`]. The lock stays taken: no turn is given.
pub(crate) fn delete_left_behind(
    nodes: &Nodes,
    which: &[usize],
    claim: &Arc<Claim>,
    (since, until): (Moment, Moment),
) {
    let (now, round) = (nodes.clock.now(), Round::new(&nodes.names, Tally::is_complete));
    let keep_until = Moment::ORIGIN;
    let clean_up = CleanUp { since, until, keep_until, may_be_there: true, repeated: false };
    let job = Job::cleaning(claim, Action::Release { wakes: KeySet::NONE }, clean_up);
    let asked = which.iter().filter_map(|index| Some((*index, nodes.get(*index)?)));
    let early = asked
        .flat_map(|(index, node)| node.submit(Arc::clone(&job), ReplyTo::new(&round, index), now));
    deliver(early.collect());
}

/// Whether the keys of an attempt kept other clients from what it asked for: then their release gives the turn.
///
/// A quorum had them, or it was an attempt at a permit that was cancelled. No waiter for permits watches them: one node has
/// told each waiter that this permit is taken.
pub(crate) fn was_in_the_way(is_for_permit: bool, tally: &Tally) -> bool {
    tally.reached() || is_for_permit && !tally.is_decided()
}

/// The job that deletes the keys, or shortens them to what is left until `keep_until`.
fn clean_up(lease: &LeaseState, wakes: KeySet, keep_until: Moment, may_be_there: bool) -> Arc<Job> {
    let (since, until) = (lease.since, lease.expired_by);
    let clean_up = CleanUp { since, until, keep_until, may_be_there, repeated: false };
    Job::cleaning(&lease.claim, Action::Release { wakes }, clean_up)
}

/// Where the keys of a lease may be.
struct Whereabouts<'l> {
    lease: &'l LeaseState,
    nodes: &'l [NodeHandle],
    effects: SmallVec<[Effect; 5]>,
}

impl<'l> Whereabouts<'l> {
    fn of(lease: &'l LeaseState, nodes: &'l [NodeHandle]) -> Self {
        Self { lease, nodes, effects: lease.set_round.effects() }
    }

    fn may_include(&self, index: usize) -> bool {
        self.may_be_set(index)
            || self.lease.confirmed_round.has_yes(index)
            || self.nodes.get(index).is_some_and(|node| self.may_include_a_twin_of(node))
    }

    fn may_be_set(&self, index: usize) -> bool {
        self.effects.get(index).is_some_and(|it| *it != Effect::None)
    }

    /// Whether the server of this node may have the keys under another name, which may be out of reach by now (rule 16).
    fn may_include_a_twin_of(&self, node: &NodeHandle) -> bool {
        let mut others = (0..).zip(self.nodes);
        others.any(|(index, other)| self.may_be_set(index) && node.is_twin_of(other))
    }
}

/// The nodes that keep the queues before the keys of a claim.
struct QueueNodes {
    first: Option<usize>,
    /// Empty unless the claim is a set.
    rest: Vec<Option<usize>>,
}

impl QueueNodes {
    fn of(nodes: &[NodeHandle], claim: Option<&Arc<Claim>>) -> Self {
        let Some(claim) = claim else { return Self { first: None, rest: Vec::new() } };
        let rest = claim.rest.iter().map(|key| queue_node(nodes, key)).collect();
        Self { first: queue_node(nodes, &claim.key), rest }
    }

    /// The places of the keys whose queues this node keeps.
    fn kept_by(&self, index: usize) -> KeySet {
        let mut places = KeySet::first(self.first == Some(index));
        for (place, node) in (1..).zip(&self.rest) {
            if *node == Some(index) {
                places.add(place);
            }
        }
        places
    }
}

/// The keys of a claim at these places.
fn kept(claim: &Claim, places: KeySet) -> impl Iterator<Item = (usize, &Arc<str>)> {
    claim.keys().enumerate().filter(move |(place, _)| places.has(*place))
}

/// The name of the queue before a key.
fn queue_name(key: &Arc<str>) -> Arc<str> {
    let queue_name = queue_keys::queue_name(key);
    if queue_name.len() == key.len() { Arc::clone(key) } else { queue_name.into() }
}

/// Learns from a node that keeps queues whether other clients wait there.
struct Telling {
    round: Arc<Round>,
    queues: Arc<Queues>,
    claim: Arc<Claim>,
    /// The keys whose queues the node keeps.
    wakes: KeySet,
    /// When the lock was released.
    now: Moment,
    /// The node may have the keys, too.
    may_be_there: bool,
}

impl ReplySink for Telling {
    fn receive(self: Arc<Self>, node: usize, result: Result<Reply, NodeError>) {
        let Self { round, queues, claim, wakes, now, may_be_there } = &*self;
        for (place, key) in kept(claim, *wakes) {
            match &result {
                Ok(Reply::Woke { told, .. }) if told.gives_turn(place) => {
                    // The waiter that was woken has this long to take the lock.
                    queues.others_wait(
                        &queue_name(key),
                        *now,
                        *now + grace(queues.nodes().round_trip()),
                    );
                }
                // They wait, and the node has given none of them a turn.
                Ok(Reply::Unwoken { .. }) => queues.others_wait(&queue_name(key), *now, *now),
                Ok(Reply::Woke { .. } | Reply::Done | Reply::Missing) => {
                    queues.no_client_waits(&queue_name(key), *now);
                }
                _ => {}
            }
        }
        // A node that was asked for its queue alone counts as one that is not asked, whatever becomes of that.
        let result = if *may_be_there { result } else { result.or(Ok(Reply::Missing)) };
        Arc::clone(round).receive(node, result);
    }

    fn names(&self) -> &[Arc<str>] {
        self.round.names()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering::SeqCst},
        time::Duration,
    };

    use super::*;
    use crate::{
        MemoryNode, Redlock,
        client::Client,
        error::NodeErrorKind,
        node::{
            Told,
            intercepted::{answering, intercepted, without_run_id},
        },
        quorum::names,
        sync::Mutex,
    };

    /// A waiter that is woken asks all nodes, and none of them must have the key by then.
    #[tokio::test(start_paused = true)]
    async fn the_queue_node_is_the_last_to_hear_of_a_release() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let nodes = [0, 1, 2].map(|index| {
            let heard = Arc::clone(&heard);
            intercepted(&format!("node-{index}"), move |sender, _, commands| {
                if commands.iter().any(|it| matches!(it.action, Action::Release { .. })) {
                    heard.lock().push(index);
                }
                sender.send(commands)
            })
        });
        let redlock = Redlock::builder().over(nodes.to_vec());
        for resource in 0..9 {
            redlock.lock(resource.to_string()).await.unwrap().release().await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
            let key = format!("redlock:{resource}");
            let heard = std::mem::take(&mut *heard.lock());
            assert_eq!(heard.len(), 3);
            assert_eq!(heard.last().copied(), queue_node(&redlock.client().nodes, &key), "{key}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_release_of_a_lock_that_has_gone_tells_too_that_no_client_waits() {
        let nodes = [(); 3].map(|()| MemoryNode::new());
        let redlock = Redlock::builder().nodes(&nodes).build().unwrap();
        let guard = redlock.lock("r").await.unwrap();
        let Client { queues, nodes: all, .. } = &**redlock.client();
        let key = Arc::clone(&guard.hold().claim().key);
        let now = all.clock.now();
        queues.others_wait(&key, now, now);
        nodes.iter().for_each(|node| assert!(node.remove(&key)));
        drop(guard);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!queues.is_contended(&key, all.clock.now()));
    }

    /// They tell no process, which makes them no names of one server.
    #[tokio::test(start_paused = true)]
    async fn a_node_that_refused_the_lock_and_tells_no_run_id_is_not_asked_to_delete_it() {
        let nodes = [(); 3].map(|()| MemoryNode::new());
        let other = Redlock::builder().nodes(&nodes[2..]).build().unwrap();
        let _theirs = other.lock("r").await.unwrap();
        let redlock =
            Redlock::builder().over(nodes.iter().map(|it| without_run_id(it.spec())).collect());
        let guard = redlock.lock("r").await.unwrap();
        let lease = guard.hold().begin_release().unwrap();
        let Client { queues, nodes: all, .. } = &**redlock.client();
        let now = all.clock.now();
        let round = Round::new(&all.names, Tally::is_complete);
        assert_eq!(delete(queues, &lease, Moment::ORIGIN, now, &round), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_that_keeps_the_key_says_nothing_of_the_clients_that_wait() {
        let redlock = Redlock::in_memory(3);
        let guard = redlock.lock("r").min_hold(Duration::from_secs(1)).await.unwrap();
        let Client { queues, nodes: all, .. } = &**redlock.client();
        let key = Arc::clone(&guard.hold().claim().key);
        let now = all.clock.now();
        queues.others_wait(&key, now, now);
        guard.release().await.unwrap();
        assert!(queues.is_contended(&key, all.clock.now()));
        assert_eq!(queues.turn_of_others(&key, all.clock.now()), None, "none can use it yet");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(!queues.is_contended(&key, all.clock.now()), "a node has said so");
    }

    /// The other deletes of the release are sent as one job, and its own apart from them.
    #[tokio::test(start_paused = true)]
    async fn a_delete_that_the_queue_node_refuses_is_repeated() {
        let refuses = Arc::new(AtomicBool::new(false));
        let nodes = [(); 3].map(|()| MemoryNode::new());
        let specs = nodes.iter().map(|node| {
            let busy = NodeError::new(&node.name().into(), NodeErrorKind::Server, "LOADING");
            let releases = |action| matches!(action, Action::Release { .. });
            answering(node.name(), node, &refuses, releases, Err(busy))
        });
        let redlock = Redlock::builder().over(specs.collect());
        let guard = redlock.lock("r").await.unwrap();
        refuses.store(true, SeqCst);
        drop(guard);
        tokio::time::sleep(Duration::from_millis(10)).await;
        refuses.store(false, SeqCst);
        tokio::time::sleep(Duration::from_secs(5)).await;
        nodes.iter().for_each(|node| assert_eq!(node.keys(), [""; 0]));
    }

    fn telling(round: &Arc<Round>, queues: &Arc<Queues>) -> Arc<Telling> {
        Arc::new(Telling {
            round: Arc::clone(round),
            queues: Arc::clone(queues),
            claim: Arc::new(Claim::new(&"k".into(), "v".to_owned())),
            wakes: KeySet::FIRST,
            now: Moment::ORIGIN,
            may_be_there: true,
        })
    }

    /// The client takes the lock again at once, and would never let them in.
    #[tokio::test]
    async fn clients_that_wait_and_were_not_woken_are_let_in_the_next_time() {
        for deleted in [true, false] {
            let queues = Arc::clone(&Redlock::in_memory(1).client().queues);
            let round = Round::new(&names(1), Tally::is_answered_or_failed);
            let unwoken = Reply::Unwoken { deleted, told: Told::default() };
            telling(&round, &queues).receive(0, Ok(unwoken));
            assert!(queues.is_contended("k", Moment::ORIGIN));
            assert_eq!(queues.turn_of_others("k", Moment::ORIGIN), None, "no turn was given");
            assert_eq!(round.tally().yes(), usize::from(deleted));
        }
    }

    #[tokio::test]
    async fn an_answer_that_never_comes_from_the_node_of_a_queue_is_an_error_of_that_node() {
        let round = Round::new(&names(2), Tally::is_answered_or_failed);
        let queues = Arc::clone(&Redlock::in_memory(1).client().queues);
        drop(ReplyTo::new(&telling(&round, &queues), 1));
        assert_eq!(&*round.failures()[0].node, "a:1");
    }

    /// The release would say that the lock was held until then, or that there is no quorum.
    #[tokio::test]
    async fn a_node_that_is_asked_for_its_queue_alone_has_no_failed_vote() {
        let round = Round::new(&names(2), Tally::is_answered_or_failed);
        let queues = Arc::clone(&Redlock::in_memory(1).client().queues);
        let telling = Arc::into_inner(telling(&round, &queues)).unwrap();
        drop(ReplyTo::new(&Arc::new(Telling { may_be_there: false, ..telling }), 1));
        assert_eq!(round.failures(), []);
        assert_eq!((round.tally().yes(), round.tally().no()), (0, 1));
    }
}
