//! The locks that other clients wanted a moment ago, as releases have told. Pure.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use foldhash::HashMap;

use crate::{clock::Moment, node::Secret};

/// How long this client remembers that other clients wait for a lock. The answer to a release may
/// come after the client's next request. Until a node says that no other client waits, the request
/// joins the queue instead of taking the lock from the client that has its turn.
const MEMORY: Duration = Duration::from_secs(5);

/// A client that only tries asks for a free lock that the first waiter has left alone for this long. Clients that do
/// so are not to take each turn of a waiter that is far away.
const IDLE: Duration = Duration::from_secs(1);

/// How often a client that only tries looks whether the turn of another client is still out, within the time of a turn.
const LOOKS_PER_TURN: u32 = 8;

/// The known state of locks, by their keys. Each note of any lock removes expired entries (rule 18).
#[derive(Debug, Default)]
pub(super) struct Contention {
    known: HashMap<Arc<str>, Contended>,
    order: VecDeque<(Moment, Arc<str>)>,
}

#[derive(Debug, Clone)]
struct Contended {
    /// When the turn of another client ends.
    turn: Moment,
    /// Until when another client has the turn that a node gave, or that this client assumed after a look. Until it asks,
    /// that client is in no queue.
    given: Moment,
    remembered: Moment,
    /// Until when a request that only tries need not look whether it is still that client's turn.
    looked_until: Moment,
    /// The first waiter that was seen to leave a free lock alone, and since when.
    idle: Option<(Secret, Moment)>,
}

impl Contention {
    /// Notes that other clients wait, as a release or a look has told. One of them has its turn until `turn`, if that
    /// lies ahead.
    pub(super) fn others_wait(&mut self, key: &Arc<str>, now: Moment, turn: Moment) {
        let remembered = now + MEMORY;
        // A release that gave no turn does not end the turn that an earlier one gave.
        let turn = self.known.get(key).map_or(turn, |before| turn.max(before.given));
        let contended = Contended { turn, given: turn, remembered, looked_until: now, idle: None };
        self.known.insert(Arc::clone(key), contended);
        self.order.push_back((remembered, Arc::clone(key)));
        self.forget_expired(now);
    }

    /// Removes up to two expired entries. The entries of a burst go with later notes of other locks.
    fn forget_expired(&mut self, now: Moment) {
        for _ in 0..2 {
            if self.order.front().is_some_and(|(over, _)| *over < now) {
                self.forget_first(now);
            }
        }
    }

    /// Notes that a node has shown clients that wait. `idle` is the first of them, if the node also showed that the
    /// lock is free. Returns whether these clients go first. If they do, one of them has its turn until `turn`.
    pub(super) fn looked(
        &mut self,
        key: &Arc<str>,
        idle: Option<&Secret>,
        now: Moment,
        turn: Moment,
    ) -> bool {
        let before = self.known.get(key).and_then(|it| it.idle.clone());
        let idle = idle.map(|first| match before {
            Some((same, since)) if same == *first => (same, since),
            _ => (first.clone(), now),
        });
        let goes_first = idle.as_ref().is_none_or(|(_, since)| now.since(*since) < IDLE);
        if goes_first {
            self.others_wait(key, now, turn);
        }
        if let Some(contended) = self.known.get_mut(key) {
            contended.idle = idle;
            contended.looked_until = contended.turn;
        }
        goes_first
    }

    /// Notes that a node has shown a lock for which no client waits in the queue, and that a client has its turn: it
    /// has the lock, or was not fast enough and comes back. A turn that began now would end at `until`.
    pub(super) fn turn_is_out(&mut self, key: &Arc<str>, now: Moment, until: Moment) {
        let looked_until = now + until.since(now) / LOOKS_PER_TURN;
        let turn = self.turn_of_others(key, now).unwrap_or(now).max(looked_until);
        self.others_wait(key, now, turn);
        if let Some(contended) = self.known.get_mut(key) {
            contended.looked_until = looked_until;
        }
    }

    /// Notes that a node has said that no client has its turn.
    pub(super) fn no_turn_is_out(&mut self, key: &str, now: Moment) {
        if let Some(contended) = self.get_mut(key, now) {
            contended.turn = contended.turn.min(now);
            contended.given = contended.given.min(now);
        }
    }

    /// Whether a request that only tries leaves the lock to another client without a look: that client has its turn,
    /// and a node has said so a moment ago.
    pub(super) fn yields_unseen(&mut self, key: &str, now: Moment) -> bool {
        self.get_mut(key, now).is_some_and(|it| now < it.turn && now < it.looked_until)
    }

    fn forget_first(&mut self, now: Moment) {
        if let Some((_, key)) = self.order.pop_front()
            && self.known.get(&key).is_some_and(|contended| contended.remembered < now)
        {
            self.known.remove(&key);
        }
    }

    /// Notes that the lock is released. If other clients wait for it, one of them has its turn
    /// until `turn`. A client that waited for the lock itself assumes that others do.
    pub(super) fn released(&mut self, key: &Arc<str>, now: Moment, turn: Moment, has_waited: bool) {
        if let Some(contended) = self.get_mut(key, now) {
            contended.turn = turn;
        } else if has_waited {
            self.others_wait(key, now, turn);
            if let Some(contended) = self.known.get_mut(key) {
                contended.given = now;
            }
        }
    }

    fn get_mut(&mut self, key: &str, now: Moment) -> Option<&mut Contended> {
        if self.order.is_empty() {
            return None;
        }
        self.forget_expired(now);
        self.known.get_mut(key).filter(|contended| now < contended.remembered)
    }

    /// Notes the answer to a release that was sent at `then`: no other client waits. A client that
    /// was given the turn before may be about to ask, or to come back.
    pub(super) fn no_client_waits(&mut self, key: &str, then: Moment) {
        if let Some(contended) = self.known.get_mut(key) {
            contended.turn = contended.given;
            if contended.given <= then {
                self.known.remove(key);
            }
        }
        if self.known.is_empty() {
            self.order.clear();
        }
    }

    /// Whether other clients want the lock, as far as is known.
    pub(super) fn is_contended(&mut self, key: &str, now: Moment) -> bool {
        self.get_mut(key, now).is_some()
    }

    /// Until when another client has its turn, if one has it now.
    pub(super) fn turn_of_others(&mut self, key: &str, now: Moment) -> Option<Moment> {
        self.get_mut(key, now).map(|contended| contended.turn).filter(|turn| now < *turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::ORIGIN + Duration::from_millis(ms)
    }

    fn yields(contention: &mut Contention, now: Moment) -> bool {
        contention.turn_of_others("k", now).is_some()
    }

    #[test]
    fn a_lock_is_contended_until_a_node_says_otherwise_or_for_a_while() {
        let mut contention = Contention::default();
        let key: Arc<str> = "k".into();
        assert!(!contention.is_contended(&key, at(0)) && !yields(&mut contention, at(0)));
        contention.released(&key, at(0), at(100), false);
        assert!(!yields(&mut contention, at(0)), "no client was there");
        contention.released(&key, at(0), at(100), true);
        assert!(yields(&mut contention, at(99)), "it has waited itself");
        contention.no_client_waits(&key, at(0));
        assert!(!contention.is_contended(&key, at(0)));

        contention.others_wait(&key, at(0), at(100));
        assert!(yields(&mut contention, at(99)) && !yields(&mut contention, at(100)));
        assert!(contention.is_contended(&key, at(4999)));
        contention.released(&key, at(300), at(400), false);
        assert!(yields(&mut contention, at(399)), "whatever the answer will be");
        assert!(!contention.is_contended(&key, at(5000)), "it is forgotten");

        contention.others_wait(&key, at(6000), at(6100));
        contention.released(&key, at(6050), at(6150), false);
        contention.no_client_waits(&key, at(6050));
        assert!(yields(&mut contention, at(6099)), "it is on its way");
        assert!(!yields(&mut contention, at(6100)) && contention.is_contended(&key, at(6100)));
        contention.no_client_waits(&key, at(6100));
        assert!(!contention.is_contended(&key, at(6100)));
    }

    #[test]
    fn a_release_that_gave_no_turn_tells_that_others_wait() {
        let mut contention = Contention::default();
        let key: Arc<str> = "k".into();
        contention.others_wait(&key, at(0), at(0));
        assert!(contention.is_contended(&key, at(0)) && !yields(&mut contention, at(0)));
        contention.released(&key, at(10), at(110), false);
        assert!(yields(&mut contention, at(109)), "one of them may have its turn");
        contention.others_wait(&key, at(10), at(10));
        assert!(!yields(&mut contention, at(10)), "none of them has it");

        contention.others_wait(&key, at(20), at(120));
        contention.others_wait(&key, at(30), at(30));
        assert!(yields(&mut contention, at(119)), "it is on its way");
    }

    #[test]
    fn a_waiter_that_leaves_a_free_lock_alone_goes_first_for_a_while() {
        let mut contention = Contention::default();
        let key: Arc<str> = "k".into();
        let [first, other] = ["first", "other"].map(|it| Secret(it.to_owned()));
        for (now, idle, goes_first) in [
            (0, None, true),
            (2000, Some(&first), true),
            (2500, None, true),
            (3000, Some(&first), true),
            (3999, Some(&other), true),
            (4998, Some(&other), true),
            (5200, Some(&other), false),
            (5300, Some(&other), false),
            (5400, Some(&first), true),
        ] {
            assert_eq!(contention.looked(&key, idle, at(now), at(now + 100)), goes_first, "{now}");
            assert_eq!(yields(&mut contention, at(now + 10)), goes_first, "{now}");
            assert!(contention.is_contended(&key, at(now)));
        }
    }

    /// The client with the turn has taken the lock and released it again.
    #[test]
    fn a_turn_ends_when_a_node_says_that_none_is_out() {
        let mut contention = Contention::default();
        let key: Arc<str> = "k".into();
        contention.others_wait(&key, at(0), at(100));
        assert!(!contention.yields_unseen(&key, at(10)), "it looks");
        contention.turn_is_out(&key, at(10), at(90));
        assert!(contention.yields_unseen(&key, at(19)) && !contention.yields_unseen(&key, at(20)));
        assert!(yields(&mut contention, at(99)));
        contention.turn_is_out(&key, at(200), at(280));
        assert!(contention.yields_unseen(&key, at(209)) && !yields(&mut contention, at(210)));
        contention.others_wait(&key, at(0), at(100));
        contention.no_turn_is_out(&key, at(20));
        assert!(!yields(&mut contention, at(20)) && contention.is_contended(&key, at(20)));
        // Clients that wait are believed in for longer.
        let first = Secret("first".to_owned());
        assert!(contention.looked(&key, Some(&first), at(30), at(130)));
        assert!(contention.yields_unseen(&key, at(129)));
        contention.no_turn_is_out(&key, at(40));
        assert!(!yields(&mut contention, at(40)));
    }

    #[test]
    fn expired_entries_are_removed() {
        let mut contention = Contention::default();
        for number in 0..100_000_u64 {
            let key = number.to_string().into();
            contention.others_wait(&key, at(number), at(number));
        }
        assert!(contention.known.len() < 6000, "{}", contention.known.len());
        assert!(contention.order.len() < 6000);
        // Those of a burst go, too, when other locks are used after it.
        for number in 0..6000 {
            assert!(!contention.is_contended("free", at(200_000 + number)));
        }
        assert!(contention.known.is_empty() && contention.order.is_empty());
    }
}
