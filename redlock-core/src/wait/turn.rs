//! A place in a queue, and a turn. Dropping such a value passes on what it stands for.

use std::{fmt, future::poll_fn, sync::Arc, task::Poll, time::Duration};

use super::{
    entry::Entry,
    failed_attempt::FailedAttempt,
    queued_task::QueuedTask,
    queues::Queues,
    wants::{NoTurn, Wants},
};
use crate::{
    clock::Moment,
    lease::{Hold, LeaseInTransit},
    timer,
};

/// The outcome of a place in the queue.
pub(crate) type Turn = Result<Front, NoTurn>;

/// A place in the queue. Dropping it gives the place up and passes on a turn that was given.
pub(crate) struct PendingTurn {
    queues: Arc<Queues>,
    key: Arc<str>,
    waiter: Arc<QueuedTask<Front>>,
    /// The place is no longer in the queue, and its turn was taken.
    gone: bool,
}

impl PendingTurn {
    pub(super) fn new(
        queues: &Arc<Queues>,
        key: &Arc<str>,
        waiter: Arc<QueuedTask<Front>>,
    ) -> Self {
        Self { queues: Arc::clone(queues), key: Arc::clone(key), waiter, gone: false }
    }

    /// Waits for the turn, at most for `limit`.
    pub(crate) async fn turn(mut self, limit: Duration) -> Turn {
        let turn = poll_fn(|cx| {
            self.waiter.register(cx);
            // A runtime that ended took the client's tasks with it: the waiter starts them again
            // (rule 13).
            self.queues.leases.ensure_running();
            // A runtime that stands still does not look at the hold before this waiter. A standby on the runtime of
            // the waiter ends that hold in time.
            self.queues.leases.stand_by();
            match self.waiter.take() {
                Some(turn) => Poll::Ready(turn),
                None => Poll::Pending,
            }
        });
        let turn = match timer::timeout(limit, turn).await {
            Ok(turn) => turn,
            Err(_) => {
                let no_turn = self.leave();
                // The turn may have come at the last moment.
                self.waiter.take().unwrap_or(Err(no_turn))
            }
        };
        self.gone = true;
        turn
    }

    fn leave(&self) -> NoTurn {
        self.queues.leave(&self.key, &self.waiter)
    }
}

impl Drop for PendingTurn {
    fn drop(&mut self) {
        if self.gone {
            return;
        }
        self.leave();
        let turn = self.waiter.take();
        // Outside of the lock: a turn that is given back takes the lock again.
        drop(turn);
    }
}

/// The turn to ask the nodes, or to take over the lease of the hold before. Dropping it passes the
/// turn to the next waiter and gives the lease back.
pub(crate) struct Front {
    queues: Arc<Queues>,
    key: Arc<str>,
    /// The turn came from another front, which may have left the outcome of an attempt.
    follows: bool,
    /// The lease of the hold before.
    lease: Option<Box<LeaseInTransit>>,
    /// The place among the clients that wait for the lock.
    pub(crate) entry: Option<Box<Entry>>,
    /// The turn was given beside that of the front.
    beside: Option<Box<Beside>>,
    stage: Stage,
}

/// A turn that a reader has because another reader of its client has the lock.
struct Beside {
    /// The queue in which it has waited.
    queue_name: Arc<str>,
    standing: Option<Standing>,
}

/// The place of a client among others that want the same lock, which it gives up once a reader has the lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    pub(super) joined: Moment,
    place: u64,
}

/// How far a front has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Asks,
    /// Other clients have their chance before this front asks.
    StandsBack,
    /// The front has given other clients their chance, none has used it, and the front has not been refused
    /// since.
    StoodBack,
    /// The front has the lock: nothing is passed on.
    HasLock,
}

impl Front {
    pub(super) fn new(queues: &Arc<Queues>, key: &Arc<str>) -> Self {
        Self {
            queues: Arc::clone(queues),
            key: Arc::clone(key),
            follows: false,
            lease: None,
            entry: None,
            beside: None,
            stage: Stage::Asks,
        }
    }

    pub(super) fn following(mut self) -> Self {
        self.follows = true;
        self
    }

    pub(crate) fn with(mut self, lease: Box<LeaseInTransit>) -> Self {
        self.lease = Some(lease);
        self
    }

    pub(super) fn in_queue(mut self, entry: Option<Box<Entry>>) -> Self {
        self.entry = entry;
        self
    }

    pub(super) fn standing_back(mut self, stands_back: bool) -> Self {
        self.stage = if stands_back { Stage::StandsBack } else { Stage::Asks };
        self
    }

    /// Marks it as the turn of a reader that has waited in this queue, and may have stood among other clients.
    pub(super) fn beside(mut self, queue_name: &Arc<str>, standing: Option<Standing>) -> Self {
        self.beside = Some(Box::new(Beside { queue_name: Arc::clone(queue_name), standing }));
        self
    }

    /// Whether the turn came beside that of the front. A request that is refused goes back to the queue.
    pub(crate) fn asks_beside(&self) -> bool {
        self.beside.is_some()
    }

    /// The key whose queue this is the front of.
    pub(crate) fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// The lease of the hold before, if it still suits the request.
    pub(crate) fn take_lease(&mut self, wants: Wants) -> Option<Box<LeaseInTransit>> {
        let in_transit = self.lease.take()?;
        let reading = self.queues.nodes().clock.read();
        if wants.fits(&in_transit.lease, reading) {
            return Some(in_transit);
        }
        drop(in_transit);
        self.gives_way();
        None
    }

    /// Lets another client go first. The deletes of a lease that this request has not taken over may have woken it, and
    /// their answers are yet to tell.
    pub(crate) fn gives_way(&mut self) {
        self.stage = Stage::StandsBack;
    }

    /// Whether the hold before handed its lease over.
    pub(crate) fn has_lease(&self) -> bool {
        self.lease.is_some()
    }

    /// Whether other clients have their chance before this front asks.
    pub(crate) fn stands_back(&self) -> bool {
        self.stage == Stage::StandsBack
    }

    /// Notes that no other client came while the front stood back.
    pub(crate) fn unchallenged(&mut self) {
        if self.stands_back() {
            self.stage = Stage::StoodBack;
        }
    }

    /// Notes that the front waits for its chance before it asks any node.
    pub(crate) fn defers(&self) {
        self.queues.front_defers(&self.key);
    }

    /// Notes that the front waits for its chance, and asks no node before that, if no attempt for its key is known.
    pub(crate) fn defers_unasked(&self) {
        self.queues.front_defers_unasked(&self.key);
    }

    /// Notes that the front asks now.
    pub(crate) fn asks(&self) {
        self.queues.front_asks(&self.key);
    }

    /// Resolves when a request behind the front would have asked by now. The front itself would ask every `pace`.
    pub(crate) fn hurried(&self, pace: Duration) -> impl Future<Output = ()> + Send + 'static {
        let (queues, key) = (Arc::clone(&self.queues), Arc::clone(&self.key));
        async move { hurried(&queues, &key, pace).await }
    }

    /// While this is polled, answers each request behind the front that tries only once, by the time when the request
    /// would have asked itself.
    pub(crate) fn refusing_single_tries(&self) -> impl Future<Output = ()> + Send + 'static {
        let (queues, key) = (Arc::clone(&self.queues), Arc::clone(&self.key));
        async move {
            loop {
                hurried(&queues, &key, Duration::ZERO).await;
                queues.refuse_single_tries(&key);
            }
        }
    }

    /// Answers the requests behind it that try only once. The lock is not this client's to take now.
    pub(crate) fn refuses_single_tries(&self) {
        self.queues.refuse_single_tries(&self.key);
    }

    /// Notes that a node has said that no other client has its turn.
    pub(crate) fn no_turn_is_out(&self) {
        self.queues.no_turn_is_out(&self.key, self.queues.nodes().clock.now());
    }

    /// Until when another client has its turn, if one has it now.
    pub(crate) fn turn_of_others(&self) -> Option<Moment> {
        let now = self.queues.nodes().clock.now();
        let known = self.queues.turn_of_others(&self.key, now);
        known.max(self.entry.as_ref().and_then(|entry| entry.shown_turn.lasts_until(now)))
    }

    /// The outcome of the last attempt of the previous front. The nodes need not be asked again,
    /// unless it is too old for a request that tries only once.
    pub(crate) fn known(&self, wants: Wants) -> Option<Arc<FailedAttempt>> {
        if !self.follows {
            return None;
        }
        self.queues.known(&self.key, wants)
    }

    /// How many tasks wait behind it that want a token with the lock.
    pub(crate) fn fenced_behind(&self) -> usize {
        self.queues.waiting_fenced(&self.key)
    }

    /// How long this client has been without the lock.
    pub(crate) fn without(&self) -> Duration {
        self.queues.without(&self.key)
    }

    /// Notes that the attempt of this front has failed.
    pub(crate) fn failed(&mut self, failure: &Arc<FailedAttempt>) {
        self.stage = Stage::Asks;
        self.queues.attempt_failed(&self.key, failure);
    }

    /// The place in the queue between clients; zero without one.
    pub(crate) fn place(&self) -> u64 {
        self.standing().map_or(0, |standing| standing.place)
    }

    /// Has the node that keeps its place push changes of the lock, or not any more.
    pub(crate) fn follow_lock(&mut self, follows: bool) {
        if let Some(entry) = &mut self.entry {
            entry.follow_lock(follows);
        }
    }

    fn standing(&self) -> Option<Standing> {
        match &self.entry {
            Some(entry) => Some(Standing { joined: entry.joined, place: entry.place() }),
            None => self.beside.as_ref()?.standing,
        }
    }

    /// Whether another client has given it the turn, at some time.
    pub(crate) fn had_turn(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.had_turn())
    }

    /// Leaves the queue between clients, unless a task behind this one takes the place over.
    pub(crate) fn leave(&mut self) {
        if self.queues.next_since(&self.key).is_none() {
            self.entry = None;
        }
    }

    /// Passes the turn to the next task: this one has a permit, and others may be free. Where other clients wait, that
    /// task joins their queue first.
    pub(crate) fn pass_on(mut self) {
        self.queues.attempt_succeeded(&self.key);
        if let Some(entry) = self.entry.take() {
            entry.acquired();
        }
    }

    /// Lets the next readers of this process ask at once, because a reader has the lock. Only readers that have waited
    /// since before this client joined the queue between clients may use its place there. The last of them leaves that
    /// queue, which gives the turn to the next client. If that is a writer, later readers wait behind it.
    ///
    /// Each reader that gets the lock lets two more ask, so all of them are in after a few round trips. Readers that
    /// came later ask once the node has said that no other client waits.
    pub(crate) fn share(mut self) {
        if let Some(standing) = self.standing() {
            // The drop of a front lets one ask as well.
            let (queue_name, count) =
                self.beside.as_ref().map_or((&self.key, 1), |it| (&it.queue_name, 2));
            self.queues.let_readers_in(queue_name, count, Some(standing));
        }
        let is_earlier = |entry: &Entry| {
            self.queues.next_since(&self.key).is_some_and(|since| since <= entry.joined)
        };
        if !self.entry.as_deref().is_some_and(is_earlier)
            && let Some(entry) = self.entry.take()
        {
            let (queues, queue_name) = (Arc::downgrade(&self.queues), Arc::clone(&self.key));
            entry.shares(move || {
                if let Some(queues) = queues.upgrade() {
                    queues.let_readers_in(&queue_name, usize::MAX, None);
                }
            });
        }
    }

    /// Notes that the hold has the lock. If it has ended already, the turn passes on.
    pub(crate) fn acquired(mut self, hold: &Arc<Hold>, now: Moment) {
        if let Some(entry) = self.entry.take() {
            entry.acquired();
        }
        let unchallenged = self.stage == Stage::StoodBack;
        if self.queues.acquired(&self.key, hold, unchallenged, now) {
            self.stage = Stage::HasLock;
        }
    }
}

/// Resolves when a request behind the front of a queue would have asked by now.
async fn hurried(queues: &Queues, key: &str, pace: Duration) {
    let hurry = queues.hurry(key);
    loop {
        let hurried = queues.listens(key, pace);
        let left = hurried.map(|at| at.since(queues.nodes().clock.now()));
        tokio::select! {
            biased;
            () = timer::sleep(left.unwrap_or_default()), if left.is_some() => return,
            () = hurry.told() => {}
        }
    }
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Front").field("stage", &self.stage).finish_non_exhaustive()
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        // The lease goes first: the next waiter asks behind its deletes.
        drop(self.lease.take());
        if self.stage != Stage::HasLock {
            let now = self.queues.nodes().clock.now();
            let entry = self.entry.take();
            let left = self.queues.promote(&self.key, now, entry);
            // Outside of the lock: the entry leaves the queue.
            drop(left);
        }
    }
}
