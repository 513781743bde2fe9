//! Renewing a lease. The outcome is renewed, lost or unknown, and only time turns unknown into lost
//! (rule 7). Keys that are missing on a minority of nodes are set again (rule 8). A hold that has ended is
//! not renewed, and a renewal does not keep its hold alive (rule 10).

use std::{
    cell::LazyCell,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{End, Hold, Leases, Room};
use crate::{
    clock::Reading,
    error::LostReason,
    node::{Action, Job, deliver},
    quorum::{OnSettled, OneVote, Round, Tally, ask, ask_one},
    sync::Mutex,
};

impl Leases {
    /// Sends a renewal with the hold's own ttl, unless the hold has ended, and does not wait. The
    /// deciding vote applies the outcome and gives `room` back, so that renewing needs no task.
    pub(super) fn renew(self: &Arc<Self>, hold: &Arc<Hold>, room: Option<Room>) {
        // The nodes' tasks may have ended with a runtime that is not the scheduler's (rule 13).
        self.nodes.ensure_running();
        let _ = self.send_renewal(hold, self.nodes.clock.read(), None, room);
    }

    /// Asks all nodes to renew a hold, or none when the hold has ended.
    pub(crate) fn send_renewal(
        self: &Arc<Self>,
        hold: &Arc<Hold>,
        start: Reading,
        asked: Option<Duration>,
        room: Option<Room>,
    ) -> Option<Arc<Round>> {
        let (early, round, look_again) = hold.while_held(|state| {
            let ttl = asked.unwrap_or(state.renewal_ttl());
            let renewal = Renewal {
                leases: Arc::downgrade(self),
                hold: Arc::downgrade(hold),
                start,
                ttl,
                asked,
                room: Mutex::new(room),
            };
            let in_doubt = state.is_in_doubt(start);
            let voters = in_doubt.then(|| state.lease().confirmed_round.voters());
            let (names, settles) = (&self.nodes.names, Tally::is_conclusive);
            let round = Round::with_on_settled(names, settles, voters, renewal);
            // An extension never shortens what is left of `min_hold`.
            let key_ttl = ttl.max(hold.earliest.since(start.now));
            let action = Action::Extend { ttl: key_ttl };
            // For the nodes that have the key: usually all of them.
            let expecting = Job::expecting(&state.lease().claim, action, state.expected());
            let look_again = state.renewal_sent(start.now, key_ttl);
            let lease = state.lease();
            let others = LazyCell::new(|| Job::new(&lease.claim, action));
            let job = |node: usize| {
                // In a doubt, the last renewal was perhaps confirmed by others.
                let has_key = !in_doubt && lease.confirmed_round.has_yes(node);
                Some(Arc::clone(if has_key { &expecting } else { &others }))
            };
            let votes = OneVote::new(&round, &self.nodes);
            Some((ask(&self.nodes, &votes, start.now, job), round, look_again))
        })?;
        if let Some(at) = look_again {
            self.registry.schedule(hold.id, at);
        }
        deliver(early);
        Some(round)
    }

    /// Sets the key again where this renewal found it missing, once a quorum has confirmed the renewal (rule 8). The
    /// key lives there for no longer than on the quorum. Without this, a held lock is lost when the nodes restart one
    /// after the other. In a doubt, another client may have the lock, and nothing is set.
    fn heal(&self, hold: &Hold, round: &Arc<Round>) {
        let reading = self.nodes.clock.read();
        let now = reading.now;
        let early = hold.while_held(|state| {
            if state.is_in_doubt(reading) {
                return None;
            }
            let lease = state.lease();
            let confirmed = Arc::ptr_eq(&lease.confirmed_round, round);
            let until = state.expected().until.max(lease.deadline).max(hold.earliest);
            let ttl = until.since(now);
            if !confirmed || ttl.is_zero() {
                return None;
            }
            let job = Job::new(&lease.claim, Action::Heal { ttl });
            let mut early = Vec::new();
            for node in round.take_missing() {
                // A heal counts as a `SET`: the release has to go to this node (rule 5).
                lease.set_round.set_again(node);
                early.extend(ask_one(&self.nodes, round, node, Arc::clone(&job)));
            }
            Some(early)
        });
        deliver(early.unwrap_or_default());
    }
}

/// Applies the votes on a renewal to its hold.
struct Renewal {
    leases: Weak<Leases>,
    hold: Weak<Hold>,
    start: Reading,
    ttl: Duration,
    /// The ttl that the holder asked for: later renewals keep it.
    asked: Option<Duration>,
    /// The place among the renewals that are in progress at once.
    room: Mutex<Option<Room>>,
}

impl Renewal {
    fn apply(&self, leases: &Leases, hold: &Hold, round: &Arc<Round>) {
        let reading = leases.nodes.clock.read();
        let in_time = hold.renewed(self.start, self.ttl, self.asked, Arc::clone(round), reading);
        hold.metered.renewal(if in_time { "renewed" } else { "late" });
        if in_time {
            // Otherwise the task would look again only when this renewal would be repeated. With a short ttl, the
            // next renewal is due before that.
            leases.registry.schedule(hold.id, hold.due_at(reading));
        }
        leases.heal(hold, round);
    }
}

impl OnSettled for Renewal {
    fn settled(&self, round: &Arc<Round>, tally: Tally) {
        // The place is given back once the outcome is applied.
        let _room = self.room.lock().take();
        let (Some(leases), Some(hold)) = (self.leases.upgrade(), self.hold.upgrade()) else {
            return;
        };
        // Counted over all nodes, never over the nodes that granted the lock.
        if tally.reached() {
            self.apply(&leases, &hold, round);
        } else if tally.impossible_by_refusals() {
            // So many nodes no longer have the key that a quorum is impossible (rule 7).
            hold.metered.renewal("refused");
            leases.end(&hold, End::Lost(LostReason::Refused));
        } else {
            hold.metered.renewal("unknown");
        }
    }

    fn is_awaited(&self) -> bool {
        self.asked.is_some()
    }

    fn late(&self, round: &Arc<Round>) {
        if let (Some(leases), Some(hold)) = (self.leases.upgrade(), self.hold.upgrade()) {
            leases.heal(&hold, round);
        }
    }
}
