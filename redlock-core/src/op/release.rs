//! Releasing a lock: the hold ends, and its lease is passed on or its keys are deleted (rules 5, 11
//! and 12).

use std::{collections::VecDeque, sync::Arc, time::Duration, vec};

use super::{no_quorum::no_quorum, unheard::Unheard};
use crate::{
    client::Client,
    clock::Moment,
    error::{LockError, LostReason},
    lease::{End, Hold, Judgement, LeaseState},
    quorum::{Nodes, Round, Tally, quorum},
    telemetry,
    wait::delete,
};

/// The most deletes of a mass release in progress at once: as many as a node answers at once, and
/// as many again that are waiting there when it has answered.
const MAX_IN_FLIGHT: usize = 1024;

/// The outcome of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// As far as the nodes that answered know, the lock was held until the release.
    Ours,
    /// The lock was lost before: the work may have overlapped with the work of another holder.
    AlreadyLost,
}

/// Releases the lock and waits for a quorum to confirm.
pub(crate) async fn release(client: &Arc<Client>, hold: &Arc<Hold>) -> Result<Released, LockError> {
    let Sent { mut round, asked, judged, ended, started, lease } =
        match begin_release(client, hold, Until::Known) {
            Begun::Sent(sent) => sent,
            Begun::PassedOn => return Ok(Released::Ours),
            Begun::Before => return Ok(Released::AlreadyLost),
        };
    let nodes = &client.nodes;
    let mut tally = round.settled(nodes).await;
    let mut was_ours = was_ours(judged, asked, &tally, nodes.len());
    let mut unheard = Unheard::new(client);
    while !tally.answered() {
        if unheard.asks_again(&round.failures(), Duration::MAX).await {
            round = Until::Known.round(nodes, &lease, judged);
            delete(&client.queues, &lease, hold.earliest, nodes.clock.now(), &round);
            tally = round.settled(nodes).await;
            // A node that has run the first delete finds nothing now. A lease that was valid was ours all the same. A
            // lease that was in doubt was ours only if a quorum still had its keys.
            was_ours |= judged == Judgement::Doubtful && tally.yes() >= nodes.quorum();
            continue;
        }
        let resource = hold.resources.name();
        return Err(no_quorum(nodes, resource, 1, started, tally.yes(), round.failures()));
    }
    if was_ours {
        return Ok(Released::Ours);
    }
    if ended {
        // Nothing else has told of this loss. The result of a body stays what it is (rule 11).
        hold.metered.lost(LostReason::Refused);
        telemetry::lost(hold.resources.name(), LostReason::Refused);
    }
    Ok(Released::AlreadyLost)
}

/// Releases the lock without waiting: the nodes' own tasks finish the deletes.
pub(crate) fn in_background(client: &Arc<Client>, hold: &Arc<Hold>) {
    if hold.has_begun_release() {
        return;
    }
    client.ensure_running();
    let _ = begin_release(client, hold, Until::Known);
}

/// Whether the lock was held until its release. A hold that was `judged` held was released, `asked`
/// of all `nodes` were asked to delete its key, and a quorum has answered. Pure.
fn was_ours(judged: Judgement, asked: usize, tally: &Tally, nodes: usize) -> bool {
    match judged {
        Judgement::Valid(_) => {
            // Nodes that were not asked for the key do not have it, and count among the refusals.
            let not_ours = tally.no().saturating_sub(nodes - asked);
            asked.saturating_sub(not_ours) >= quorum(nodes)
        }
        // No other client can have had the lock meanwhile: a quorum still had this key.
        Judgement::Doubtful => tally.yes() >= quorum(nodes),
        Judgement::Ended(_) => false,
    }
}

/// Whether the lease of a hold that was `judged` at `now` may pass to the next waiter as it is. A
/// `min_hold` that runs until a later `earliest` keeps the keys from all clients, whatever ended the
/// hold. Pure.
fn may_pass_on(judged: Judgement, lease: &LeaseState, earliest: Moment, now: Moment) -> bool {
    let is_valid = matches!(judged, Judgement::Valid(_));
    // Without an answer to the last renewal, the state of the nodes is unknown.
    let is_confirmed = lease.renewal_sent <= lease.confirmed;
    is_valid && is_confirmed && earliest <= now
}

/// When the round over the deletes of a release is settled.
#[derive(Debug, Clone, Copy)]
enum Until {
    /// The outcome is known, or cannot be.
    Known,
    /// Every node has answered or failed.
    Complete,
}

impl Until {
    /// The round over the deletes of a hold that was `judged`.
    fn round(self, nodes: &Nodes, lease: &LeaseState, judged: Judgement) -> Arc<Round> {
        let settles = self.settles(judged);
        match judged {
            Judgement::Doubtful => {
                Round::in_doubt(&nodes.names, settles, lease.confirmed_round.voters())
            }
            Judgement::Valid(_) | Judgement::Ended(_) => Round::new(&nodes.names, settles),
        }
    }

    /// What settles the round for a hold that was `judged`.
    fn settles(self, judged: Judgement) -> fn(&Tally) -> bool {
        match (self, judged) {
            (Self::Complete, _) => Tally::is_complete,
            // A node that never had the key may answer first, with `Missing`. That says nothing of the doubt, so the
            // round waits until a quorum has said yes or cannot.
            (Self::Known, Judgement::Doubtful) => Tally::is_confirmed_or_known,
            // A node that has lost the key may answer last. If the round settled before, a loss on a quorum would go
            // unnoticed, although another client may have had the lock.
            (Self::Known, Judgement::Valid(_)) => Tally::is_conclusive_and_answered,
            (Self::Known, Judgement::Ended(_)) => Tally::is_answered_or_failed,
        }
    }
}

/// The step that a release has begun.
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
    /// The hold had not ended before.
    ended: bool,
    started: Moment,
    lease: LeaseState,
}

/// Ends the hold. Its lease is passed on, or every node that may have the key is asked once to
/// delete it.
fn begin_release(client: &Arc<Client>, hold: &Arc<Hold>, until: Until) -> Begun {
    let Client { leases, queues, nodes, .. } = &**client;
    let (judged, reading) = leases.judge_now(hold);
    let now = reading.now;
    let ended = leases.end(hold, End::Released);
    let Some(lease) = hold.begin_release() else { return Begun::Before };
    if !matches!(judged, Judgement::Ended(_)) {
        telemetry::released(hold.resources.name(), now.since(hold.since));
    }
    if may_pass_on(judged, &lease, hold.earliest, now) && queues.hand_over(hold.id, &lease, reading)
    {
        client.leases.registry.remove(hold.id);
        return Begun::PassedOn;
    }
    let round = until.round(nodes, &lease, judged);
    let asked = delete(queues, &lease, hold.earliest, now, &round);
    make_way(client, hold, now);
    Begun::Sent(Sent { round, asked, judged, ended, started: now, lease })
}

/// Takes a hold that has ended out of the registry, and lets the next waiters before its keys ask.
///
/// This comes after its deletes were handed over. A shutdown that no longer finds the hold finds its deletes, and the
/// next waiter asks behind them.
pub(super) fn make_way(client: &Client, hold: &Hold, now: Moment) {
    client.leases.registry.remove(hold.id);
    for key in hold.claim().keys() {
        client.queues.pass_on(key, hold.id, now);
    }
}

/// Ends every hold of the client. Bodies release their own holds. The returned holds are those of
/// bare guards, which have not released.
pub(crate) fn end_all(client: &Arc<Client>) -> EndedGuards {
    let mut ended = client.leases.registry.all();
    for hold in &ended {
        client.leases.end(hold, End::Lost(LostReason::Shutdown));
        // Also a body whose lock was lost before, and that goes on all the same.
        hold.dismiss();
    }
    ended.retain(|hold| !hold.is_body());
    EndedGuards { client: Arc::clone(client), rest: ended.into_iter(), in_flight: VecDeque::new() }
}

/// Holds of bare guards that were ended, and whose keys have to be deleted as well. Dropping this
/// deletes the rest at once.
#[must_use = "their keys go at once when this is dropped"]
pub(crate) struct EndedGuards {
    client: Arc<Client>,
    rest: vec::IntoIter<Arc<Hold>>,
    in_flight: VecDeque<Arc<Round>>,
}

impl EndedGuards {
    /// Deletes the keys, [`MAX_IN_FLIGHT`] at once: more deletes than a node can take would wait
    /// there until they are too late to be sent. The slowest node that answers sets the pace.
    pub(crate) async fn release(mut self) {
        let client = Arc::clone(&self.client);
        for hold in self.rest.by_ref() {
            if let Begun::Sent(Sent { round, .. }) = begin_release(&client, &hold, Until::Complete)
            {
                self.in_flight.push_back(round);
            }
            if self.in_flight.len() >= MAX_IN_FLIGHT
                && let Some(first) = self.in_flight.pop_front()
            {
                first.settled(&client.nodes).await;
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
            let _ = begin_release(&self.client, &hold, Until::Known);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Redlock, quorum::Vote};

    const VALID: Judgement = Judgement::Valid(Duration::from_secs(1));
    const LOST: Judgement = Judgement::Ended(End::Lost(LostReason::Expired));

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_passed_on_only_as_good_as_a_new_one() {
        let guard = Redlock::in_memory(1).lock("r").await.unwrap();
        let lease = guard.hold().lease();
        let now = lease.since + Duration::from_secs(1);
        let (past, later) = (lease.since, now + Duration::from_secs(1));
        let unanswered = LeaseState { renewal_sent: now, ..lease.clone() };
        for (judged, lease, earliest, passes) in [
            (VALID, &lease, past, true),
            (VALID, &lease, now, true),
            (VALID, &lease, later, false),
            (VALID, &unanswered, past, false),
            (Judgement::Doubtful, &lease, past, false),
            (LOST, &lease, past, false),
            (LOST, &lease, later, false),
        ] {
            assert_eq!(may_pass_on(judged, lease, earliest, now), passes, "{judged:?}");
        }
    }

    /// More deletes than a node can take would wait there until they are too late.
    #[tokio::test(start_paused = true)]
    async fn the_slowest_node_sets_the_pace_of_a_mass_release() {
        const FAR: Duration = Duration::from_millis(10);
        let nodes = crate::testing::nodes(3);
        let redlock = Redlock::builder().nodes(&nodes).build().unwrap();
        let mut guards = Vec::new();
        for number in 0..=MAX_IN_FLIGHT {
            guards.push(redlock.lock(number.to_string()).await.unwrap());
        }
        nodes[2].slow(FAR);
        let begun = tokio::time::Instant::now();
        end_all(redlock.client()).release().await;
        assert!(begun.elapsed() >= FAR, "{:?}", begun.elapsed());
    }

    /// Another client may have had the lock on the two nodes.
    #[tokio::test(start_paused = true)]
    async fn a_release_hears_of_a_loss_whichever_node_answers_first() {
        for slow in [[0, 5, 10], [5, 0, 10], [10, 0, 5]] {
            let nodes = crate::testing::nodes(3);
            let redlock = Redlock::builder().nodes(&nodes).build().unwrap();
            let guard = redlock.lock("r").await.unwrap();
            let key = Arc::clone(&guard.hold().claim().key);
            assert!(nodes[1].remove(&key) && nodes[2].remove(&key));
            for (node, ms) in nodes.iter().zip(slow) {
                node.slow(Duration::from_millis(ms));
            }
            assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost, "{slow:?}");
        }
    }

    /// One more answer makes a quorum of answers.
    #[test]
    fn a_release_does_not_give_up_while_a_quorum_may_still_answer() {
        for judged in [VALID, Judgement::Doubtful, LOST] {
            let mut tally = Tally::of(5, 1, 1);
            tally.count(Vote::Failed);
            tally.count(Vote::Failed);
            assert!(!Until::Known.settles(judged)(&tally), "{judged:?}");
            tally.count(Vote::No);
            assert!(Until::Known.settles(judged)(&tally), "{judged:?}");
        }
    }

    #[test]
    fn a_mass_release_waits_for_every_node_whatever_was_judged() {
        for judged in [VALID, Judgement::Doubtful, LOST] {
            for (yes, is_settled) in [(1, [false; 2]), (2, [true, false]), (3, [true; 2])] {
                let tally = Tally::of(3, yes, 0);
                let settles = [Until::Known, Until::Complete].map(|it| it.settles(judged)(&tally));
                assert_eq!(settles, is_settled, "{judged:?} {yes}");
            }
        }
    }

    #[test]
    fn a_released_lock_was_ours_unless_another_client_may_have_had_it() {
        for (judged, asked, [yes, no], ours) in [
            (VALID, 5, [3, 0], true),
            (VALID, 5, [1, 2], true),
            (VALID, 5, [0, 3], false),
            // Two nodes were not asked, and count among the refusals.
            (VALID, 3, [3, 2], true),
            (VALID, 3, [2, 3], false),
            (Judgement::Doubtful, 5, [3, 2], true),
            (Judgement::Doubtful, 5, [2, 3], false),
            (LOST, 5, [5, 0], false),
        ] {
            let tally = Tally::of(5, yes, no);
            assert_eq!(was_ours(judged, asked, &tally, 5), ours, "{judged:?} {asked} {yes} {no}");
        }
    }
}
