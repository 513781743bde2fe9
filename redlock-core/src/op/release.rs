//! Releasing a lock: compare-and-delete wherever the key may be, until the delete is confirmed or
//! the key has expired (rules 5, 11 and 12).

use std::{collections::VecDeque, sync::Arc, vec};

use crate::{
    bug::{Bug, planted},
    client::{Client, check_runtime},
    clock::Moment,
    error::{LockError, LostReason, NodeError},
    guard::Released,
    lease::{End, Hold, Judgement, LeaseState},
    node::{Action, CleanUp, Job, Reply, ReplySink, ReplyTo, deliver},
    quorum::{Round, Tally, ask, quorum},
    wait::{grace, queue_node},
};

/// The most deletes of a mass release in progress at once: as many as a node answers at once, and
/// as many again that are waiting there when it has answered.
const MAX_IN_FLIGHT: usize = 1024;

/// A quorum has answered, or so many failed that none will.
fn settles(tally: &Tally) -> bool {
    tally.answered() || tally.impossible_by_failures()
}

/// Releases the lock and waits for a quorum to confirm.
pub(crate) async fn release(hold: &Arc<Hold>) -> Result<Released, LockError> {
    let Sent { round, asked, judged, started } = match begin_release(hold, settles) {
        Begun::Sent(sent) => sent,
        Begun::PassedOn => return Ok(Released::Ours),
        Begun::Before => return Ok(Released::AlreadyLost),
    };
    let tally = round.settled(&hold.client.nodes, hold.client.give_up_after()).await;
    let nodes = hold.client.nodes.len();
    if !tally.answered() {
        check_runtime()?;
        return Err(LockError::NoQuorum {
            resource: hold.resource.clone(),
            attempts: 1,
            waited: hold.client.clock.now().since(started),
            granted: tally.yes(),
            quorum: quorum(nodes),
            nodes: round.failures(),
        });
    }
    // Nodes that were not asked have no key of this hold, and count among the refusals.
    let not_ours = tally.no().saturating_sub(nodes - asked);
    let was_ours = match judged {
        Judgement::Valid(_) => asked.saturating_sub(not_ours) >= quorum(nodes),
        // No other client can have had the lock meanwhile: a quorum still had this key.
        Judgement::Doubtful => tally.yes() >= quorum(nodes),
        Judgement::Ended(_) => false,
    };
    Ok(if was_ours { Released::Ours } else { Released::AlreadyLost })
}

/// Releases the lock without waiting: the nodes' own tasks finish the deletes.
pub(crate) fn in_background(hold: &Arc<Hold>) {
    if hold.state.lock().has_begun_release() {
        return;
    }
    hold.client.ensure_running();
    let _ = begin_release(hold, settles);
}

/// The outcome of a release.
enum Begun {
    /// The nodes are being asked to delete the key.
    Sent(Sent),
    /// The next waiter in the queue has the lease.
    PassedOn,
    /// The lock was released before.
    Before,
}

struct Sent {
    round: Arc<Round>,
    asked: usize,
    judged: Judgement,
    started: Moment,
}

/// Ends the hold. Its lease is passed on, or every node that may have the key is asked once to
/// delete it. The round over the deletes is settled when `settles` says so.
fn begin_release(hold: &Arc<Hold>, settles: fn(&Tally) -> bool) -> Begun {
    let (judged, reading) = hold.judge_now();
    let now = reading.now;
    if !planted(Bug::OldHandleStaysValid) {
        hold.end(End::Released);
    }
    let (confirmed, key) = {
        let mut state = hold.state.lock();
        if !state.begin_release() {
            return Begun::Before;
        }
        if planted(Bug::HandOverUnconfirmed) {
            // Pretends that the last renewal was confirmed.
            (state.lease.deadline, state.lease.confirmed.now) =
                (state.lease.expired_by, state.lease.renewal_sent);
        }
        let confirmed = state.lease.renewal_sent <= state.lease.confirmed.now;
        (confirmed, Arc::clone(&state.lease.claim.key))
    };
    let Hold { client, id, .. } = &**hold;
    let gone = || {
        if !planted(Bug::RenewalOutlivesRelease) {
            client.registry.remove(*id);
        }
    };
    // A lease that is in doubt, that has an unanswered renewal or whose `min_hold` runs is not
    // passed on.
    let passable = matches!(judged, Judgement::Valid(_)) && confirmed && hold.earliest <= now;
    if passable && client.queues.hand_over(hold, &key, reading) {
        gone();
        return Begun::PassedOn;
    }
    if planted(Bug::OldHandleStaysValid) {
        hold.end(End::Released);
    }
    let lease = hold.state.lock().lease.clone();
    // A `min_hold` that is not over keeps the key for the rest, whatever ended the hold.
    let keep_until = Some(hold.earliest).filter(|earliest| *earliest > now);
    let (round, asked) = delete(client, &lease, keep_until, now, settles);
    // After the deletes were handed over: a shutdown that no longer finds the hold finds its
    // deletes.
    gone();
    // After the deletes, too: the next waiter asks behind them.
    client.queues.holder_gone(client, &lease.claim.key, *id, now);
    Begun::Sent(Sent { round, asked, judged, started: now })
}

/// Gives back a lease that is not held, or what an attempt has left. The deletes follow the `SET`s
/// of the attempt, and the caller does not wait for them (rule 5).
pub(crate) fn give_back(client: &Arc<Client>, lease: &LeaseState) {
    client.ensure_running();
    delete(client, lease, None, client.clock.now(), settles);
}

/// Asks every node that may have the key to delete it, and returns how many those are. The node
/// that keeps the queue also gives the next waiter its turn.
fn delete(
    client: &Arc<Client>,
    lease: &LeaseState,
    keep_until: Option<Moment>,
    now: Moment,
    settles: fn(&Tally) -> bool,
) -> (Arc<Round>, usize) {
    let nodes = &client.nodes;
    let round = Round::new(nodes.len(), settles);
    let key = &lease.claim.key;
    // A lease that no quorum granted kept no other client from the lock.
    let was_held = lease.confirmed_round.yes() >= quorum(nodes.len());
    let queue_node = if was_held { queue_node(client, key) } else { None };
    let mut early = Vec::new();
    let mut asked = 0;
    // The node of the queue is asked last. A waiter that it wakes asks all nodes, and would find
    // the key on a node that has not heard of the release.
    let others = (0..nodes.len()).filter(|index| Some(*index) != queue_node);
    for index in others.chain(queue_node) {
        let Some(node) = nodes.get(index) else { continue };
        let wakes = queue_node == Some(index);
        let is_there = lease.set_round.may_have_happened(index);
        if !is_there && !wakes {
            early.push((ReplyTo::new(&round, index, node.name()), Ok(Reply::Missing)));
            continue;
        }
        asked += usize::from(is_there);
        let clean_up = CleanUp {
            since: lease.since,
            until: lease.expired_by,
            keep_until,
            repeated: false,
            may_be_unsent: is_there && !lease.set_round.has_yes(index),
        };
        let action = Action::Release { wakes };
        let job = Job { clean_up: Some(clean_up), ..Job::new(&lease.claim, action) };
        let reply_to = if wakes {
            client.queues.released(key, now, || now + grace(client.round_trip()));
            let (round, client) = (Arc::clone(&round), Arc::clone(client));
            let telling = Telling { round, client, key: Arc::clone(key), now };
            ReplyTo::new(&Arc::new(telling), index, node.name())
        } else {
            ReplyTo::new(&round, index, node.name())
        };
        early.extend(node.submit(job, reply_to, now));
    }
    deliver(early);
    (round, asked)
}

/// Learns from the node that keeps the queue whether other clients wait.
struct Telling {
    round: Arc<Round>,
    client: Arc<Client>,
    key: Arc<str>,
    /// When the lock was let go of.
    now: Moment,
}

impl ReplySink for Telling {
    fn receive(self: Arc<Self>, node: usize, result: Result<Reply, NodeError>) {
        let Self { round, client, key, now } = &*self;
        match result {
            // The waiter that was woken has so long to take the lock.
            Ok(Reply::Woke { .. }) => {
                client.queues.others_wait(key, *now, *now + grace(client.round_trip()));
            }
            Ok(Reply::Done | Reply::Missing) => client.queues.nobody_waits(key, *now),
            _ => {}
        }
        Arc::clone(round).receive(node, result);
    }
}

/// Deletes the keys of a hold that has not ended. Neither a failed extension nor a shutdown may do
/// this: [`Bug::ExtendDeletesOnFailure`], [`Bug::ShutdownReleasesFirst`].
pub(crate) fn delete_everywhere(hold: &Hold) {
    let round = Round::new(hold.client.nodes.len(), settles);
    let claim = Arc::clone(&hold.state.lock().lease.claim);
    let job = Job::new(&claim, Action::Release { wakes: false });
    let now = hold.client.clock.now();
    deliver(ask(&hold.client.nodes, &round, now, |_| Some(job.clone())));
}

/// Ends every hold of the client. Bodies release their own holds. The returned holds are those of
/// bare guards, which have not released.
pub(crate) fn end_all(client: &Client) -> EndedGuards {
    let mut ended = client.registry.all();
    for hold in &ended {
        hold.end(End::Lost(LostReason::Shutdown));
    }
    ended.retain(|hold| !hold.is_body());
    EndedGuards { rest: ended.into_iter(), in_flight: VecDeque::new() }
}

/// Holds of bare guards that were ended, and whose keys have to be deleted as well. Dropping this
/// deletes the rest at once.
#[must_use = "their keys go at once when this is dropped"]
pub(crate) struct EndedGuards {
    rest: vec::IntoIter<Arc<Hold>>,
    in_flight: VecDeque<Arc<Round>>,
}

impl EndedGuards {
    /// Deletes the keys, [`MAX_IN_FLIGHT`] at once: more deletes than a node can take would wait
    /// there until they are too late to be sent. The slowest node that answers sets the pace.
    pub(crate) async fn release(mut self, client: &Client) {
        for hold in self.rest.by_ref() {
            if let Begun::Sent(Sent { round, .. }) = begin_release(&hold, Tally::is_complete) {
                self.in_flight.push_back(round);
            }
            if self.in_flight.len() >= MAX_IN_FLIGHT
                && let Some(first) = self.in_flight.pop_front()
            {
                first.settled(&client.nodes, client.give_up_after()).await;
            }
        }
    }

    /// Leaves the keys: they are deleted when the guards are dropped, or expire.
    pub(crate) fn keep(mut self) {
        self.rest = Vec::new().into_iter();
    }
}

impl Drop for EndedGuards {
    fn drop(&mut self) {
        for hold in self.rest.by_ref() {
            let _ = begin_release(&hold, settles);
        }
    }
}
