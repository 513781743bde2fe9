//! Renewing a lock: renewed, lost or unknown, and only time turns unknown into lost (rule 7).

use std::{sync::Arc, time::Duration};

use crate::{
    clock::Reading,
    error::LockError,
    lease::{End, Hold, Judgement},
    node::{Action, Job},
    quorum::{Round, Tally, ask, cast_all, quorum},
};

/// A renewal is known to have worked, is known to have failed, or never will be known.
fn settles(tally: &Tally) -> bool {
    tally.reached() || tally.impossible_by_refusals() || tally.undecidable()
}

/// Sends a renewal with the hold's own ttl and waits for nothing: whoever casts the deciding
/// vote applies the outcome, so that renewing needs no task.
pub(crate) fn renew(hold: &Arc<Hold>, started: Reading) {
    let ttl = hold.state.lock().ttl;
    send(hold, started, ttl);
}

/// Extends for a caller who wants to know.
pub(crate) async fn extend(hold: &Arc<Hold>, ttl: Duration) -> Result<(), LockError> {
    hold.client.settings.check_ttl("the ttl to extend by", ttl)?;
    if let Judgement::Ended(end) = hold.judge() {
        return Err(hold.lost_error(end));
    }
    hold.client.ready().await?;
    let started = hold.client.clock.read();
    let Some(round) = send(hold, started, ttl) else {
        return Err(hold.lost_error(End::Released));
    };
    let tally = round.settled(hold.client.patience()).await;
    if let Judgement::Ended(end) = hold.judge() {
        return Err(hold.lost_error(end));
    }
    if tally.reached() {
        return Ok(());
    }
    Err(LockError::NoQuorum {
        resource: hold.resource.clone(),
        attempts: 1,
        waited: hold.client.clock.now().since(started.now),
        granted: tally.yes(),
        quorum: quorum(hold.client.nodes.len()),
        nodes: round.failures(),
    })
}

/// Asks all nodes, or answers none when the hold has ended: under the lock under which it ends,
/// so that on every node an extend is ahead of the release (rule 10).
fn send(hold: &Arc<Hold>, started: Reading, ttl: Duration) -> Option<Arc<Round>> {
    let (uncast, round) = {
        let state = hold.state.lock();
        if state.ended.is_some() || state.let_go {
            return None;
        }
        let round = Round::then(hold.client.nodes.len(), settles, {
            let hold = Arc::downgrade(hold);
            move |round, tally| {
                let Some(hold) = hold.upgrade() else { return };
                if tally.reached() {
                    hold.renewed(started, ttl, Arc::clone(round));
                } else if tally.impossible_by_refusals() {
                    hold.refused();
                }
            }
        });
        // What is left of `min_hold` is never cut (api.md).
        let key_ttl = ttl.max(hold.earliest.since(started.now));
        let job = Job {
            claim: Arc::clone(&state.lease.claim),
            action: Action::Extend { ttl: key_ttl },
            clean_up: None,
        };
        (ask(&hold.client.nodes, &round, |_| Some(job.clone())), round)
    };
    cast_all(uncast);
    Some(round)
}
