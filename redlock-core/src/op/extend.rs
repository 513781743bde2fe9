//! Renewing a lock. The outcome is renewed, lost or unknown, and only time turns unknown into lost
//! (rule 7). Keys that are missing on a minority of nodes are set again (rule 8).

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;

use crate::{
    bug::{Bug, planted},
    client::check_runtime,
    error::LockError,
    lease::{End, Hold, Judgement, Room, Start},
    node::{Action, Job, deliver},
    op::release,
    quorum::{OnSettled, Round, Tally, ask, ask_one, quorum},
};

/// The renewal has worked, has failed, or its outcome can no longer be known.
fn settles(tally: &Tally) -> bool {
    reached(tally) || tally.impossible_by_refusals() || tally.undecidable()
}

/// Counts over all nodes, never over the nodes that granted the lock:
/// [`Bug::ExtendOverAcquiredOnly`].
fn reached(tally: &Tally) -> bool {
    tally.reached() || (planted(Bug::ExtendOverAcquiredOnly) && tally.yes() > 1)
}

/// Sends a renewal with the hold's own ttl, unless the hold has ended, and does not wait. The
/// deciding vote applies the outcome and gives `room` back, so that renewing needs no task.
pub(crate) fn renew(hold: &Arc<Hold>, room: Option<Room>) {
    // The nodes' tasks may have ended with a runtime that is not the scheduler's (rule 13).
    hold.client.ensure_running();
    let start = hold.client.registry.start(&*hold.client.clock);
    let _ = send(hold, start, None, room);
}

/// Extends, and waits for the outcome.
pub(crate) async fn extend(hold: &Arc<Hold>, ttl: Duration) -> Result<(), LockError> {
    hold.client.settings.check_ttl("the ttl to extend by", ttl)?;
    if let Judgement::Ended(end) = hold.judge() {
        return Err(hold.lost_error(end));
    }
    hold.client.ready().await?;
    let start = hold.client.registry.start(&*hold.client.clock);
    let started = start.reading;
    let Some(round) = send(hold, start, Some(ttl), None) else {
        let end = match hold.judge() {
            Judgement::Ended(end) => end,
            Judgement::Valid(_) | Judgement::Doubtful => End::Released,
        };
        return Err(hold.lost_error(end));
    };
    let tally = round.settled(&hold.client.nodes, hold.client.give_up_after()).await;
    if let Judgement::Ended(end) = hold.judge() {
        return Err(hold.lost_error(end));
    }
    if tally.reached() {
        return Ok(());
    }
    check_runtime()?;
    Err(LockError::NoQuorum {
        resource: hold.resource.clone(),
        attempts: 1,
        waited: hold.client.clock.now().since(started.now),
        granted: tally.yes(),
        quorum: quorum(hold.client.nodes.len()),
        nodes: round.failures(),
    })
}

/// Asks all nodes, or none when the hold has ended. The jobs are handed over under the lock under
/// which a hold ends, so that every node gets the extend before the release (rule 10).
fn send(
    hold: &Arc<Hold>,
    start: Start,
    asked: Option<Duration>,
    room: Option<Room>,
) -> Option<Arc<Round>> {
    let started = start.reading;
    let (early, round, look_again) = {
        let mut state = hold.state.lock();
        if !state.may_be_renewed() && !planted(Bug::RenewalOutlivesRelease) {
            return None;
        }
        let ttl = asked.unwrap_or(state.renewal_ttl());
        let room = Mutex::new(room);
        let renewal = Renewal { hold: Arc::downgrade(hold), start, ttl, asked, room };
        let round = Round::with_on_settled(hold.client.nodes.len(), settles, renewal);
        // An extension never shortens what is left of `min_hold` (api.md).
        let key_ttl = ttl.max(hold.earliest.since(started.now));
        let job = Job::new(&state.lease.claim, Action::Extend { ttl: key_ttl });
        let expected = state.expected();
        let look_again = state.renewal_sent(started.now, key_ttl);
        let job = |node: usize| {
            let expected = Some(expected).filter(|_| state.lease.confirmed_round.has_yes(node));
            Some(Job { expected, ..job.clone() })
        };
        (ask(&hold.client.nodes, &round, started.now, job), round, look_again)
    };
    if let Some(at) = look_again {
        hold.client.registry.schedule(hold.id, at);
    }
    deliver(early);
    Some(round)
}

/// Applies the votes on a renewal to its hold.
struct Renewal {
    hold: Weak<Hold>,
    start: Start,
    ttl: Duration,
    /// The ttl that the holder asked for: later renewals keep it.
    asked: Option<Duration>,
    /// The place among the renewals that are in progress at once.
    room: Mutex<Option<Room>>,
}

impl OnSettled for Renewal {
    fn settled(&self, round: &Arc<Round>, tally: Tally) {
        // The place is given back once the outcome is applied.
        let _room = self.room.lock().take();
        let Some(hold) = self.hold.upgrade() else { return };
        if reached(&tally) {
            let in_time = hold.renewed(&self.start, self.ttl, self.asked, Arc::clone(round));
            hold.metered().renewal(if in_time { "renewed" } else { "late" });
            heal(&hold, round);
        } else if tally.impossible_by_refusals() {
            hold.metered().renewal("refused");
            hold.refused();
        } else {
            hold.metered().renewal("unknown");
        }
        if planted(Bug::ExtendDeletesOnFailure) && !tally.reached() {
            release::delete_everywhere(&hold);
        }
        if planted(Bug::ResurrectWithoutQuorum) && !tally.reached() {
            hold.renewed(&self.start, self.ttl, self.asked, Arc::clone(round));
            heal(&hold, round);
        }
    }

    fn late(&self, round: &Arc<Round>) {
        if let Some(hold) = self.hold.upgrade() {
            heal(&hold, round);
        }
    }
}

/// Sets the key again where this renewal found it missing, once a quorum has confirmed the same
/// renewal and for no longer than there (rule 8). Without this, nodes that restart one after the
/// other wear a held lock away.
fn heal(hold: &Arc<Hold>, round: &Arc<Round>) {
    let now = hold.client.clock.now();
    let mut early = Vec::new();
    {
        // Under the lock of the hold: every node gets the heal before the release (rule 10).
        let state = hold.state.lock();
        let confirmed = Arc::ptr_eq(&state.lease.confirmed_round, round);
        let until = state.expected().until.max(state.lease.deadline).max(hold.earliest);
        let ttl = until.since(now);
        if !state.may_be_renewed() || !confirmed || ttl.is_zero() {
            return;
        }
        let job = Job::new(&state.lease.claim, Action::Heal { ttl });
        for node in round.take_missing() {
            // A heal counts as a `SET`: the release has to go to this node (rule 5).
            if !planted(Bug::HealWithoutCleanUp) {
                state.lease.set_round.set_again(node);
            }
            early.extend(ask_one(&hold.client.nodes, round, node, job.clone()));
        }
    }
    deliver(early);
}
