//! All queues of one client, and the turns that pass through them: the tasks get a lock in the order in
//! which they came, and a released lock passes straight to the next waiter.
//!
//! A queue exists for as long as a task of this client holds the resource, asks for it or waits for
//! it (rule 18).

pub(super) mod all;
mod beside;
mod fronts;
mod others;

use std::{
    collections::hash_map::Entry::{Occupied, Vacant},
    hash::BuildHasher,
    sync::{Arc, Weak},
    task::Waker,
    time::Duration,
};

use foldhash::{HashMap, fast::FixedState};

use super::{
    contention::Contention,
    entry::Entry,
    queue::{Occupant, Queue},
    queued_task::{Hurry, QueuedTask},
    turn::{Front, PendingTurn},
    wants::{NoTurn, Wants},
};
use crate::{
    clock::{Moment, Reading},
    lease::{Hold, HoldId, InFlightGuard, LeaseInTransit, LeaseListener, LeaseState, Leases},
    quorum::Nodes,
    sync::Mutex,
};

/// The number of parts that the queues of a client are kept in, so that unrelated resources seldom
/// contend for one mutex.
const SHARDS: usize = 16;

/// All queues of one client, by key.
#[derive(Debug)]
pub(crate) struct Queues {
    pub(crate) leases: Arc<Leases>,
    /// The most waiters for one resource.
    max_waiters: usize,
    shards: [Mutex<Inner>; SHARDS],
}

#[derive(Debug, Default)]
struct Inner {
    by_key: HashMap<Arc<str>, Queue<Front>>,
    contention: Contention,
    /// Tasks to wake once nothing is locked. A waker may poll its task at once, and the task takes
    /// the lock again.
    wakes: Vec<Waker>,
    /// No turns are given any more.
    closed: bool,
}

/// The answer to a request that joins.
pub(crate) enum Joined {
    /// The request is the first, and has its turn.
    First(Front),
    /// There is no turn for it.
    Refused(NoTurn),
    /// Other requests are before it.
    Waiting(PendingTurn),
}

impl Queues {
    pub(crate) fn new(nodes: &Arc<Nodes>, max_waiters: usize) -> Arc<Self> {
        Arc::new_cyclic(|this: &Weak<Self>| {
            let waiters = Weak::clone(this) as Weak<dyn LeaseListener>;
            Self {
                leases: Arc::new(Leases::new(nodes, waiters)),
                max_waiters,
                shards: Default::default(),
            }
        })
    }

    /// The nodes, with the clock that the queues go by.
    pub(crate) fn nodes(&self) -> &Arc<Nodes> {
        &self.leases.nodes
    }

    /// A lease that no hold has yet. A shutdown waits for it.
    pub(crate) fn in_transit(
        self: &Arc<Self>,
        lease: LeaseState,
        in_flight: InFlightGuard,
    ) -> Box<LeaseInTransit> {
        LeaseInTransit::new(lease, in_flight, Arc::<Self>::clone(self))
    }

    fn shard(&self, key: &str) -> &Mutex<Inner> {
        // The same in every run, because a shutdown wakes the waiters of one shard after the other. The maps
        // have seeds of their own: the hashes of the keys in one shard would be too much alike.
        let shard = FixedState::default().hash_one(key) % SHARDS as u64;
        &self.shards[usize::try_from(shard).unwrap_or(0)]
    }

    /// Runs `act` on the part with this key, and wakes the collected tasks once it is unlocked.
    fn locked<T>(&self, key: &str, act: impl FnOnce(&mut Inner) -> T) -> T {
        Self::unlocked(self.shard(key), act)
    }

    fn unlocked<T>(shard: &Mutex<Inner>, act: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = shard.lock();
        let acted = act(&mut inner);
        let wakes = std::mem::take(&mut inner.wakes);
        drop(inner);
        wakes.into_iter().for_each(Waker::wake);
        acted
    }

    /// Joins the queue for a key. The first request of a queue gets the turn at once.
    pub(crate) fn join(self: &Arc<Self>, key: &Arc<str>, wants: Wants, now: Moment) -> Joined {
        let joined = self.locked(key, |inner| inner.join(self, key, wants, now));
        let holder = match joined {
            Ok(joined) => return joined,
            Err(holder) => holder,
        };
        // The clock alone decides validity. A holder that has lost the lock without noticing must
        // not block the queue: judging it tells the queue.
        if let Some(hold) = holder.upgrade() {
            self.leases.judge(&hold);
        }
        self.locked(key, |inner| match inner.join(self, key, wants, now) {
            Ok(joined) => joined,
            Err(_) => inner.enqueue(self, key, wants, now),
        })
    }

    /// Passes the lease of a hold that has ended to the next waiter. False when the keys have to be
    /// deleted: no task waits, the lease does not suit the next waiter, or it is the turn of other
    /// clients. The lease of a set suits no waiter, since the next in one of its queues need not be the
    /// next in the others.
    pub(crate) fn hand_over(
        self: &Arc<Self>,
        id: HoldId,
        lease: &LeaseState,
        clock: Reading,
    ) -> bool {
        self.locked(&lease.claim.key, |inner| inner.hand_over(self, id, lease, clock))
    }

    /// Has the next waiter ask, because this hold does not have the lock any more. After a streak,
    /// other clients have their chance first.
    pub(crate) fn pass_on(self: &Arc<Self>, key: &Arc<str>, id: HoldId, now: Moment) {
        self.locked(key, |inner| {
            let Occupied(mut entry) = inner.by_key.entry(Arc::clone(key)) else { return };
            let queue = entry.get_mut();
            if !queue.is_held_by(id) {
                return;
            }
            if queue.waiting.is_empty() {
                entry.remove();
                return;
            }
            queue.occupant = Occupant::Asking;
            queue.waiting_since = now;
            let none = inner.promote(self, key, now, None);
            debug_assert!(none.is_none());
        });
    }

    /// Gives a place up. Returns what a waiter without a turn is told.
    pub(super) fn leave(&self, key: &str, waiter: &Arc<QueuedTask<Front>>) -> NoTurn {
        self.locked(key, |inner| {
            let Some(queue) = inner.by_key.get_mut(key) else { return NoTurn::Busy };
            queue.take_out(waiter);
            queue.gives_up(waiter, self.nodes().clock.now())
        })
    }

    /// Gives the turn of the front to the next task, with its place among other clients. The place
    /// comes back when no task of this client takes the turn.
    #[must_use]
    pub(super) fn promote(
        self: &Arc<Self>,
        key: &Arc<str>,
        now: Moment,
        entry: Option<Box<Entry>>,
    ) -> Option<Box<Entry>> {
        self.locked(key, |inner| inner.promote(self, key, now, entry))
    }

    fn with_queue<T>(&self, key: &str, change: impl FnOnce(&mut Queue<Front>) -> T) -> Option<T> {
        self.locked(key, |inner| inner.by_key.get_mut(key).map(change))
    }

    /// How long this client has been without the lock.
    pub(super) fn without(&self, key: &str) -> Duration {
        let now = self.nodes().clock.now();
        self.with_queue(key, |queue| now.since(queue.waiting_since)).unwrap_or_default()
    }

    /// Since when the next task in the queue has waited.
    pub(super) fn next_since(&self, key: &str) -> Option<Moment> {
        self.with_queue(key, |queue| queue.waiting.front().map(|next| next.since)).flatten()
    }

    /// How many tasks wait for the lock with a token, as far as it makes a difference.
    pub(super) fn waiting_fenced(&self, key: &str) -> usize {
        self.with_queue(key, |queue| queue.waiting_fenced()).unwrap_or_default()
    }

    /// The signal that a waiter behind the front would ask earlier than the front does.
    pub(super) fn hurry(&self, key: &str) -> Arc<Hurry> {
        self.with_queue(key, |queue| Arc::clone(queue.hurry())).unwrap_or_default()
    }

    /// Notes that the front listens, and would ask every `pace`. Returns when a waiter behind it
    /// would ask, if one would ask earlier.
    pub(super) fn listens(&self, key: &str, pace: Duration) -> Option<Moment> {
        self.with_queue(key, |queue| queue.listens(pace)).flatten()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.lock().by_key.is_empty())
    }

    /// Lets the queue begin a new streak, as if it had taken the lock just now.
    #[cfg(test)]
    pub(crate) fn begin_anew(&self, key: &str) {
        self.with_queue(key, |queue| queue.streak.begin_anew());
    }
}

impl Inner {
    fn hand_over(
        &mut self,
        owner: &Arc<Queues>,
        id: HoldId,
        lease: &LeaseState,
        clock: Reading,
    ) -> bool {
        let Self { by_key, wakes, .. } = self;
        let Some(queue) = by_key.get_mut(&lease.claim.key) else { return false };
        let suits = |next: &Arc<QueuedTask<Front>>| next.wants.fits(lease, clock);
        if !queue.is_held_by(id)
            || !queue.streak.may_go_on(clock.now)
            || !queue.waiting.front().is_some_and(suits)
        {
            return false;
        }
        let Some(next) = queue.waiting.pop_front() else { return false };
        queue.occupant = Occupant::Asking;
        queue.front_since = next.since;
        queue.streak.handed_on();
        // The lease may no longer suit the waiter when the waiter looks at it.
        queue.waiting_since = clock.now;
        let key = &lease.claim.key;
        let lease = owner.in_transit(lease.clone(), owner.leases.track_in_flight());
        let front = Front::new(owner, key).with(lease);
        wakes.extend(next.give(Ok(front)));
        true
    }

    /// Err with the hold that is registered as the holder.
    fn join(
        &mut self,
        owner: &Arc<Queues>,
        key: &Arc<str>,
        wants: Wants,
        now: Moment,
    ) -> Result<Joined, Weak<Hold>> {
        if self.closed {
            return Ok(Joined::Refused(NoTurn::Closed));
        }
        match self.by_key.entry(Arc::clone(key)) {
            Vacant(entry) => {
                if wants.tries_once && self.contention.yields_unseen(key, now) {
                    // The request yields to other clients like every other attempt.
                    return Ok(Joined::Refused(NoTurn::Busy));
                }
                let is_contended = self.contention.is_contended(key, now);
                entry.insert(Queue::new(is_contended, now));
                Ok(Joined::First(Front::new(owner, key).standing_back(is_contended)))
            }
            Occupied(entry) => match &entry.get().occupant {
                Occupant::Held(_, hold) => Err(Weak::clone(hold)),
                Occupant::Asking => Ok(self.enqueue(owner, key, wants, now)),
            },
        }
    }

    fn enqueue(
        &mut self,
        owner: &Arc<Queues>,
        key: &Arc<str>,
        wants: Wants,
        now: Moment,
    ) -> Joined {
        let Some(queue) = self.by_key.get_mut(key) else { return Joined::Refused(NoTurn::Busy) };
        if wants.tries_once {
            let asked_at = owner.nodes().clock.now();
            if queue.knows(wants.retry_delay, asked_at) {
                return Joined::Refused(queue.no_turn(wants.retry_delay, asked_at));
            }
            if self.contention.turn_of_others(key, now).is_some() {
                // The front would ask on its behalf, and take the lock from the client that has its turn.
                return Joined::Refused(NoTurn::Busy);
            }
        }
        if queue.waiters() >= owner.max_waiters {
            return Joined::Refused(queue.no_room());
        }
        let waiter = QueuedTask::new(wants, now);
        queue.take_in(&waiter, queue.waiting.len());
        if wants.hurries(queue.pace) {
            self.wakes.extend(queue.hurry().tell());
        }
        Joined::Waiting(PendingTurn::new(owner, key, waiter))
    }

    /// Makes the next in the queue the front. Without one there is no queue, and the entry is the caller's
    /// to drop, with no lock held.
    fn promote(
        &mut self,
        owner: &Arc<Queues>,
        key: &Arc<str>,
        now: Moment,
        entry: Option<Box<Entry>>,
    ) -> Option<Box<Entry>> {
        let Some(queue) = self.by_key.get_mut(key) else { return entry };
        let Some(next) = queue.waiting.pop_front() else {
            self.by_key.remove(key);
            return entry;
        };
        let lets_others_in = queue.streak.is_contended() || !queue.streak.may_go_on(now);
        queue.streak.begin_anew();
        queue.defers = false;
        queue.front_since = next.since;
        // The place of a client that has not asked yet is no reason to ask in the turn of another one.
        let has_asked = queue.has_asked();
        let waits = |entry: &Entry| !has_asked && !entry.has_turn();
        let stands_back = lets_others_in && entry.as_deref().is_none_or(waits);
        let front = Front::new(owner, key).following().standing_back(stands_back);
        self.wakes.extend(next.give(Ok(front.in_queue(entry))));
        None
    }
}
