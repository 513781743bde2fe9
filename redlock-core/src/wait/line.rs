//! The queue in the process: first come, first served, and a lock that is let go of passes
//! straight to the next in line.
//!
//! A line exists for as long as somebody of this client holds the resource, asks for it or waits
//! for it (rule 18). It has one holder: a [`Head`], who alone asks the nodes, or a hold. Everything
//! that a turn consists of is a value that gives the turn back when it is dropped, so that a task
//! that goes away never leaves the line standing.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    fmt,
    future::poll_fn,
    mem,
    sync::{Arc, Weak},
    task::Poll,
    time::Duration,
};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

use super::pace::Streak;
use crate::{
    client::Client,
    clock::Moment,
    lease::{Hold, HoldId, Judgement, Lease},
    op::{acquire::Failure, release},
    options::Terms,
};

/// All lines of one client, by key.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    lines: HashMap<Arc<str>, Line>,
    /// No turns are given any more.
    closed: bool,
}

#[derive(Debug)]
struct Line {
    holder: Holder,
    waiting: VecDeque<Arc<Waiter>>,
    /// What the head's last attempt came to: what those behind it are told when they give up.
    last: Option<Arc<Failure>>,
    streak: Streak,
}

#[derive(Debug)]
enum Holder {
    /// It is somebody's turn to ask the nodes.
    Head,
    Hold(HoldId, Weak<Hold>),
}

/// What a request needs of a lease to take it over as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wants {
    ttl: Duration,
    clock_drift_factor: f64,
    /// Its keys have to live longer than the ttl says: they have to be set anew.
    min_hold: bool,
    /// It does not wait: it wants to know what the attempt under way comes to.
    once: bool,
}

impl Wants {
    pub(crate) fn new(terms: &Terms) -> Self {
        Self {
            ttl: terms.ttl,
            clock_drift_factor: terms.clock_drift_factor,
            min_hold: !terms.min_hold.is_zero(),
            once: terms.wait.is_zero() || terms.retry_count == Some(0),
        }
    }

    /// Whether a lease that a hold has ended with will do: at least two thirds of the ttl are
    /// left, so that the next holder is as well off as one that has just renewed.
    fn fits(&self, lease: &Lease, clock_drift_factor: f64, now: Moment) -> bool {
        let same_drift = self.clock_drift_factor.total_cmp(&clock_drift_factor).is_eq();
        !self.min_hold && same_drift && lease.deadline.since(now) >= self.ttl * 2 / 3
    }
}

/// Why there is no turn.
#[derive(Debug, Clone)]
pub(crate) enum Refusal {
    /// This very client has the lock.
    HeldHere,
    /// The head's last attempt failed like this.
    Failed(Arc<Failure>),
    /// Nothing is known yet, or too many wait.
    Busy,
}

/// What a request meets when it comes.
pub(crate) enum Joined {
    /// Nobody was there: it may ask the nodes.
    Head(Head),
    Waiting(Place),
    Refused(Refusal),
    Closed,
}

/// What a place in the line comes to.
pub(crate) enum Turn {
    /// To ask the nodes.
    Head(Head),
    /// A lease that can be taken over as it is.
    Lease(Baton),
    Refused(Refusal),
    Closed,
}

/// One who waits. Its turn is given under the lock of the lines.
struct Waiter {
    wants: Wants,
    turn: Mutex<Option<Turn>>,
    task: AtomicWaker,
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").field("wants", &self.wants).finish_non_exhaustive()
    }
}

impl Waiter {
    fn give(&self, turn: Turn) {
        *self.turn.lock() = Some(turn);
        self.task.wake();
    }
}

impl Lines {
    /// Stands in line for a key, or asks at once when nobody is there.
    pub(crate) fn join(client: &Arc<Client>, key: &Arc<str>, wants: Wants) -> Joined {
        let lines = &client.lines;
        loop {
            let hold = match lines.inner.lock().join(client, key, wants) {
                Ok(joined) => return joined,
                Err(hold) => hold,
            };
            // Validity is a matter of the clock: a holder that has lost the lock without anybody
            // noticing does not stand in the way.
            if let Some(Judgement::Ended(_)) | None = hold.1.upgrade().map(|hold| hold.judge()) {
                lines.vacate(client, key, hold.0);
            }
            let mut inner = lines.inner.lock();
            if let Some(line) = inner.lines.get_mut(key)
                && line.is_held_by(hold.0)
            {
                return line.queue(client, key, wants);
            }
        }
    }

    /// Whether this client has the lock.
    pub(crate) fn holds(&self, key: &str) -> bool {
        let inner = self.inner.lock();
        inner.lines.get(key).is_some_and(|line| matches!(line.holder, Holder::Hold(..)))
    }

    /// Passes the lease of a hold that has ended to the next in line. False when it has to be
    /// released: nobody waits, or it does not suit who does, or it is the others' turn.
    pub(crate) fn hand_over(&self, hold: &Arc<Hold>, lease: &Lease, now: Moment) -> bool {
        let key = &lease.claim.key;
        let mut inner = self.inner.lock();
        if inner.closed {
            return false;
        }
        let Some(line) = inner.lines.get_mut(key) else { return false };
        let suits =
            |next: &Arc<Waiter>| next.wants.fits(lease, hold.clock_drift_factor, now);
        if !line.is_held_by(hold.id)
            || !line.streak.goes_on(now)
            || !line.waiting.front().is_some_and(suits)
        {
            return false;
        }
        let Some(next) = line.waiting.pop_front() else { return false };
        line.holder = Holder::Head;
        let head = Head::new(&hold.client, key, None);
        next.give(Turn::Lease(Baton { head: Some(head), lease: Some(lease.clone()) }));
        true
    }

    /// The hold does not have the lock any more: it is the next one's turn to ask. After a streak
    /// only once others have had the chance.
    pub(crate) fn vacate(&self, client: &Arc<Client>, key: &Arc<str>, id: HoldId) {
        let now = client.clock.now();
        let mut inner = self.inner.lock();
        let Some(line) = inner.lines.get_mut(key) else { return };
        if line.is_held_by(id) {
            let stand_back = line.streak.stand_back(now);
            inner.promote(client, key, stand_back);
        }
    }

    /// Gives no turns any more, and tells all who wait.
    pub(crate) fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        for line in inner.lines.values_mut() {
            for waiter in line.waiting.drain(..) {
                waiter.give(Turn::Closed);
            }
        }
    }

    /// Has all who wait look after themselves: their client's tasks have ended.
    pub(crate) fn nudge(&self) {
        let inner = self.inner.lock();
        for line in inner.lines.values() {
            line.waiting.iter().for_each(|waiter| waiter.task.wake());
        }
    }
}

impl Inner {
    /// Err with who is said to have the lock, for the caller to see whether that is true.
    fn join(
        &mut self,
        client: &Arc<Client>,
        key: &Arc<str>,
        wants: Wants,
    ) -> Result<Joined, (HoldId, Weak<Hold>)> {
        if self.closed {
            return Ok(Joined::Closed);
        }
        match self.lines.entry(Arc::clone(key)) {
            Entry::Vacant(entry) => {
                entry.insert(Line {
                    holder: Holder::Head,
                    waiting: VecDeque::new(),
                    last: None,
                    streak: Streak::new(client.clock.now()),
                });
                Ok(Joined::Head(Head::new(client, key, None)))
            }
            Entry::Occupied(mut entry) => match &entry.get().holder {
                Holder::Hold(id, hold) => Err((*id, Weak::clone(hold))),
                Holder::Head => Ok(entry.get_mut().queue(client, key, wants)),
            },
        }
    }

    /// Makes the next in line the head; without one there is no line.
    fn promote(&mut self, client: &Arc<Client>, key: &Arc<str>, pause: Option<Duration>) {
        let Some(line) = self.lines.get_mut(key) else { return };
        match line.waiting.pop_front() {
            Some(next) => {
                line.holder = Holder::Head;
                next.give(Turn::Head(Head::new(client, key, pause)));
            }
            None => {
                self.lines.remove(key);
            }
        }
    }
}

impl Line {
    fn is_held_by(&self, id: HoldId) -> bool {
        matches!(self.holder, Holder::Hold(holder, _) if holder == id)
    }

    /// What those who do not get a turn are told.
    fn refusal(&self) -> Refusal {
        match (&self.holder, &self.last) {
            (Holder::Hold(..), _) => Refusal::HeldHere,
            (Holder::Head, Some(failure)) => Refusal::Failed(Arc::clone(failure)),
            (Holder::Head, None) => Refusal::Busy,
        }
    }

    fn queue(&mut self, client: &Arc<Client>, key: &Arc<str>, wants: Wants) -> Joined {
        let known = !matches!(self.refusal(), Refusal::Busy);
        if (wants.once && known) || self.waiting.len() >= client.settings.max_waiters {
            return Joined::Refused(self.refusal());
        }
        let waiter =
            Arc::new(Waiter { wants, turn: Mutex::default(), task: AtomicWaker::new() });
        self.waiting.push_back(Arc::clone(&waiter));
        Joined::Waiting(Place { client: Arc::clone(client), key: Arc::clone(key), waiter })
    }

    /// Tells those who do not wait what there is to tell.
    fn tell_once(&mut self) {
        let refusal = self.refusal();
        self.waiting.retain(|waiter| {
            if waiter.wants.once {
                waiter.give(Turn::Refused(refusal.clone()));
            }
            !waiter.wants.once
        });
    }
}

/// A place in the line. Dropped, it is given up, and a turn that had come is passed on.
pub(crate) struct Place {
    client: Arc<Client>,
    key: Arc<str>,
    waiter: Arc<Waiter>,
}

impl Place {
    /// Waits for its turn, at most for `limit`; what those ahead came to when it does not come.
    pub(crate) async fn turn(self, limit: Duration) -> Turn {
        let turn = poll_fn(|cx| {
            self.waiter.task.register(cx.waker());
            // A runtime that ended took the client's tasks with it; whoever waits starts them
            // again (rule 13).
            self.client.ensure_running();
            match self.waiter.turn.lock().take() {
                Some(turn) => Poll::Ready(turn),
                None => Poll::Pending,
            }
        });
        match tokio::time::timeout(limit, turn).await {
            Ok(turn) => turn,
            Err(_) => self.give_up(),
        }
    }

    fn give_up(self) -> Turn {
        let refusal = self.leave();
        // It may have come at the last moment.
        self.waiter.turn.lock().take().unwrap_or(Turn::Refused(refusal))
    }

    fn leave(&self) -> Refusal {
        let mut inner = self.client.lines.inner.lock();
        let Some(line) = inner.lines.get_mut(&self.key) else { return Refusal::Busy };
        line.waiting.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
        line.refusal()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
        // Outside of the lock, which a turn that is given back takes again.
        let turn = self.waiter.turn.lock().take();
        drop(turn);
    }
}

/// The turn to ask the nodes. Dropped, it is the next one's.
pub(crate) struct Head {
    client: Arc<Client>,
    key: Arc<str>,
    /// To stand back for this long before asking: others had no chance for a while.
    pause: Option<Duration>,
    over: bool,
}

impl Head {
    fn new(client: &Arc<Client>, key: &Arc<str>, pause: Option<Duration>) -> Self {
        Self { client: Arc::clone(client), key: Arc::clone(key), pause, over: false }
    }

    pub(crate) fn key(&self) -> &Arc<str> {
        &self.key
    }

    pub(crate) fn pause(&self) -> Option<Duration> {
        self.pause
    }

    fn with_line(&self, change: impl FnOnce(&mut Line)) {
        if let Some(line) = self.client.lines.inner.lock().lines.get_mut(&self.key) {
            change(line);
        }
    }

    /// An attempt failed.
    pub(crate) fn failed(&mut self, failure: &Arc<Failure>) {
        self.pause = None;
        self.with_line(|line| {
            line.streak.has_company();
            line.last = Some(Arc::clone(failure));
            line.tell_once();
        });
    }

    /// The nodes have given the lock to this hold.
    pub(crate) fn acquired(self, hold: &Arc<Hold>) {
        let now = self.client.clock.now();
        self.with_line(|line| {
            line.streak.start(now);
            if self.pause.is_some() {
                line.streak.was_alone();
            }
        });
        self.held(hold);
    }

    /// The lock passes to this hold.
    fn held(mut self, hold: &Arc<Hold>) {
        self.over = true;
        self.with_line(|line| {
            line.holder = Holder::Hold(hold.id, Arc::downgrade(hold));
            line.last = None;
            line.tell_once();
        });
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        if !self.over {
            self.client.lines.inner.lock().promote(&self.client, &self.key, None);
        }
    }
}

/// A lease on its way from one hold to the next. Dropped, it is released.
pub(crate) struct Baton {
    head: Option<Head>,
    lease: Option<Lease>,
}

impl Baton {
    /// Takes the lease over, if it is still worth it; else the turn is to ask the nodes.
    pub(crate) fn take(
        mut self,
        still_worth_it: impl FnOnce(&Lease) -> bool,
        hold: impl FnOnce(Lease) -> Arc<Hold>,
    ) -> Result<Arc<Hold>, Option<Head>> {
        if self.lease.as_ref().is_some_and(still_worth_it)
            && let (Some(lease), Some(head)) = (self.lease.take(), self.head.take())
        {
            let hold = hold(lease);
            head.held(&hold);
            return Ok(hold);
        }
        self.release();
        Err(self.head.take())
    }

    fn release(&mut self) {
        if let (Some(lease), Some(head)) = (self.lease.take(), &self.head) {
            release::give_back(&head.client, &lease);
        }
    }
}

impl Drop for Baton {
    fn drop(&mut self) {
        self.release();
        // Then the head, whose turn is the next one's.
        drop(mem::take(&mut self.head));
    }
}
